// Package index reads and writes the three index files of a segment, byte for
// byte as Apache Kafka 4.3 does (OffsetIndex, TimeIndex, TransactionIndex,
// AbortedTxn).
//
//	.index      8 bytes:  i32 offset - base, i32 file position
//	.timeindex 12 bytes:  i64 timestamp, i32 offset - base
//	.txnindex  34 bytes:  i16 version 0, i64 producer id, i64 first offset,
//	                      i64 last offset, i64 last stable offset
//
// All numbers are big-endian. An offset entry names the last offset of a batch
// and where that batch starts; a time entry says that no record up to and
// including its offset is newer than its timestamp. The two sparse indexes of
// an active segment have no file before their first entries are written; from
// then on it is preallocated to segment.index.bytes (rounded down to whole
// entries), with zeros behind the last entry, and trimmed when the segment is
// rolled or closed.
//
// Purpose: find a file position by offset, and an offset by time, without
// holding an index in memory. The newest entries are kept in memory and written
// in groups, so an append costs no system call and a reader at the tail none.
//
// Invariants: keys grow strictly. What is not yet written is lost with the
// process, so recovery must take entries it can prove only (Valid) and add the
// rest from the log. Nothing here decides whether an entry is true; the segment
// checks each entry it uses against the batch it names.
//
// Locks: none; the segment's lock covers its indexes.
// Callers: internal/storage/segment, internal/cli (log dump, by the decoders).
package index
