// Package consume is "tidemark consume": records of a topic on the screen or
// into a script.
//
// Purpose: read from any offset or time, follow or stop, in text, JSON or a
// layout of the caller's.
// Invariants: partitions are assigned by the command itself, so nothing is
// committed and no group is disturbed; within a partition records come in
// offset order; with --exit-at-end the end is where it was at the start.
// Locks: none. Called by: internal/cli.
package consume
