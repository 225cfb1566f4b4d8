package wire

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/types"
)

func drawFetchPartition(t *rapid.T, f *memFile) FetchPartition {
	p := FetchPartition{
		Partition: rapid.Int32().Draw(t, "partition"), ErrorCode: rapid.Int16().Draw(t, "code"),
		HighWatermark: rapid.Int64().Draw(t, "hw"), LastStableOffset: rapid.Int64().Draw(t, "lso"), LogStartOffset: rapid.Int64().Draw(t, "start"),
		PreferredReadReplica: rapid.Int32().Draw(t, "preferred"),
	}
	if rapid.Bool().Draw(t, "aborted") {
		p.AbortedTransactions = []AbortedTransaction{}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			p.AbortedTransactions = append(p.AbortedTransactions, AbortedTransaction{rapid.Int64().Draw(t, "pid"), rapid.Int64().Draw(t, "first")})
		}
	}
	if rapid.Bool().Draw(t, "diverging") {
		p.DivergingEpoch = &EpochEnd{rapid.Int32().Draw(t, "epoch"), rapid.Int64().Draw(t, "end")}
	}
	if rapid.Bool().Draw(t, "leader") {
		p.CurrentLeader = &LeaderIDEpoch{rapid.Int32().Draw(t, "id"), rapid.Int32().Draw(t, "lepoch")}
	}
	if rapid.Bool().Draw(t, "snapshot") {
		p.SnapshotID = &EpochEnd{rapid.Int32().Draw(t, "epoch"), rapid.Int64().Draw(t, "end")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "ranges") {
		pos := rapid.IntRange(0, 200).Draw(t, "pos")
		p.Records.AppendRange(Range{File: f, Pos: int64(pos), Len: rapid.IntRange(0, 300).Draw(t, "len")})
	}
	if rapid.Bool().Draw(t, "tail") {
		p.Records.AppendBytes([]byte("tail in memory"))
	}
	return p
}

// wantFetch is what a client of that version must decode.
func wantFetch(version int16, r *FetchResponse, f *memFile) *kmsg.FetchResponse {
	w := kmsg.NewPtrFetchResponse()
	w.Version = version
	w.ThrottleMillis = r.ThrottleMs
	if version >= 7 {
		w.ErrorCode, w.SessionID = r.ErrorCode, r.SessionID
	}
	for _, t := range r.Topics {
		wt := kmsg.NewFetchResponseTopic()
		if version >= 13 {
			wt.TopicID = t.TopicID
		} else {
			wt.Topic = t.Topic
		}
		for i := range t.Partitions {
			wt.Partitions = append(wt.Partitions, wantPartition(version, &t.Partitions[i], f))
		}
		w.Topics = append(w.Topics, wt)
	}
	if version >= 16 {
		for _, n := range r.NodeEndpoints {
			b := kmsg.NewFetchResponseBroker()
			b.NodeID, b.Host, b.Port, b.Rack = n.NodeID, n.Host, n.Port, n.Rack
			w.Brokers = append(w.Brokers, b)
		}
	}
	return w
}

func wantPartition(version int16, p *FetchPartition, f *memFile) kmsg.FetchResponseTopicPartition {
	w := kmsg.NewFetchResponseTopicPartition()
	w.Partition, w.ErrorCode, w.HighWatermark, w.LastStableOffset = p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset
	if version >= 5 {
		w.LogStartOffset = p.LogStartOffset
	}
	if p.AbortedTransactions != nil {
		w.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	for _, a := range p.AbortedTransactions {
		wa := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		wa.ProducerID, wa.FirstOffset = a.ProducerID, a.FirstOffset
		w.AbortedTransactions = append(w.AbortedTransactions, wa)
	}
	if version >= 11 {
		w.PreferredReadReplica = p.PreferredReadReplica
	}
	if d := p.DivergingEpoch; d != nil && version >= 12 {
		w.DivergingEpoch.Epoch, w.DivergingEpoch.EndOffset = d.Epoch, d.EndOffset
	}
	if l := p.CurrentLeader; l != nil && version >= 12 {
		w.CurrentLeader.LeaderID, w.CurrentLeader.LeaderEpoch = l.LeaderID, l.LeaderEpoch
	}
	if s := p.SnapshotID; s != nil && version >= 12 {
		w.SnapshotID.Epoch, w.SnapshotID.EndOffset = s.Epoch, s.EndOffset
	}
	w.RecordBatches = []byte{}
	for c := range p.Records.Chunks() {
		if c.Range.File != nil {
			w.RecordBatches = append(w.RecordBatches, f.data[c.Range.Pos:][:c.Range.Len]...)
		} else {
			w.RecordBatches = append(w.RecordBatches, c.Bytes...)
		}
	}
	return w
}

// TestFetchResponseEqualsKmsg: at every version, a client decodes exactly what
// was meant, records come from the file, and each file is released once.
func TestFetchResponseEqualsKmsg(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkFetchResponse(t, version) })
		})
	}
}

