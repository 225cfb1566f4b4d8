// Package assignment is all that the runtime knows about one partition during
// one assignment.
//
// Purpose: one object, made when the partition is assigned and dropped whole when
// it is revoked or lost. It joins the ack window, the lanes, the stages of every
// unfinished record and the completed set that an earlier owner left.
// Invariants: queued + running + retry + quarantining = unfinished records, always
// derived from this object and gone with it; Effect <= Position; a closed intake
// hands out nothing; an item of another assignment is refused.
// Locks: none, a core: time comes in as nowMs. Callers: the consumer's loop.
package assignment
