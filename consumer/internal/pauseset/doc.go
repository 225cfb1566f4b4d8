// Package pauseset decides which partitions are not fetched.
//
// Purpose: the wanted set is computed from how full each partition is, on every
// turn of the loop, and compared with what the client really has paused. It is
// level-triggered: a pause that a rebalance or a bug forgot, or left behind, is
// put right on the next turn.
// Invariants: a partition pauses at a bound and resumes at three quarters of it,
// so that it is not switched for every record; Diff names only differences.
// Locks: none, a core. Callers: the consumer's loop.
package pauseset
