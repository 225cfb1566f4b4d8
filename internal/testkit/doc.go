// Package testkit starts real brokers for tests and talks to them byte by byte.
//
// Purpose: Server runs the tidemark binary as its own process (so that it can be
// killed), Kafka runs Apache Kafka beside it, RawConn sends hand-built requests
// on one TCP connection and reads answers as the wire has them, Postgres is a
// PostgreSQL server for what writes effects.
// Invariants: everything listens on loopback and is torn down with the test.
// Locks: none; a value belongs to one test. Callers: tests only.
package testkit
