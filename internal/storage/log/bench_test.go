package log

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// diskHost is a manager on the real file system.
func diskHost(tb testing.TB, root string, cfg config.TopicConfig, tune ...func(*ManagerOptions)) (*Manager, *logdir.Dir) {
	tb.Helper()
	dir, err := logdir.Open(logdir.Options{FS: vfs.OS(), Paths: []string{root}, NodeID: 1, Format: true, Random: &counting{}, Now: time.Now()})
	if err != nil {
		tb.Fatal(err)
	}
	o := ManagerOptions{FS: vfs.OS(), Dirs: []*logdir.Dir{dir}, TopicConfig: func(string) config.TopicConfig { return cfg }}
	for _, t := range tune {
		t(&o)
	}
	m, err := OpenManager(o)
	if err != nil {
		tb.Fatal(err)
	}
	return m, dir
}

func plainBatch(records, valueBytes int, idempotent bool) []byte {
	b := record.NewBuilder(record.BuilderOptions{HasProducer: idempotent, ProducerID: 1})
	value := make([]byte, valueBytes)
	for i := range records {
		b.Append(day0+int64(i), nil, value)
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

// BenchmarkAppend is the leader's hot path without waiting for a sync; the
// number of records in a batch must not change allocs/op.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ records, bytes int }{{1, 100}, {160, 100}, {1600, 100}} {
		b.Run(fmt.Sprintf("%dx%dB", c.records, c.bytes), func(b *testing.B) {
			cfg := config.DefaultTopicConfig()
			cfg.Durability = config.Relaxed
			cfg.SegmentBytes = 256 << 20
			cfg.RetentionBytes = 512 << 20
			m, _ := diskHost(b, b.TempDir()+"/data", cfg)
			defer m.Close(false)
			l, err := m.Create(testTP, testID, cfg)
			if err != nil {
				b.Fatal(err)
			}
			proto := plainBatch(c.records, c.bytes, false)
			work := make([]byte, len(proto))
			b.SetBytes(int64(len(proto)))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				copy(work, proto)
				if _, err := l.AppendAsLeader(AppendInput{Records: work, NowMs: day0, ProduceVersion: 9}); err != nil {
					b.Fatal(err)
				}
				if i%4096 == 4095 {
					b.StopTimer()
					l.SetHighWatermark(l.LogEndOffset())
					l.DeleteOldSegments(day0)
					m.folders[0].tick(time.Now().UnixMilli() + 100_000)
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkAppendStrict waits for every batch to be durable, as an acks=all
// producer with one request in flight does.
func BenchmarkAppendStrict(b *testing.B) {
	cfg := config.DefaultTopicConfig()
	durable := make(chan int64, 1)
	m, _ := diskHost(b, b.TempDir()+"/data", cfg, func(o *ManagerOptions) { o.OnDurable = func(_ *Log, end int64) { durable <- end } })
	defer m.Close(false)
	l, err := m.Create(testTP, testID, cfg)
	if err != nil {
		b.Fatal(err)
	}
	proto := plainBatch(10, 100, false)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		work := append([]byte(nil), proto...)
		info, err := l.AppendAsLeader(AppendInput{Records: work, NowMs: day0, ProduceVersion: 9})
		if err != nil {
			b.Fatal(err)
		}
		for <-durable < info.NextOffset() {
		}
	}
}

// BenchmarkRead reads at the tail and, catching up, in the middle.
func BenchmarkRead(b *testing.B) {
	cfg := config.DefaultTopicConfig()
	cfg.Durability = config.Relaxed
	m, _ := diskHost(b, b.TempDir()+"/data", cfg)
	defer m.Close(false)
	l, err := m.Create(testTP, testID, cfg)
	if err != nil {
		b.Fatal(err)
	}
	proto := plainBatch(160, 100, false)
	for range 4000 {
		if _, err := l.AppendAsLeader(AppendInput{Records: append([]byte(nil), proto...), NowMs: day0, ProduceVersion: 9}); err != nil {
			b.Fatal(err)
		}
	}
	end := l.LogEndOffset()
	for name, from := range map[string]func(i int) int64{
		"tail":   func(int) int64 { return end - 160 },
		"middle": func(i int) int64 { return int64(i*160*61) % (end / 2) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				r, err := l.Read(ReadInput{StartOffset: from(i), MaxBytes: 1 << 20, UpperBound: end, MinOneBatch: true})
				if err != nil || r.SizeBytes == 0 {
					b.Fatal(r, err)
				}
				r.Release()
			}
		})
	}
}

// TestAppendAllocations bounds allocations per append, whatever the batch holds.
func TestAppendAllocations(t *testing.T) {
	cfg := config.DefaultTopicConfig()
	cfg.Durability = config.Relaxed
	h := mustStart(t, vfs.NewMem(), cfg)
	h.quiet()
	l := h.log(t)
	for _, records := range []int{1, 1000} {
		for _, idempotent := range []bool{false, true} {
			proto := plainBatch(records, 10, idempotent)
			work := make([]byte, len(proto))
			seq := int32(0)
			if _, err := appendValues(l, day0, "first"); err != nil {
				t.Fatal(err)
			}
			n := testing.AllocsPerRun(100, func() {
				copy(work, proto)
				if idempotent {
					work = plainBatchAt(proto, records, seq)
					seq += int32(records)
				}
				if _, err := l.AppendAsLeader(AppendInput{Records: work, NowMs: day0, ProduceVersion: 9}); err != nil {
					t.Fatal(err)
				}
			})
			if idempotent {
				n -= testing.AllocsPerRun(10, func() { plainBatchAt(proto, records, 0) })
				l.mu.Lock()
				err := l.producers.TruncateFullyAndStartAt(l.LogEndOffset())
				l.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
			}
			if n > 10 {
				t.Errorf("%d records, idempotent %v: %.1f allocations per append", records, idempotent, n)
			}
		}
	}
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
}

func plainBatchAt(_ []byte, records int, seq int32) []byte {
	b := record.NewBuilder(record.BuilderOptions{HasProducer: true, ProducerID: 1, BaseSequence: seq})
	for i := range records {
		b.Append(day0+int64(i), nil, []byte("0123456789"))
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

// BenchmarkRestartAfterKill is a start without a clean-shutdown marker: its time
// must follow what was not checkpointed, not what is held. TIDEMARK_BENCH_GB
// sets how much is held (default 0.2).
func BenchmarkRestartAfterKill(b *testing.B) {
	gb := 0.2
	if s := os.Getenv("TIDEMARK_BENCH_GB"); s != "" {
		fmt.Sscan(s, &gb)
	}
	partitions := 200
	if gb >= 1 {
		partitions = 2000
	}
	root := filepath.Join(b.TempDir(), "data")
	cfg := config.DefaultTopicConfig()
	cfg.Durability = config.Relaxed
	m, dir := diskHost(b, root, cfg)
	proto := plainBatch(640, 100, false)
	each := int(gb * 1e9 / float64(partitions) / float64(len(proto)))
	for p := range partitions {
		l, err := m.Create(types.TopicPartition{Topic: "t", Partition: int32(p)}, testID, cfg)
		if err != nil {
			b.Fatal(err)
		}
		for range each {
			if _, err := l.AppendAsLeader(AppendInput{Records: append([]byte(nil), proto...), NowMs: day0, ProduceVersion: 9}); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	if err := m.Checkpoint(); err != nil {
		b.Fatal(err)
	}
	if _, err := m.Close(false); err != nil {
		b.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		m, dir := diskHost(b, root, cfg)
		b.StopTimer()
		if n := len(m.All()); n != partitions {
			b.Fatal(n)
		}
		if _, err := m.Close(false); err != nil {
			b.Fatal(err)
		}
		if err := dir.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
