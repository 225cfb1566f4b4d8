package consumer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ledger counts the results of Send and knows whether a produce request was
// written since some moment.
type ledger struct {
	sink                    func(SendResult)
	acked, rejected, unsure atomic.Int64
	written                 atomic.Int64 // produce requests that reached a socket
}

// OnBrokerWrite is a hook of franz-go.
func (g *ledger) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, err error) {
	if key == int16(kmsg.Produce) && (err == nil || n > 0) {
		g.written.Add(1)
	}
}

func (g *ledger) counts() SendCounts {
	return SendCounts{Acked: g.acked.Load(), Rejected: g.rejected.Load(), Unknown: g.unsure.Load()}
}

// cancelGrace is how long Send waits, after its context ended, for the client to
// say that the record never left.
const cancelGrace = time.Second

func (c *Consumer) send(ctx context.Context, id string, r *kgo.Record) SendResult {
	rec := *r
	rec.Headers = append(append([]kgo.RecordHeader{}, r.Headers...), kgo.RecordHeader{Key: HeaderEventID, Value: []byte(id)})
	before := c.sends.written.Load()
	done := make(chan error, 1)
	c.prod.Produce(ctx, &rec, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err := <-done:
		return c.sent(id, &rec, before, err)
	case <-ctx.Done():
	}
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return c.sent(id, &rec, before, err)
	case <-grace.C:
	}
	// The record is in a request whose answer is not here. The client keeps asking,
	// because it may not give up a sequence number; when the answer comes the
	// ledger gets a second line for the id.
	res := SendResult{ID: id, Topic: r.Topic, Partition: -1, Epoch: -1, Offset: Absent, Outcome: SendUnknown, Append: AppendUnknown, Err: ctx.Err(), At: time.Now()}
	c.sends.book(res)
	go func() { c.sent(id, &rec, before, <-done) }()
	return res
}

// sent books the client's last word on a record.
func (c *Consumer) sent(id string, rec *kgo.Record, before int64, err error) SendResult {
	res := SendResult{ID: id, Topic: rec.Topic, Partition: -1, Epoch: -1, Offset: Absent, Err: err, At: time.Now()}
	res.Outcome, res.Append = classifySend(err, c.sends.written.Load() > before)
	if res.Outcome == SendAcked {
		res.Partition, res.Offset = rec.Partition, rec.Offset
		if _, epoch, err := c.prod.PartitionLeader(rec.Topic, rec.Partition); err == nil {
			res.Epoch = epoch
		}
		if acks, ok := c.prod.OptValue(kgo.RequiredAcks).(kgo.Acks); ok && acks != kgo.AllISRAcks() {
			res.Append = AppendLeader
		}
	}
	c.sends.book(res)
	return res
}

func (g *ledger) book(res SendResult) {
	switch res.Outcome {
	case SendAcked:
		g.acked.Add(1)
	case SendRejected:
		g.rejected.Add(1)
	default:
		g.unsure.Add(1)
	}
	if g.sink != nil {
		g.sink(res)
	}
}

// classifySend says what an error means for the log. written is whether any
// produce request left since the record was handed over: one that never left is
// in no log. The client retries on its own, so an error here is the last one.
func classifySend(err error, written bool) (SendOutcome, AppendState) {
	var ke *kerr.Error
	switch {
	case err == nil:
		return SendAcked, AppendCommitted
	case errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		return SendUnknown, AppendLeader
	case errors.Is(err, kerr.RequestTimedOut), errors.Is(err, kerr.NetworkException), errors.Is(err, kerr.UnknownServerError):
		// The broker may answer these after it appended.
		return SendUnknown, AppendUnknown
	case errors.As(err, &ke):
		return SendRejected, AppendNo
	case !written:
		return SendRejected, AppendNo
	}
	return SendUnknown, AppendUnknown
}
