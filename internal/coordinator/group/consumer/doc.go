// Package consumer is the state machine of one consumer group under the
// protocol of KIP-848 (ConsumerGroup, CurrentAssignmentBuilder,
// TargetAssignmentBuilder and the consumer part of GroupMetadataManager of
// Apache Kafka 4.3).
//
// Purpose: turn ConsumerGroupHeartbeat into records. The coordinator computes
// the target assignment; every member is moved towards it by itself.
//
// Epochs: the group epoch grows when something changes that the assignment
// depends on; the assignment epoch says which group epoch the target assignment
// is for; the member epoch says how far a member has come, and each of its
// partitions carries the epoch in which the member got it (KIP-1251).
//
// Invariants:
//   - Replay is the only mutator of what the log says, and everything derived
//     from it (owners, counts) is undone with it when an append fails.
//   - A partition is given to a member only after its owner has acknowledged that
//     it gave it up, left, or was fenced: one owner at a time.
//   - A member whose partitions do not change is never told to revoke any.
//   - A heartbeat that changes nothing writes nothing and costs no more than the
//     member's own partitions.
//
// Soft state (timers, when metadata was looked at last, statistics) is not in the
// log; it is made again when the shard is loaded.
//
// Where this is not Kafka: regular expressions are resolved in the heartbeat
// that brings them, so there is no unresolved one.
//
// Locks: none; the runtime serializes calls on one shard.
// Callers: internal/coordinator/group.
package consumer
