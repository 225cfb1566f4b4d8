// Package retry holds the rules for a record that failed: how long to wait, when
// its source would be gone, and whether the quarantine budget allows it out.
//
// Purpose: exponential backoff with full jitter; quarantines in proportion to
// successes, so that an outage cannot drain a topic into quarantine.
// Invariants: time and randomness come in as values; a budget forgets what is
// older than its window.
// Locks: none, a core. Callers: the consumer's loop.
package retry
