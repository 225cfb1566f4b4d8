// Package commitplan decides when a partition commits and what an answer means.
//
// Purpose: a commit is due when the committable offset moved and the interval has
// passed, when the partition has no commit yet, or when its beacon grew old. The
// answer is one of ok, defer (try again) and lost (never under this generation).
// Invariants: an answer that is not ok is never booked as a commit; after lost
// nothing is due until the member or generation changed.
// Locks: none, a core. Callers: the consumer's loop.
package commitplan
