// Package timers names the timers of groups.
//
// Purpose: one key type for the timers of both group protocols, so that a shard
// keeps them all in one coordinator.Timers.
// Invariants: values only. Locks: none.
// Callers: internal/coordinator/group and its sub-packages.
package timers
