// Package checkpoint reads and writes Kafka's small text files: the four
// offset checkpoints of a data folder and the leader-epoch-checkpoint of a
// partition (CheckpointFile.java, OffsetCheckpointFile.java and
// LeaderEpochCheckpointFile.java in Apache Kafka 4.3).
//
// Purpose: one atomic way to replace a small file, and one reader that never
// trusts what it finds.
// Invariants: after WriteFile returned nil, a power cut leaves the new content;
// before that it leaves the old or the new, never a mixture. A file that does
// not parse is ErrCorrupt, never a panic and never a partial result.
// Locks: none; two writers of one path must be kept apart by the caller.
// Callers: internal/storage/epochcache, internal/storage/logdir,
// internal/storage/producerstate, internal/storage/log, internal/quorum.
package checkpoint
