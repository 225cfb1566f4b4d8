// Package sqlstore is what the effect store and the outbox share of SQL:
// dialects, versioned schema migrations, and which errors are worth a retry.
//
// Purpose: one set of statements, written with $1 parameters, runs on SQLite
// (modernc.org/sqlite, in process) and on PostgreSQL (pgx).
// Invariants: migrations run in order, each once, all in one transaction; a
// schema that a newer program has migrated is refused, never used.
// Locks: none; two processes that migrate at once wait for each other in the
// database. Callers: consumer/effect, consumer/outbox.
package sqlstore
