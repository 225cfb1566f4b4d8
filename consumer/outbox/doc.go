// Package outbox publishes events that were written in the same transaction as
// the state they tell of.
//
// Purpose: Add puts an event in a table within the user's transaction; a
// Publisher moves it to Kafka, in the order of the table per key, and each event
// id once, over crashes of the publisher too:
//
//   - a round of rows is marked "sending", together with the log ends from which
//     it can be found again, before the first byte is sent;
//   - franz-go's idempotent producer sends it, one batch a partition;
//   - the acknowledged rows are marked "published" with their offsets.
//
// A publisher that finds rows marked "sending" does not know whether they are in
// the log. It waits until no request of the dead publisher can arrive any more
// (the lease), reads the log from the remembered ends, and sends again only what
// is not there.
//
// Invariants: a row leaves "sending" only when its fate is known; rows of one key
// are published in the order of their positions, or not at all; a row that the
// cluster refuses (poison) holds the later rows of its key and nothing else;
// nothing is found by "position > cursor", because transactions commit in another
// order than they take positions.
// Locks: none in the process. In the database one publisher per scope holds a
// lease, by the database's clock.
// Callers: applications, examples/orders.
package outbox
