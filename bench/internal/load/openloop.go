package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
)

// OpenLoopOptions describe a stream of messages at a fixed rate to one partition.
type OpenLoopOptions struct {
	Addr        string
	Topic       string
	Partition   int32
	RecordBytes int
	PerSecond   int
	For         time.Duration
	// Skip is how much of the beginning is not counted.
	Skip time.Duration
	// InFlight bounds the requests under way, as max.in.flight.requests does.
	InFlight int
}

// Latencies of one run, from the moment each message was due.
type Latencies struct {
	EndToEnd Histogram // until a consumer has it
	Sent     int64
	Received int64
}

// maxBatchRecords keeps a batch of a sender that is far behind within 1 MiB.
const maxBatchRecords = 4096

// OpenLoop sends message i at begin + i/rate. What is due while all requests
// are under way goes out together in the next one, as a producer with
// linger.ms=0 does. A second connection consumes by long polls.
func OpenLoop(o OpenLoopOptions) (*Latencies, error) {
	send, err := Dial(o.Addr)
	if err != nil {
		return nil, err
	}
	defer send.Close()
	recv, err := Dial(o.Addr)
	if err != nil {
		return nil, err
	}
	defer recv.Close()
	r := &openLoop{o: o, begin: time.Now().Add(10 * time.Millisecond), total: int64(o.For.Seconds() * float64(o.PerSecond))}
	received := make(chan error, 1)
	go func() { received <- r.consume(recv) }()
	if err := r.produce(send); err != nil {
		recv.Close()
		return nil, errors.Join(err, <-received)
	}
	select {
	case err = <-received:
	case <-time.After(30 * time.Second):
		recv.Close()
		err = errors.Join(fmt.Errorf("%d of %d messages arrived", r.lat.Received, r.total), <-received)
	}
	r.lat.Sent = r.total
	return &r.lat, err
}

type openLoop struct {
	o     OpenLoopOptions
	begin time.Time
	total int64
	lat   Latencies // of the consumer until it ends
}

func (r *openLoop) produce(c *Conn) error {
	defer exactTimer()()
	slots := make(chan struct{}, r.o.InFlight-1)
	failed := make(chan error, 1)
	var acked atomic.Int64
	go func() { failed <- acknowledge(c, slots, &acked) }()
	value := make([]byte, r.o.RecordBytes)
	b := record.NewBuilder(record.BuilderOptions{})
	for sent := int64(0); sent < r.total; {
		due := r.due(sent)
		if due == 0 {
			pause(time.Until(r.at(sent)))
			continue
		}
		select {
		case slots <- struct{}{}:
		case err := <-failed:
			return err
		}
		due = r.due(sent) // more became due while we waited for the slot
		b.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		now := time.Now().UnixMilli()
		for i := range due {
			binary.BigEndian.PutUint64(value, uint64(sent+i))
			b.Append(now, nil, value)
		}
		batch, err := b.Build()
		if err != nil {
			return err
		}
		if err := c.Write(ProduceFrame(r.o.Topic, r.o.Partition, batch)); err != nil {
			return err
		}
		sent += due
	}
	close(slots)
	return <-failed
}

// at returns when message i is due.
func (r *openLoop) at(i int64) time.Time {
	return r.begin.Add(time.Duration(float64(i) / float64(r.o.PerSecond) * float64(time.Second)))
}

// due returns how many messages from sent on are due, at most a batch full.
func (r *openLoop) due(sent int64) int64 {
	passed := time.Since(r.begin)
	if passed < 0 {
		return 0
	}
	n := int64(passed.Seconds()*float64(r.o.PerSecond)) + 1
	return min(max(min(n, r.total)-sent, 0), maxBatchRecords)
}

func (r *openLoop) consume(c *Conn) error {
	next := map[int32]int64{r.o.Partition: 0}
	skip := int64(r.o.Skip.Seconds() * float64(r.o.PerSecond))
	for r.lat.Received < r.total {
		resp := kmsg.NewPtrFetchResponse()
		if err := c.Do(fetchRequest(r.o.Topic, next, 50<<20, 1<<20, 500), resp); err != nil {
			return err
		}
		now := time.Now()
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return fmt.Errorf("fetch: error %d", p.ErrorCode)
				}
				if err := r.count(p.RecordBatches, now, skip, next); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *openLoop) count(set []byte, now time.Time, skip int64, next map[int32]int64) error {
	for b, err := range record.Batches(set) {
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err != nil {
			return err
		}
		for rec, err := range b.Records(1 << 30) {
			if err != nil {
				return err
			}
			r.lat.Received++
			if i := int64(binary.BigEndian.Uint64(rec.Value)); i >= skip {
				r.lat.EndToEnd.Add(now.Sub(r.at(i)))
			}
		}
		next[r.o.Partition] = b.NextOffset()
	}
	return nil
}
