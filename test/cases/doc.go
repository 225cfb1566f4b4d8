// Package cases holds the field cases: small scenarios from public reports
// about Kafka-compatible brokers, clients and tools, each a test named after its
// id (C001, C011, …). Every case runs against Tidemark and, where Java is
// present, against Apache Kafka 4.3.1: where the two differ, Kafka is right and
// the case is wrong.
//
// Purpose: the behaviour that clients trip over, byte by byte.
// Invariants: a case makes its own topics and groups, so cases share a broker.
// Locks: none. Callers: go test.
package cases
