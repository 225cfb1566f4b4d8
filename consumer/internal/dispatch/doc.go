// Package dispatch decides which delivered record of a partition may run next.
//
// Purpose: three order modes. By key: one record of a key at a time, in delivery
// order, and all records without a key in one lane of their own. By partition:
// one record at a time. None: anything.
// Invariants: a lane is held from Next until Done, also while its record waits
// for a retry, so that nothing of the lane overtakes it; a queue belongs to one
// (topic, partition) assignment, so a lane is keyed by topic, partition and key
// bytes; an empty key is a key and never the null lane.
// Locks: none, a core. Callers: consumer/internal/assignment.
package dispatch
