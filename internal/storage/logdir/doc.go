// Package logdir is one data folder (an entry of log.dirs): who it belongs to,
// who has it open, whether it was closed cleanly, and whether it still works.
//
// Purpose: format and open folders with Kafka's own files: meta.properties
// (MetaProperties.java, KIP-631, KIP-858), .lock, .kafka_cleanshutdown
// (CleanShutdownFileHandler.java, KIP-966) and partition.metadata (KIP-516).
// Invariants: a folder is used by one process at a time and only by the
// cluster and node written in it; directory ids are unique within a node; the
// clean-shutdown marker is gone, durably, before Open returns, and comes back
// only in CloseClean of a folder that never failed; a folder that went offline
// stays offline until the process ends.
// Locks: Dir is safe for concurrent use; the offline reason is one atomic.
// Callers: internal/storage/log, internal/server, internal/quorum,
// internal/cli (reading only).
package logdir
