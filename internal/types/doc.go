// Package types holds the identifiers that every layer of Tidemark shares.
//
// Purpose: one spelling of a topic partition, a UUID and a broker endpoint.
// Invariants: every type is a comparable value; nothing here does I/O, reads a
// clock or draws randomness (NewUUID takes its bytes from the caller's source).
// Locks: none. Callers: everyone.
package types
