package consumer

import (
	"context"
	"time"
)

// Stats are the totals of a consumer since Open. Each is a series of its own:
// none is the sum or the difference of others.
type Stats struct {
	// Membership says whether a consumer without partitions waits for the group, or
	// is a member that has nothing to do.
	Membership Membership
	// Delivered counts records handed to the runtime, Restored those that an
	// earlier owner had completed and that were not run again.
	Delivered, Restored int64
	// Effects by outcome: done, retry, quarantined, and stale (a result that came
	// after its assignment was dropped).
	Done, Retried, Quarantined, Stale int64
	// QuarantineHeld counts quarantines put off for want of budget or topic.
	QuarantineHeld int64
	// DeadlinePassed counts handlers that ran beyond the processing deadline.
	DeadlinePassed int64
	// Commits by result: accepted, to be tried again, refused for good.
	CommitsOK, CommitsDeferred, CommitsLost int64
	// Revokes, Losts and Assigns count partitions.
	Revokes, Losts, Assigns int64
	// RevokeTime, AssignTime and LostTime are the time spent in the callbacks.
	RevokeTime, AssignTime, LostTime time.Duration
	// OldestInFlight is the age of the oldest delivered record that is not closed.
	OldestInFlight time.Duration
	// OverDeadline counts running handlers beyond the processing deadline now.
	OverDeadline int
	// StaticWait is, for a static member, the longest time that a partition went
	// without a sign of life before this process was given it.
	StaticWait time.Duration
	// SincePoll and SinceCommit are the ages of the last fetch that came back and
	// of the last accepted commit; negative before the first.
	SincePoll, SinceCommit time.Duration
	// Sends are the totals of the send ledger.
	Sends SendCounts
}

// Stats returns the totals now.
func (c *Consumer) Stats(ctx context.Context) (Stats, error) { return c.stats(ctx) }
