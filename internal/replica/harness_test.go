package replica

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// rig is one broker's replica manager over a file system, fed with metadata
// records by hand.
type rig struct {
	t      testing.TB
	fs     vfs.FS
	set    *logdir.Set
	logs   *log.Manager
	m      *Manager
	im     *image.Image
	offset int64
	cfg    map[string]config.TopicConfig
	opts   Options
	dirs   []string
}

const self int32 = 1

func newRig(t testing.TB, fs vfs.FS, dirs ...string) *rig {
	t.Helper()
	if len(dirs) == 0 {
		dirs = []string{"/data"}
	}
	r := &rig{t: t, fs: fs, im: image.Empty(), cfg: map[string]config.TopicConfig{}, dirs: dirs}
	r.opts = Options{
		NodeID: self,
		TopicConfig: func(_ *image.Image, topic string) config.TopicConfig {
			if c, ok := r.cfg[topic]; ok {
				return c
			}
			return config.DefaultTopicConfig()
		},
	}
	return r
}

// start opens the folders; metadata must be applied again afterwards.
func (r *rig) start() *rig {
	r.t.Helper()
	var err error
	var logs *log.Manager
	r.set, err = logdir.OpenAll(logdir.Options{FS: r.fs, Paths: r.dirs, NodeID: self, ClusterID: "test", Format: true, Random: rand.Reader, Now: time.Unix(0, 0)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.opts.Dirs = r.set.Dirs
	r.m = New(r.opts)
	logs, err = log.OpenManager(log.ManagerOptions{
		FS: r.fs, Dirs: r.set.Dirs, OnDurable: r.m.OnDurable, OnDirOffline: r.m.OnDirOffline,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.logs = logs
	r.m.Start(logs)
	return r
}

// stop closes everything without a clean end, as a crash would leave it.
func (r *rig) stop(clean bool) {
	r.m.Close()
	if _, err := r.logs.Close(clean); err != nil {
		r.t.Log("close:", err)
	}
	for _, d := range r.set.Dirs {
		_ = d.Close()
	}
}

func (r *rig) apply(records ...recordschema.MetadataRecord) {
	r.t.Helper()
	d := image.NewDelta(r.im)
	for _, rec := range records {
		r.offset++
		if err := d.Replay(rec, r.offset); err != nil {
			r.t.Fatal(err)
		}
	}
	r.im = d.Apply(r.offset, 1)
	r.m.ApplyDelta(d, r.im)
}

// replayAll applies the whole image again to a fresh manager.
func (r *rig) replayAll() {
	r.t.Helper()
	d := image.NewDelta(image.Empty())
	image.WriteRecords(r.im, func(rec recordschema.MetadataRecord) bool {
		if err := d.Replay(rec, r.offset); err != nil {
			r.t.Fatal(err)
		}
		return true
	})
	r.im = d.Apply(r.offset, 1)
	r.m.ApplyDelta(d, r.im)
}

func topicID(n byte) types.UUID { return types.UUID{0: 0x40, 15: n} }

// topic makes a topic with RF 1 on this broker.
func (r *rig) topic(name string, id types.UUID, partitions int, epoch int32) {
	r.t.Helper()
	recs := []recordschema.MetadataRecord{&recordschema.TopicRecord{Name: name, TopicID: id}}
	for p := range partitions {
		recs = append(recs, &recordschema.PartitionRecord{
			PartitionID: int32(p), TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, LeaderEpoch: epoch,
			PartitionEpoch: epoch, Directories: []types.UUID{types.UnassignedDir},
		})
	}
	r.apply(recs...)
}

func (r *rig) changeLeader(id types.UUID, p int32, leader int32) {
	c := recordschema.NewPartitionChange()
	c.TopicID, c.PartitionID, c.Leader = id, p, leader
	r.apply(c)
}

func tpID(topic string, id types.UUID, p int32) types.TopicIDPartition {
	return types.TopicIDPartition{Topic: topic, TopicID: id, Partition: p}
}

// batchOf builds a client batch with one record per value.
func batchOf(t testing.TB, ts int64, values ...string) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{})
	for i, v := range values {
		b.Append(ts+int64(i), nil, []byte(v))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func idempotentBatch(t testing.TB, pid int64, epoch int16, seq int32, values ...string) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{HasProducer: true, ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq})
	for _, v := range values {
		b.Append(1000, nil, []byte(v))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *rig) produceAll(in *ProduceInput) []ProduceResult {
	r.t.Helper()
	ch := make(chan []ProduceResult, 1)
	r.m.Produce(in, func(res []ProduceResult) { ch <- res })
	select {
	case res := <-ch:
		return res
	case <-time.After(30 * time.Second):
		r.t.Fatal("produce was never answered")
		return nil
	}
}

func (r *rig) produce(acks int16, tp types.TopicIDPartition, batch []byte) ProduceResult {
	r.t.Helper()
	return r.produceAll(&ProduceInput{
		Acks: acks, TimeoutMs: 10_000, Version: 12, Partitions: []ProducePartition{{TP: tp, Records: batch}},
	})[0]
}

func (r *rig) mustProduce(acks int16, tp types.TopicIDPartition, batch []byte) ProduceResult {
	r.t.Helper()
	res := r.produce(acks, tp, batch)
	if res.Err != nil {
		r.t.Fatalf("produce to %v: %v", tp, res.Err)
	}
	return res
}

func (r *rig) fetchAll(in *FetchInput) []FetchResult {
	r.t.Helper()
	ch := make(chan []FetchResult, 1)
	r.m.Fetch(in, func(res []FetchResult) { ch <- res })
	select {
	case res := <-ch:
		return res
	case <-time.After(30 * time.Second):
		r.t.Fatal("fetch was never answered")
		return nil
	}
}

func consumerFetch(maxWaitMs int32, parts ...FetchPartition) *FetchInput {
	return &FetchInput{ReplicaID: -1, ReplicaEpoch: -1, MaxWaitMs: maxWaitMs, MinBytes: 1, MaxBytes: 50 << 20, Version: 12, Partitions: parts}
}

func fetchPart(tp types.TopicIDPartition, offset int64) FetchPartition {
	return FetchPartition{TP: tp, CurrentLeaderEpoch: -1, FetchOffset: offset, LastFetchedEpoch: -1, LogStartOffset: -1, MaxBytes: 1 << 20}
}

// values reads the records of a result and releases it.
func (r *rig) values(res *FetchResult) (out []string) {
	r.t.Helper()
	defer res.Records.Release()
	var data []byte
	for c := range res.Records.Chunks() {
		if c.Range.File == nil {
			data = append(data, c.Bytes...)
			continue
		}
		buf := make([]byte, c.Range.Len)
		if _, err := c.Range.File.ReadAt(buf, c.Range.Pos); err != nil && err != io.EOF {
			r.t.Fatal(err)
		}
		data = append(data, buf...)
	}
	for b, err := range record.Batches(data) {
		if err != nil {
			r.t.Fatal(err)
		}
		if err := b.Verify(); err != nil {
			r.t.Fatal(err)
		}
		for rec, err := range b.Records(1 << 20) {
			if err != nil {
				r.t.Fatal(err)
			}
			out = append(out, string(rec.Value))
		}
	}
	return out
}

// readAll reads a partition from its start to the high watermark.
func (r *rig) readAll(tp types.TopicIDPartition) (out []string) {
	r.t.Helper()
	start := r.m.ListOffsets(&ListOffsetsInput{ReplicaID: -1, Version: 7, Partitions: []ListOffsetsPartition{
		{TP: tp.TopicPartition(), CurrentLeaderEpoch: -1, Timestamp: TimestampEarliest},
	}})[0]
	next := start.Offset
	for {
		res := r.fetchAll(consumerFetch(0, fetchPart(tp, next)))[0]
		if res.ErrorCode != 0 {
			r.t.Fatalf("fetch at %d: %v", next, res.Code())
		}
		got := r.values(&res)
		if len(got) == 0 {
			return out
		}
		out = append(out, got...)
		next += int64(len(got))
	}
}

func number(i int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(i))) }

func newBuilderWith(t testing.TB, timestamps ...int64) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{})
	for _, ts := range timestamps {
		b.Append(ts, nil, []byte("x"))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// recorder notes leadership changes.
type recorder struct{ events []string }

func (r *recorder) OnElected(tp types.TopicPartition, epoch int32) {
	r.events = append(r.events, fmt.Sprintf("elected %s %d", tp, epoch))
}

func (r *recorder) OnResigned(tp types.TopicPartition) {
	r.events = append(r.events, "resigned "+tp.String())
}
