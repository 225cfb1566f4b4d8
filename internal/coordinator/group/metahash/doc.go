// Package metahash computes the metadata hash of a group: 64 bits that change
// when anything changes that an assignment depends on (KIP-1101, Utils of
// Apache Kafka's group coordinator).
//
// Purpose: the hash is stored in ConsumerGroupMetadata records, so it must be
// Kafka's own, bit for bit: XXH3 with seed 0 over the stream that the library
// hash4j makes of the values (little endian, strings as UTF-16 units and their
// number).
// Invariants: a function of its arguments. Locks: none.
// Callers: internal/coordinator/group/consumer.
package metahash
