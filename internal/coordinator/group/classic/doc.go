// Package classic is the state machine of one group under the classic protocol
// (JoinGroup, SyncGroup, Heartbeat, LeaveGroup; ClassicGroup and the classic
// part of GroupMetadataManager of Apache Kafka 4.3).
//
// Purpose: decide who is in the group, which generation it is in, and what each
// parked request is answered.
//
// Invariants:
//   - States go Empty -> PreparingRebalance -> CompletingRebalance -> Stable, and
//     back to PreparingRebalance from the last two; Dead is final.
//   - The leader's assignment is in the log before any member learns of it, and
//     the group is Stable only from then on.
//   - A member is parked in at most one JoinGroup and one SyncGroup; every parked
//     request is answered once.
//   - Members that keep their partitions over a rebalance (KIP-429) are never
//     told anything but to join again: what moves is the clients' decision.
//
// The group is soft state over its last GroupMetadata record: a coordinator that
// takes over makes it from the record (FromRecord), with every member's session
// running anew.
//
// Locks: none; the runtime serializes calls on one shard.
// Callers: internal/coordinator/group.
package classic
