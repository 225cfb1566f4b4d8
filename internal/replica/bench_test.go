package replica

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// BenchmarkProduce appends batches of 100 records of 100 bytes through the
// manager, on the real file system of the temporary folder. Parallel producers
// share the fsyncs of strict durability.
func BenchmarkProduce(b *testing.B) {
	for _, d := range []config.Durability{config.Relaxed, config.Strict} {
		for _, parallel := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/producers=%d", d, parallel), func(b *testing.B) { benchProduce(b, d, parallel) })
		}
	}
}

func benchProduce(b *testing.B, d config.Durability, parallel int) {
	r := newRig(b, vfs.OS(), b.TempDir())
	cfg := config.DefaultTopicConfig()
	cfg.Durability = d
	cfg.SegmentBytes = 256 << 20
	cfg.RetentionBytes = 512 << 20
	r.cfg["t"] = cfg
	r.start()
	defer r.stop(true)
	const partitions = 4
	id := topicID(1)
	r.topic("t", id, partitions, 0)
	var values []string
	for range 100 {
		values = append(values, strings.Repeat("x", 100))
	}
	template := batchOf(b, 1, values...)
	b.SetBytes(int64(len(template)))
	b.SetParallelism(parallel)
	b.ReportAllocs()
	var next atomic.Int32
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		tp := tpID("t", id, next.Add(1)%partitions)
		raw := make([]byte, len(template))
		done := make(chan error, 1)
		answer := func(res []ProduceResult) { done <- res[0].Err }
		in := &ProduceInput{Acks: -1, TimeoutMs: 30_000, Version: 12, Partitions: []ProducePartition{{TP: tp, Records: raw}}}
		for pb.Next() {
			copy(raw, template) // the leader stamps the batch in place
			r.m.Produce(in, answer)
			if err := <-done; err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkFetch reads one batch per request from the page cache.
func BenchmarkFetch(b *testing.B) {
	r := newRig(b, vfs.OS(), b.TempDir())
	r.start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	tp := tpID("t", id, 0)
	raw := batchOf(b, 1, strings.Repeat("x", 1000))
	for range 100 {
		r.mustProduce(-1, tp, append(record.Batch(nil), raw...))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p := fetchPart(tp, int64(i%100))
		p.MaxBytes = 1
		r.m.Fetch(consumerFetch(0, p), func(res []FetchResult) {
			if res[0].Records.SizeBytes() == 0 {
				b.Fatal(res[0].Code())
			}
			res[0].Records.Release()
		})
	}
}

// BenchmarkWake measures a parked fetch over many partitions being completed by
// a produce to one of them.
func BenchmarkWake(b *testing.B) {
	r := newRig(b, vfs.NewMem())
	r.start()
	defer r.stop(true)
	const partitions = 100
	id := topicID(1)
	r.topic("t", id, partitions, 0)
	offsets := make([]int64, partitions)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		in := consumerFetch(60_000)
		for p := range int32(partitions) {
			in.Partitions = append(in.Partitions, fetchPart(tpID("t", id, p), offsets[p]))
		}
		done := make(chan struct{})
		r.m.Fetch(in, func(res []FetchResult) {
			release(res)
			close(done)
		})
		p := int32(i % partitions)
		r.m.Produce(&ProduceInput{Acks: 1, TimeoutMs: 1000, Version: 12, Partitions: []ProducePartition{
			{TP: tpID("t", id, p), Records: batchOf(b, 1, "x")},
		}}, func([]ProduceResult) {})
		<-done
		offsets[p]++
	}
}

// BenchmarkStart measures a start with 2,000 partitions after an unclean stop:
// recovery of the logs and a new leader epoch for each.
func BenchmarkStart(b *testing.B) {
	r := newRig(b, vfs.OS(), b.TempDir()).start()
	const partitions = 2000
	id := topicID(1)
	r.topic("t", id, partitions, 0)
	for p := range int32(partitions) {
		r.m.Produce(&ProduceInput{Acks: 1, TimeoutMs: 30_000, Version: 12, Partitions: []ProducePartition{
			{TP: tpID("t", id, p), Records: batchOf(b, 1, "x")},
		}}, func([]ProduceResult) {})
	}
	r.stop(false)
	b.ResetTimer()
	for range b.N {
		r.start()
		r.replayAll()
		var recs []recordschema.MetadataRecord
		for p := range int32(partitions) {
			c := recordschema.NewPartitionChange()
			c.TopicID, c.PartitionID, c.Leader = id, p, self
			recs = append(recs, c)
		}
		r.apply(recs...)
		b.StopTimer()
		r.stop(false)
		b.StartTimer()
	}
}
