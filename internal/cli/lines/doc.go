// Package lines is "tidemark lines": where consumer groups stand, partition by
// partition, with a verdict in words.
//
// Purpose: a live table or one reading of log start, committed, effect, position
// and log end, the gaps between them, ages, and what the consumer holds.
// Invariants: an absent reading prints "?" and is null in JSON, never 0; nothing
// is called by a word that means two things; it writes nothing to the cluster.
// Exit codes of one reading: 0, 2 when a line needs attention (COMMIT-AHEAD,
// EXPIRED, STALLED), 3 when one is UNKNOWN.
// Locks: none. Called by: internal/cli, and by why and exporter for their flags.
package lines
