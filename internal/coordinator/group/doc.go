// Package group is the group coordinator's core. In this stage it knows
// committed offsets and simple consumer groups (groups without members);
// membership comes with the classic and consumer protocols.
//
// Purpose: turn OffsetCommit, OffsetFetch, OffsetDelete, group deletion, offset
// expiry and topic deletion into records of __consumer_offsets and answers
// (OffsetMetadataManager of Apache Kafka 4.3).
//
// Invariants:
//   - Replay and ReplayEndTransaction are the only mutators; a shard is always
//     equal to the replay of its log.
//   - Reads are made as of an offset: what is not committed yet is not seen,
//     except by a fetch that requires stable offsets.
//   - Records are written byte for byte as Apache Kafka 4.3 writes them:
//     OffsetCommitKey v1; OffsetCommitValue v4 with the tagged topic id, or v1
//     when the client sent a retention time.
//
// Locks: none; the runtime serializes calls on one shard.
// Callers: internal/coordinator/runtime drives it; internal/handlers supplies
// the requests.
package group
