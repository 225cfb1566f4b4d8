// Package assignor computes target assignments of consumer groups on the
// coordinator (KIP-848: UniformAssignor and RangeAssignor of Apache Kafka 4.3).
//
// Purpose: from the members' subscriptions, what they are to have now and the
// topics' partitions, decide who is to have what.
//
// Invariants:
//   - Every partition of a topic that a member subscribes to has exactly one
//     owner, and only subscribers own a topic's partitions.
//   - uniform: no two members with the same subscription differ by more than one
//     partition, and with different subscriptions no chain of moves would make
//     the loads more equal. Under that rule as much as possible stays where it
//     is; of what has to move, partitions go to members in a rack of one of
//     their replicas where one has room (members without a rack: anywhere).
//   - range: the partitions of each topic in order over the members in order, so
//     that equal partitions of topics meet; it does not look at what was before.
//   - The result depends on the arguments only.
//
// Locks: none. Callers: internal/coordinator/group/consumer.
package assignor
