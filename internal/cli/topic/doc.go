// Package topic is "tidemark topic": create, list, describe, alter, delete, grow.
//
// Purpose: the life of a topic from the command line, on any Kafka cluster.
// Invariants: only the Kafka protocol is spoken; alter and grow change nothing
// that was not named; delete asks, or wants --yes.
// Locks: none. Called by: internal/cli.
package topic
