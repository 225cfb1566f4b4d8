package consumer

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Handler decides about one record. It runs on its own goroutine; ctx ends at
// the processing deadline and when the partition is taken away.
type Handler func(ctx context.Context, r Record) Outcome

// Open checks the configuration and connects. It does not join the group:
// Handle does.
func Open(cfg Config) (*Consumer, error) { return open(cfg) }

// Handle joins the group and starts delivering records to h. It returns at once;
// Wait or Err tell the end. It may be called once.
func (c *Consumer) Handle(h Handler) error { return c.handle(h) }

// Drain stops fetching and waits until everything delivered is closed and
// committed, so that position, effect and committed are equal, or until ctx
// ends. Fetching stays off until Resume.
func (c *Consumer) Drain(ctx context.Context) error { return c.drain(ctx) }

// Resume fetches again after Drain.
func (c *Consumer) Resume(ctx context.Context) error { return c.resume(ctx) }

// Line returns where every assigned partition stands, sorted by topic and
// partition.
func (c *Consumer) Line(ctx context.Context) ([]Line, error) { return c.lines(ctx) }

// Send appends a record with an id and waits for the result, which also goes to
// the ledger. The id travels in the header HeaderEventID.
func (c *Consumer) Send(ctx context.Context, id string, r *kgo.Record) SendResult {
	return c.send(ctx, id, r)
}

// Close stops starting handlers, waits for the running ones within DrainTimeout
// (or until ctx ends, if that is earlier), commits, leaves the group and closes
// the client. It returns the error that ended the consumer, if one did.
func (c *Consumer) Close(ctx context.Context) error { return c.close(ctx) }

// Wait returns when the consumer has ended: nil after Close, else the error that
// ended it; or when ctx ends.
func (c *Consumer) Wait(ctx context.Context) error {
	select {
	case <-c.ended:
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Err returns the error that ended the consumer, nil while it runs or after an
// ordinary Close.
func (c *Consumer) Err() error {
	if p := c.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// SetLogCompletion turns the completion line of a partition on or off; it lasts
// over assignments.
func (c *Consumer) SetLogCompletion(ctx context.Context, topic string, partition int32, on bool) error {
	return c.onLoop(ctx, func(l *loop) { l.setLogCompletion(topic, partition, on) })
}
