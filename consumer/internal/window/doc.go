// Package window is the ack window of one assignment: what was delivered, in
// delivery order, and which of it is completed.
//
// Purpose: the committable offset is the first delivered record that is not
// completed, or the fetch position when there is none. Contiguity is over the
// list of delivered records, never over numbers: offsets that no record has
// (compaction, transaction markers, retention) are not in the list.
// Invariants: offsets rise strictly in delivery order; the head slot, if any, is
// not completed; Next never goes back; memory is one slot a delivered record
// from the head on.
// Locks: none, a core. Callers: consumer/internal/assignment.
package window
