// Package cli is the command line of tidemark: the root command and the list of
// its areas, each in a package below.
//
// Purpose: one binary, noun-verb commands, tables for people and JSON for
// scripts, exit codes 0 pass, 1 tool error, 2 finding, 3 inconclusive, 4 refused.
// Invariants: apart from "server" and "log dump" every command speaks only the
// Kafka protocol and works on any Kafka cluster.
// Locks: none. Called by: cmd/tidemark.
package cli