func checkFetchResponse(t *rapid.T, version int16) {
	f := &memFile{data: make([]byte, 1000)}
	for i := range f.data {
		f.data[i] = byte(i * 7)
	}
	r := FetchResponse{ThrottleMs: rapid.Int32().Draw(t, "throttle"), ErrorCode: rapid.Int16().Draw(t, "error"), SessionID: rapid.Int32().Draw(t, "session")}
	for i := range rapid.IntRange(0, 3).Draw(t, "topics") {
		topic := FetchTopic{Topic: fmt.Sprintf("topic-%d", i), TopicID: types.UUID{byte(i + 1)}}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			topic.Partitions = append(topic.Partitions, drawFetchPartition(t, f))
		}
		r.Topics = append(r.Topics, topic)
	}
	rack := "rack-1"
	for i := range rapid.IntRange(0, 2).Draw(t, "nodes") {
		r.NodeEndpoints = append(r.NodeEndpoints, NodeEndpoint{NodeID: int32(i), Host: "host", Port: 9092, Rack: [2]*string{nil, &rack}[i]})
	}
	h := RequestHeader{Key: 1, Version: version, CorrelationID: 42}
	want := wantFetch(version, &r, f)
	ranges := 0
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			for c := range r.Topics[i].Partitions[j].Records.Chunks() {
				if c.Range.File != nil {
					ranges++
				}
			}
		}
	}
	f.released = 0
	var p Payload
	AppendFetchResponse(&p, h, &r)
	body, err := ParseResponseHeader(rapidPayloadBytes(t, &p), h)
	if err != nil {
		t.Fatal(err)
	}
	got := kmsg.NewPtrFetchResponse()
	got.Version = version
	if err := got.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.AppendTo(nil), got.AppendTo(nil)); diff != "" {
		t.Fatalf("want (-), got (+):\n%s", diff)
	}
	if len(want.AppendTo(nil)) > len(body) {
		t.Fatalf("%d bytes on the wire, kmsg needs %d", len(body), len(want.AppendTo(nil)))
	}
	if f.released != ranges {
		t.Fatalf("%d releases of %d ranges", f.released, ranges)
	}
}

func rapidPayloadBytes(t *rapid.T, p *Payload) []byte {
	var out []byte
	for c := range p.Chunks() {
		if c.Range.File == nil {
			out = append(out, c.Bytes...)
			continue
		}
		buf := make([]byte, c.Range.Len)
		if _, err := c.Range.File.ReadAt(buf, c.Range.Pos); err != nil {
			t.Fatal(err)
		}
		out = append(out, buf...)
	}
	if len(out) != p.SizeBytes() {
		t.Fatalf("SizeBytes says %d, the chunks have %d", p.SizeBytes(), len(out))
	}
	p.Release()
	return out
}

func BenchmarkAppendFetchResponse(b *testing.B) {
	f := &memFile{data: make([]byte, 1<<20)}
	h := RequestHeader{Key: 1, Version: 16}
	parts := make([]FetchPartition, 100)
	b.ReportAllocs()
	for b.Loop() {
		for i := range parts {
			parts[i].Records.AppendRange(Range{File: f, Len: 1 << 20})
		}
		r := FetchResponse{Topics: []FetchTopic{{Topic: "t", Partitions: parts}}}
		var p Payload
		AppendFetchResponse(&p, h, &r)
		p.Release()
	}
}
