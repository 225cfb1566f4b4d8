// Package consumer runs handlers over Kafka records and commits only what they
// have finished.
//
// Purpose: Open joins a group, Handle runs a function for every record, and the
// committed offset of a partition is always the first delivered record that is
// not closed (done, or acknowledged in quarantine). It works on any Kafka: it
// speaks the standard protocol through franz-go, without franz-go's autocommit.
// Line shows, per partition, log start <= committed <= effect <= position <=
// log end; the same values travel in the commit metadata (package beacon).
//
// Invariants:
//   - committed <= first delivered record that is not closed, at every instant;
//   - gaps in the log (compaction, transaction markers, retention) are never
//     taken for records and never stop the commit;
//   - a partition has one object per assignment, dropped whole on revoke or lost;
//     a late result of a dropped one changes nothing and is counted;
//   - revoke: close intake, drain within a bound, wait for the commit in flight,
//     snapshot, commit, drop. Lost: drop, never commit;
//   - queued + running + waiting-to-retry is bounded in records and bytes; at the
//     bound fetching of that partition pauses and the membership stays.
//
// Locks: one goroutine (the loop) owns the client, the partitions and the
// commits; handlers and callbacks reach it by messages. The ledger's counters
// are atomics. Nothing holds a lock across I/O.
// Callers: applications, examples/, internal/ops.
package consumer
