// Package diff puts the same random requests to Tidemark and to Apache Kafka and
// compares the answers.
//
// Purpose: a difference that no table and no case names is found here. A sequence
// of requests is made from a seed, sent to both brokers in step, and what differs
// is shrunk to the requests that are needed to show it.
// Invariants: all random choices are made when a step is made, so that a sequence
// can be sent again under other topic names. What must differ (ids, ports, clocks,
// paths) is replaced by names before comparing; intended differences are a list
// with reasons (intended_test.go).
// Locks: none, one goroutine. Callers: go test.
package diff
