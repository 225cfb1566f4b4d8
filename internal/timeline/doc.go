// Package timeline keeps maps whose changes can be read as they were at an
// older log offset, and undone back to it.
//
// Purpose: a coordinator shard applies records before they are committed, so
// that the next request sees them; reads for clients must see committed state
// only, and a failed append must leave no trace. SnapshotRegistry and
// TimelineHashMap of Apache Kafka 4.3 do this job there.
//
// Invariants: changes carry the offset of the record that makes them, and come
// in offset order; what is committed cannot be undone; memory for old values is
// kept for uncommitted changes only.
//
// Locks: none; the caller serializes. Pure: values in, values out.
// Callers: internal/coordinator/group.
package timeline
