// Package beacon reads and writes the commit metadata of the consumer runtime.
//
// Purpose: a beacon is one line of text that travels as the metadata of an
// offset commit. It says where a partition's consumer stood when it committed
// (position, effect, running, waiting, oldest age and offset, generation) and
// which records above the committed offset are already completed. Any tool that
// can fetch offsets can read it on any Kafka, with no agent:
//
//	tm1 at=2026-11-30T16:12:33.123Z pos=200 eff=175 run=20 wait=5 old=12s@175 gen=42 q=1 since=4 | done=r:AQE
//
// Invariants: the text is printable ASCII and never longer than the limit it was
// encoded for; when space ends, completed records are left out from the highest
// offset down, because a completion that is forgotten is a replay and never a
// loss; text that is not a beacon decodes to ErrForeign and must be ignored;
// unknown fields are skipped, so that older readers can read newer beacons; the
// completed set counts only when the committed offset equals Effect, otherwise
// somebody else moved the offset.
// Locks: none; Encode and Decode are safe for concurrent use.
// Callers: the consumer runtime, and every tool that shows a group's lines.
package beacon
