package consumer

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestBufferBound32MiB is the acceptance scenario of the runtime: a bound of 32
// MiB, handlers blocked, 64 partitions with far more waiting. Memory stays within
// the bound plus one fetch, the membership is kept, nothing is lost. By default
// each partition has 1 MiB and the handlers block for three session timeouts;
// CONSUMER_SCENARIO=full takes 8 MiB each and a minute.
func TestBufferBound32MiB(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		perPartition, blocked := 1<<20, 18*time.Second
		if os.Getenv("CONSUMER_SCENARIO") == "full" {
			perPartition, blocked = 8<<20, time.Minute
		}
		const partitions, valueBytes = 64, 8 << 10
		topic, group := cl.topic(t, partitions), unique(t, "g")
		total := fill(t, cl, topic, partitions, perPartition/valueBytes, valueBytes)

		runtime.GC()
		runtime.GC() // pools are emptied by the second
		before := heapBytes()
		cfg := cl.config(group, topic)
		cfg.TotalBytes, cfg.PartitionBytes, cfg.TotalRecords = 32<<20, 32<<20, 1<<20
		cfg.PartitionRecords, cfg.Order, cfg.BeaconInterval = 1<<20, OrderNone, time.Second
		gate := make(chan struct{})
		var handled atomic.Int64
		var mu sync.Mutex
		counts := map[[2]int64]int{}
		c, ev := start(t, cfg, func(_ context.Context, r Record) Outcome {
			<-gate
			handled.Add(1)
			mu.Lock()
			counts[[2]int64{int64(r.Partition), r.Offset}]++
			mu.Unlock()
			return Done
		})
		eventually(t, "the bound is reached", func() bool {
			bytes, paused, _ := fullness(t, c)
			return bytes >= 32<<20 && paused == partitions
		})
		first, _ := lineOf(t, c, topic, 0)
		var peak, most int64
		until := time.Now().Add(blocked)
		eventually(t, "the handlers were blocked long enough", func() bool {
			bytes, _, lines := fullness(t, c)
			if lines != partitions {
				t.Fatalf("%d partitions are assigned, had %d", lines, partitions)
			}
			runtime.GC()
			peak, most = max(peak, heapBytes()-before), max(most, bytes)
			return !time.Now().Before(until)
		})
		fetch := cfg.TotalBytes / 4 // the default of FetchBytes
		t.Logf("blocked %v with %d MiB waiting: %.1f MiB in hand (bound 32, one fetch %d), heap grew by %.1f MiB",
			blocked, partitions*perPartition>>20, mib(most), fetch>>20, mib(peak))
		if limit := int64(32<<20) + fetch; most > limit {
			t.Errorf("%d bytes in hand, limit %d", most, limit)
		}
		// The heap also has the fetch that the client holds, the client itself and
		// what the test keeps.
		if limit := int64(32<<20) + 2*fetch + 8<<20; peak > limit {
			t.Errorf("the heap grew by %d bytes, limit %d", peak, limit)
		}
		after, ok := lineOf(t, c, topic, 0)
		if !ok || after.Generation != first.Generation || ev.count(EventLost)+ev.count(EventRevoked) > 0 {
			t.Error("the membership was not kept")
		}
		close(gate)
		eventually(t, "nothing is lost", func() bool { return handled.Load() >= int64(total) })
		if err := c.Drain(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		if len(counts) != total || handled.Load() != int64(total) {
			t.Errorf("%d records handled, %d different ones, want %d", handled.Load(), len(counts), total)
		}
	})
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fullness sums up the lines of the loop alone, without asking the cluster.
func fullness(t *testing.T, c *Consumer) (bytes int64, paused, lines int) {
	t.Helper()
	_ = c.onLoop(context.Background(), func(l *loop) {
		for _, p := range l.order {
			bytes += p.a.Load().Bytes
			lines++
			if p.paused != "" {
				paused++
			}
		}
	})
	return bytes, paused, lines
}

// fill writes n records to every partition and returns how many that were.
func fill(t *testing.T, cl *cluster, topic string, partitions int32, n, valueBytes int) int {
	t.Helper()
	c := cl.client(t, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(2000), kgo.ProducerBatchMaxBytes(1<<20))
	defer c.Close() // its buffers are not the consumer's
	value := make([]byte, valueBytes)
	var failed atomic.Pointer[error]
	for p := range partitions {
		for range n {
			c.Produce(ctxOf(t), &kgo.Record{Topic: topic, Partition: p, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
				}
			})
		}
	}
	if err := c.Flush(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	if p := failed.Load(); p != nil {
		t.Fatal(*p)
	}
	return int(partitions) * n
}
