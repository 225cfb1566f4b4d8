// Package record reads, checks, builds and patches Kafka's record batches
// (message format v2, the only one that Apache Kafka 4.x stores).
//
// Purpose: one place that knows the 61-byte batch header, the varint records
// behind it, the four codecs with their framing quirks, and the rules by which
// a leader accepts a batch (LogValidator and UnifiedLog of Apache Kafka 4.3).
// The byte table is docs/formats/record-batch.md.
//
// Invariants: bytes from a socket or a disk never make this package panic or
// allocate more than the caller's limit (lengths are checked before they are
// used); a batch is never copied unless its bytes must change size; the fast
// path of Validate allocates nothing per record.
//
// Locks: none. The codecs keep pools (sync.Pool); everything else is a value.
//
// Called by: storage (append, recovery, dump), replica, quorum, coordinator
// runtime, the command line.
package record
