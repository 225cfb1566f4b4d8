package groups

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 6

// checker holds what all members of a group have read.
type checker struct {
	mu       sync.Mutex
	seen     [partitions]map[int64]int // offset: times
	newest   [partitions]int64
	readers  map[string]int // records by member
	repeated int
}

func newChecker() *checker {
	c := &checker{readers: map[string]int{}}
	for p := range c.seen {
		c.seen[p], c.newest[p] = map[int64]int{}, -1
	}
	return c
}

func (c *checker) record(member string, p int32, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[p][offset]++; c.seen[p][offset] > 1 {
		c.repeated++
	}
	c.newest[p] = max(c.newest[p], offset)
	c.readers[member]++
}

func (c *checker) newestOf() [partitions]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

func (c *checker) readBy(member string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readers[member]
}

// missing lists what lies below ends and nobody has read.
func (c *checker) missing(ends map[int32]int64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for p, end := range ends {
		for o := range end {
			if c.seen[p][o] == 0 {
				out = append(out, fmt.Sprintf("%d@%d", p, o))
			}
		}
	}
	slices.Sort(out)
	return out
}

// feed writes numbered records to every partition until it is told to stop.
type feed struct {
	cl    *kgo.Client
	topic string
	stop  context.CancelFunc
	loop  sync.WaitGroup
}

func startFeed(t testing.TB, p peer, topic string, opts ...kgo.Opt) *feed {
	t.Helper()
	f := &feed{topic: topic, cl: client(t, p, append([]kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // every library reads it
	}, opts...)...)}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	t.Cleanup(func() { cancel(); f.loop.Wait() })
	f.loop.Go(func() {
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			for part := range int32(partitions) {
				f.cl.TryProduce(context.Background(), &kgo.Record{Partition: part, Value: fmt.Appendf(nil, "%d", n)}, nil)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return f
}

// finish stops and returns the log ends: what the members must have read.
func (f *feed) finish(t testing.TB, p peer) map[int32]int64 {
	t.Helper()
	f.stop()
	f.loop.Wait()
	if err := f.cl.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	listed, err := admin(t, p).ListEndOffsets(deadline(t), f.topic)
	if err != nil || listed.Error() != nil {
		t.Fatal(err, listed.Error())
	}
	out := map[int32]int64{}
	for part, o := range listed[f.topic] {
		out[part] = o.Offset
	}
	return out
}
