// Package conformance runs foreign clients and Apache Kafka's own tools against
// a real server process. Where a client or tool behaves differently than on
// Apache Kafka 4.3.1, Kafka is right.
//
// Purpose: prove that nobody has to change a client. The clients live in
// clients/ with their own dependency files, so that none of them becomes a
// dependency of the broker.
// Invariants: each test makes its own topics; what a machine lacks is named, and
// with TESTKIT_NEED_PEERS set (as in CI) it is a failure, not a skip.
// Locks: none. Callers: go test, make conformance.
package conformance
