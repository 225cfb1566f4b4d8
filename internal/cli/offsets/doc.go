// Package offsets is "tidemark offsets": what a topic holds, by offset and time.
//
// Purpose: first and next offset of each partition, and the offset at a time.
// Invariants: numbers are what ListOffsets answers, at the time of asking; a
// partition that was not read shows "?" (null in JSON), costs no other one its row,
// and makes the exit code 3.
// Locks: none. Called by: internal/cli.
package offsets
