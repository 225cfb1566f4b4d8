// Package producerstate remembers, for one partition, what each idempotent or
// transactional producer wrote last: ProducerStateManager, ProducerAppendInfo
// and ProducerStateEntry of Apache Kafka 4.3 (KIP-98, KIP-360, KIP-890).
//
// Purpose: refuse gaps and zombies, answer exact duplicates with their first
// offsets, know which transactions are open (and so the last stable offset),
// and keep all that over a restart in Kafka's own .snapshot files.
// Parts: rules.go, state.go, entry.go and verification.go are a pure core
// (no file, lock, clock or randomness); snapshot.go is the file format;
// manager.go binds both to a partition's folder.
// Invariants: state == replay of the log from the last snapshot; open
// transactions are ordered by first offset; an entry keeps at most five
// batches, all of its current epoch. A snapshot that does not verify is
// reported, removed and never half used.
// Locks: none. The owning log calls everything under its own lock.
// Callers: internal/storage/log.
package producerstate
