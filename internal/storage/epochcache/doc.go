// Package epochcache keeps which leader epoch began at which offset of one
// partition: LeaderEpochFileCache of Apache Kafka 4.3 (KIP-101, KIP-279,
// KIP-320).
//
// Purpose: answer OffsetForLeaderEpoch and truncation questions, and stamp
// what a leader writes.
// Invariants: epochs and start offsets both grow strictly from entry to entry;
// a new entry removes every older one that contradicts it. The file never
// lacks an entry that Assign returned for, nor holds one that TruncateFromEnd
// returned for; it may be behind a raised log start and, after a crash within
// a truncation, a lower log end, so whoever loads a log truncates the cache
// again at both ends.
// Locks: one RWMutex; the file is written under it, so that an older list can
// never replace a newer one. Safe for concurrent use.
// Callers: internal/storage/log.
package epochcache
