// Package partition decides for one partition replica: who leads, which
// replicas are in sync, where the high watermark stands and whether an append
// may be admitted. It is the pure half of Partition.scala and Replica.java of
// Apache Kafka 4.3.
//
// Purpose: leader and follower state of one partition as a value machine.
// Inputs are method calls with times as nowMs; outputs are Effects.
//
// Invariants:
//   - The high watermark never goes back while the replica leads; a follower
//     lowers it only with a truncation.
//   - While leading, the high watermark is at most the contribution of every
//     replica of the maximal ISR: for the leader itself its durable end in
//     strict durability and its log end otherwise, for a follower the durable
//     end it reports, or its fetch offset where it reports none.
//   - The high watermark does not advance while the committed ISR is smaller
//     than the effective min ISR (unconditional in Kafka 4.x).
//   - At most one AlterPartition is in flight; until its outcome is known the
//     maximal ISR is the union of the committed and the proposed one.
//   - A state change with an older partition epoch changes nothing.
//
// Locks: none; the caller serializes calls on one Core.
// Callers: internal/replica.
package partition
