// Package replica runs the partitions that this broker holds: it applies
// metadata deltas to them, appends and reads on behalf of clients and
// coordinators, and advances high watermarks.
//
// Purpose: the shell around internal/partition (which decides) and
// internal/storage/log (which stores). It corresponds to ReplicaManager and
// Partition of Apache Kafka 4.3.
//
// Invariants:
//   - A strict partition's high watermark never passes its durable end offset.
//   - The callback of an operation runs exactly once, after its outcome is
//     final; for acks=-1 that is after the high watermark covers the append.
//   - A partition whose folder failed answers KAFKA_STORAGE_ERROR; the other
//     partitions serve on.
//
// Locks, in order: Manager.applyMu (metadata changes, one at a time) ->
// Partition.leadership (shared by appends and reads, exclusive for a change of
// leader or epoch) -> Partition.mu (the core; held for memory work only).
// Partitions are found without any lock. Callbacks run with no lock held.
//
// Callers: internal/handlers, internal/coordinator/runtime, internal/server.
package replica
