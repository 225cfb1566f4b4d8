package consumer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchedBytes counts what fetch answers carried.
type fetchedBytes struct{ n atomic.Int64 }

func (f *fetchedBytes) OnBrokerRead(_ kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Fetch) {
		f.n.Add(int64(n))
	}
}

// TestPausingDoesNotRefetchMuch: the client throws away what it has buffered of a
// partition that is paused. A consumer that is slow, and so pauses all the time,
// must not fetch its log many times over.
func TestPausingDoesNotRefetchMuch(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	const n, size = 30_000, 200
	kc := cl.client(t, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(16<<10))
	value := make([]byte, size)
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Topic: topic, Value: fmt.Appendf(value[:0:0], "%0200d", i)})
	}
	if err := kc.ProduceSync(ctxOf(t), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var read fetchedBytes
	cfg := cl.config(group, topic)
	cfg.Order, cfg.PartitionRecords, cfg.Options = OrderNone, 400, append(cfg.Options, kgo.WithHooks(&read))
	c, _ := start(t, cfg, func(context.Context, Record) Outcome {
		time.Sleep(200 * time.Microsecond) // the work
		return Done
	})
	eventually(t, "all are handled", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == n })
	times := float64(read.n.Load()) / (n * size)
	t.Logf("fetched the log %.1f times", times)
	if times > 5 {
		t.Errorf("fetched the log %.1f times", times)
	}
}
