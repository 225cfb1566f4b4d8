// Package log is the log of one partition, and the manager of all of them:
// UnifiedLog, LocalLog, LogLoader and LogManager of Apache Kafka 4.3.
//
// Purpose: append batches by one positioned write, read them as file ranges,
// find offsets by time and epoch, roll, truncate, retain, delete; load and
// recover everything at start. File names and bytes are Kafka's.
//
// Invariants:
//   - Readers see whole batches only: an offset is published after its bytes
//     were written, and a failed write is cut off before the next one.
//   - DurableEndOffset never exceeds what an fsync that succeeded covered; the
//     recovery point on disk never exceeds it, nor does it pass a segment whose
//     indexes were not synced. A failed fsync takes the folder offline.
//   - logStart <= lastStable <= highWatermark <= logEnd, and durable <= logEnd.
//   - Everything but the .log bytes can be rebuilt from the .log bytes.
//
// Locks: Log.mu serialises what changes a log (append, roll, truncate, delete);
// offsets are atomics and reads take no log lock. Log.mu is not held across an
// fsync of data; an append that meets a new leader epoch does hold it while
// the epoch file is written. Log.syncMu keeps two syncs of one log apart and
// is taken before Log.mu. Manager.mu (the table of logs) is never held while a
// log's lock is waited for, except to publish a log that was just made.
//
// Callers: internal/replica, internal/coordinator/runtime, internal/server;
// internal/quorum opens a single Log for __cluster_metadata.
package log
