// Package segment is one segment of a partition's log: the .log file and its
// three indexes (LogSegment and FileRecords of Apache Kafka 4.3).
//
// Purpose: append a set of batches by one positioned write, find batches by
// offset and time, hand out file ranges, scan and repair after a crash.
//
// Invariants: Size never counts a byte that is not part of a whole batch; it
// grows after the bytes are written, so whoever reads Size first sees whole
// batches. An index entry is believed only after the batch it names was read;
// one that lies makes the segment rebuild its indexes from the .log, with one
// log line. A segment that was written holds its file open until Sync.
//
// Opening a segment reads nothing: indexes are loaded, and checked, at first use.
//
// Locks: Segment.mu covers indexes and caches; it is held across reads of the
// index files, not across writes of the .log nor any fsync. Appends, Seal,
// TruncateTo and Recover of one segment are kept apart by the owning log.
// Callers: internal/storage/log.
package segment
