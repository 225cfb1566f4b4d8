// Package coordinator holds the few values that every coordinator core and the
// coordinator runtime share: the record a request produces and the result that
// carries it (CoordinatorRecord, CoordinatorResult of Apache Kafka 4.3).
//
// Purpose: keep internal/coordinator/group and its future siblings free of the
// runtime, and the runtime free of them.
// Invariants: values only. Locks: none.
// Callers: internal/coordinator/group, internal/coordinator/runtime.
package coordinator
