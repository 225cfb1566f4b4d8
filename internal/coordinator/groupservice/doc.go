// Package groupservice offers the group coordinator to request handlers: it
// finds the shard of a group, runs the core's operation on it and turns what
// can go wrong into the shape of the response (GroupCoordinatorService of
// Apache Kafka 4.3).
//
// Purpose: glue between internal/coordinator/group, which decides, and
// internal/coordinator/runtime, which runs it; and the two background duties,
// expiry of offsets and tombstones for deleted topics.
// Invariants: every call answers, with an error in the response at worst, or
// when its context ends.
// Locks: none of its own.
// Callers: internal/handlers, internal/server.
package groupservice
