// Package quarantine is "tidemark quarantine": look at quarantined records, send
// them back to where they came from, or give them up.
//
// Purpose: list, show, redrive and drop, by topic and by partition:offset.
// Invariants: nothing is sent and nothing is marked without --apply; a record
// that was redriven or dropped is marked in the offsets of a group of its own (as
// the consumer library marks completed records), never deleted; it is marked only
// after its copy is acknowledged, so that a crash in between redrives it again
// and never loses it; a record that came back too often is refused.
// Locks: none. Called by: internal/cli.
package quarantine
