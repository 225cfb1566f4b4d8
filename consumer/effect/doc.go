// Package effect gives each effect of an event once, and in the order of its
// entity, in a database that the user writes to anyway.
//
// Purpose: Kafka delivers an event again after a crash, a rebalance or a redrive.
// Apply, called in the same transaction as the effect itself, remembers the
// event's id (the inbox) and moves the entity's version by compare-and-set, so
// that the effect and the memory of it commit together or not at all:
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	res, err := store.Apply(ctx, tx, event.ID, event.OrderID, event.Sequence)
//	switch {
//	case err != nil:                    // roll back, retry
//	case res.Outcome == effect.Applied: // write the effect with tx, commit
//	case res.Outcome == effect.Duplicate: // it is done already: roll back, done
//	case res.Outcome == effect.Gap:     // an earlier event is missing: roll back, retry later
//	case res.Outcome == effect.Stale:   // roll back, quarantine: not done and never will be
//	}
//
// Invariants: an event id is applied at most once per scope; the sequences
// applied to an entity are consecutive; an event that is not applied is reported
// as such (Gap, Stale, ErrConflict), never swallowed; outcomes other than Applied
// leave the transaction's data as it was.
// Locks: none in the process. In the database a transaction that applied an event
// holds the entity's row until it ends, so events of one entity wait for each
// other and those of others do not (SQLite has one writer at a time in any case).
// Callers: handlers of package consumer, examples/orders; "tidemark lines
// --effects" reads the inbox.
package effect
