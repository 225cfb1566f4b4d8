// Package placement decides which brokers hold the replicas of new partitions:
// striped over racks and brokers, unfenced brokers first, a leader never fenced
// (StripedReplicaPlacer of Apache Kafka 4.3, KIP-631).
//
// Purpose: fair spread of replicas and leaders without any global state.
// Invariants: no broker twice in one partition; the first replica is unfenced;
// the same brokers and the same seed give the same placement.
// Locks: none; values in, values out. Callers: metadata/controller.
package placement
