// Package boundary is a place in the log of each partition, and the offsets that
// may be missing from a reading.
//
// Purpose: one type for what a checkpoint, a barrier, a snapshot and a replay
// start have in common: the next offset and its leader epoch per partition, and
// the clock at which it was read.
// Invariants: an offset that was not read is absent, never 0 and never -1; points
// of different partitions, or of different topics under one name, are never
// compared: there is no order between them.
// Locks: none; values only. Callers: internal/ops, internal/cli.
package boundary
