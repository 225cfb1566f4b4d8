// Package line judges where a consumer group stands in one partition.
//
// Purpose: a reading (log start, committed, effect, position, log end with high
// watermark and last stable offset apart, and what the consumer's beacon says)
// becomes a line: the three gaps UNREAD, EFFECT-BEHIND and COMMIT-BEHIND, ages,
// and a verdict in words. The healthy order is
//
//	log start <= committed <= effect <= position <= log end
//
// and a broken one is EXPIRED (committed below the log start) or COMMIT-AHEAD
// (committed above the effect: a restart would skip).
// Invariants: pure: no clock, no I/O; a gap with an absent end is absent, never
// 0; a verdict that needs an absent reading is UNKNOWN and says which; "nothing
// left to read" is never called done unless the effects are known.
// Locks: none; values only. Callers: internal/ops/survey, internal/cli.
package line
