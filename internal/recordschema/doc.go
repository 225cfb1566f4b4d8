// Package recordschema encodes and decodes the records that Kafka keeps about
// itself: every record of __cluster_metadata (KRaft), the control records of
// its log and snapshots, the quorum-state file, and the records of consumer
// groups in __consumer_offsets (KIP-848). Message libraries carry
// requests and responses only, so these codecs are ours.
//
// Purpose: one description per record (its walk method) that both reads and
// writes, so that the two directions cannot drift apart.
//
// Invariants:
//   - Every version that Apache Kafka 4.3 can read is readable; AppendFrame
//     writes the version that metadata.version 30 (4.3-IV0) calls for.
//   - Reading and writing back the newest version is byte-equal, unknown tagged
//     fields included.
//   - Bad input gives an error that wraps ErrMalformed, ErrUnknownRecord or
//     ErrUnsupportedVersion, never a panic, and never allocates more than a
//     small multiple of the input.
//
// A nil slice is Kafka's null where the schema has one (the tagged deltas of
// PartitionChangeRecord for example); elsewhere empty arrays decode to nil.
//
// Locks: none; values are owned by the caller. Decoded byte slices are copies.
// Callers: metadata/image, metadata/controller, quorum, the log dumper.
package recordschema
