// Package quarantine is the format of a quarantined record.
//
// Purpose: the consumer runtime writes records that it gives up on to a
// quarantine topic; the original key, value and headers stay as they were, and
// headers added here say where the record came from and why. Tools list, show
// and redrive such records by the same headers.
// Invariants: header keys start with "tm-"; every value is text; a quarantined
// record is not a success, and its source is closed only after the quarantine
// append is acknowledged.
// Locks: none. Callers: the consumer runtime and the quarantine tools.
package quarantine
