// Package produce is "tidemark produce": lines or files into a topic.
//
// Purpose: the quickest way to put records into any Kafka cluster, from a shell
// or a script.
// Invariants: the command succeeds only when every record was acknowledged as
// --acks asks; memory is bounded by the client's buffer, input is never read
// ahead of it. Order within a partition is the order of the input.
// Locks: Counter guards the delivery counts, which the client's callbacks and
// the progress line share. Called by: internal/cli.
package produce
