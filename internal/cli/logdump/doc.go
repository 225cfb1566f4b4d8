// Package logdump is "tidemark log dump": what is inside the files of a data
// folder, written by Tidemark or by Apache Kafka.
//
// Purpose: segments, indexes, producer snapshots, checkpoints, the metadata log
// and its snapshots as text or as JSON lines; and a check of each of them.
// Invariants: files are opened for reading only and never need a running
// server; memory is bounded by the largest single batch and its decompression
// limit; damage is reported with its position and makes the command exit with 2
// (finding), after everything readable was printed.
// Locks: none. Called by: internal/cli. This is the one command that uses the
// storage decoders (record, recordschema, storage/index, storage/checkpoint,
// storage/producerstate) instead of the protocol.
package logdump
