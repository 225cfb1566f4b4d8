package replica

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProduceFetch(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 2, 3)
	tp := tpID("t", id, 0)
	for i, acks := range []int16{-1, 1, -1} {
		res := r.mustProduce(acks, tp, batchOf(t, 1000, "a", "b"))
		if res.BaseOffset != int64(2*i) || res.LogAppendTimeMs != -1 || res.LogStartOffset != 0 {
			t.Fatalf("produce %d: %+v", i, res)
		}
	}
	if got := r.readAll(tp); len(got) != 6 {
		t.Fatalf("read %q", got)
	}
	res := r.fetchAll(consumerFetch(0, fetchPart(tp, 3)))[0]
	if got := r.values(&res); !cmp.Equal(got, []string{"a", "b", "a", "b"}) {
		t.Fatalf("C022: a fetch inside a batch gives the whole batch, got %q", got)
	}
	if res.HighWatermark != 6 || res.LastStableOffset != 6 || res.LogStartOffset != 0 || res.AbortedTransactions != nil {
		t.Fatalf("offsets %+v", res.FetchPartition)
	}
	if got := r.m.OffsetsForLeaderEpoch([]EpochEndInput{{TP: tp.TopicPartition(), CurrentLeaderEpoch: -1, LeaderEpoch: 3}})[0]; got.LeaderEpoch != 3 || got.EndOffset != 6 {
		t.Fatalf("epoch end %+v", got)
	}
}

func TestProduceRefusals(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	r.topic(types.ConsumerOffsetsTopic, topicID(2), 1, 0)
	r.apply(&recordschema.TopicRecord{Name: "other", TopicID: topicID(3)}, &recordschema.PartitionRecord{
		TopicID: topicID(3), Replicas: []int32{2}, ISR: []int32{2}, Leader: 2, LeaderEpoch: 4, Directories: []types.UUID{types.UnassignedDir},
	})
	tp := tpID("t", id, 0)
	for name, tc := range map[string]struct {
		acks int16
		tp   types.TopicIDPartition
		raw  []byte
		want kerrors.Code
	}{
		"unknown topic":     {-1, tpID("nope", types.ZeroUUID, 0), batchOf(t, 1, "x"), kerrors.UnknownTopicOrPartition},
		"unknown partition": {-1, tpID("t", types.ZeroUUID, 9), batchOf(t, 1, "x"), kerrors.UnknownTopicOrPartition},
		"wrong id":          {-1, tpID("t", topicID(9), 0), batchOf(t, 1, "x"), kerrors.UnknownTopicID},
		"acks 2":            {2, tp, batchOf(t, 1, "x"), kerrors.InvalidRequiredAcks},
		"internal":          {-1, tpID(types.ConsumerOffsetsTopic, topicID(2), 0), batchOf(t, 1, "x"), kerrors.InvalidTopicException},
		"not leader":        {-1, tpID("other", topicID(3), 0), batchOf(t, 1, "x"), kerrors.NotLeaderOrFollower},
		"no batch":          {-1, tp, nil, kerrors.InvalidRecord},
		"two batches":       {-1, tp, append(batchOf(t, 1, "x"), batchOf(t, 1, "y")...), kerrors.InvalidRecord},
		"corrupt":           {-1, tp, corrupt(batchOf(t, 1, "x")), kerrors.CorruptMessage},
		"gap":               {-1, tp, idempotentBatch(t, 7, 0, 5, "x"), kerrors.None},
	} {
		t.Run(name, func(t *testing.T) {
			res := r.produce(tc.acks, tc.tp, tc.raw)
			if got := kerrors.CodeOf(res.Err); got != tc.want {
				t.Fatalf("got %v, want %v", res.Err, tc.want)
			}
			if tc.want != kerrors.None && res.BaseOffset != -1 {
				t.Fatalf("base offset %d with an error", res.BaseOffset)
			}
			if hint := res.CurrentLeader; tc.want == kerrors.NotLeaderOrFollower && (hint == nil || *hint != LeaderHint{LeaderID: 2, LeaderEpoch: 4}) {
				t.Fatalf("KIP-951 hint %+v", hint)
			}
		})
	}
}

func corrupt(b []byte) []byte {
	b[len(b)-1] ^= 0xff
	return b
}

func TestProduceDuplicateAnswersOriginalOffsets(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	tp := tpID("t", id, 0)
	first := r.mustProduce(-1, tp, idempotentBatch(t, 7, 0, 0, "a", "b"))
	r.mustProduce(-1, tp, idempotentBatch(t, 7, 0, 2, "c"))
	again := r.mustProduce(-1, tp, idempotentBatch(t, 7, 0, 0, "a", "b"))
	if again.BaseOffset != first.BaseOffset {
		t.Fatalf("duplicate at %d, first at %d", again.BaseOffset, first.BaseOffset)
	}
	if got := kerrors.CodeOf(r.produce(-1, tp, idempotentBatch(t, 7, 0, 9, "z")).Err); got != kerrors.OutOfOrderSequenceNumber {
		t.Fatalf("gap: %v", got)
	}
	if got := r.readAll(tp); !cmp.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("read %q", got)
	}
	got := r.m.DescribeProducers([]types.TopicPartition{tp.TopicPartition()})[0]
	if got.Code != kerrors.None || len(got.Producers) != 1 || got.Producers[0].ProducerID != 7 || got.Producers[0].LastSequence != 2 || got.Producers[0].CurrentTxnStartOffset != -1 {
		t.Fatalf("producers %+v", got)
	}
}

// TestC019_FetchAtAndPastTheEnd waits at the end and refuses past it at once.
func TestC019_FetchAtAndPastTheEnd(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	tp := tpID("t", id, 0)
	for range 10 {
		r.mustProduce(-1, tp, batchOf(t, 1, "x"))
	}
	res := r.fetchAll(consumerFetch(50, fetchPart(tp, 10)))[0]
	if res.ErrorCode != 0 || res.HighWatermark != 10 || res.Records.SizeBytes() != 0 {
		t.Fatalf("at the end: %+v", res)
	}
	res = r.fetchAll(consumerFetch(60_000, fetchPart(tp, 11)))[0]
	if res.Code() != kerrors.OffsetOutOfRange || res.HighWatermark != -1 || res.LogStartOffset != -1 || res.LastStableOffset != -1 {
		t.Fatalf("past the end: %+v", res)
	}
}

func TestFetchWakesOnProduce(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 2, 0)
	tp0, tp1 := tpID("t", id, 0), tpID("t", id, 1)
	ch := make(chan []FetchResult, 1)
	r.m.Fetch(consumerFetch(60_000, fetchPart(tp0, 0), fetchPart(tp1, 0)), func(res []FetchResult) { ch <- res })
	if r.m.fetches.Waiting() != 1 {
		t.Fatal("the fetch is not parked")
	}
	r.mustProduce(-1, tp1, batchOf(t, 1, "hello"))
	res := <-ch
	if len(r.values(&res[0])) != 0 || !cmp.Equal(r.values(&res[1]), []string{"hello"}) {
		t.Fatalf("woken with %+v", res)
	}
	// minBytes beyond what is there keeps waiting, and is met by the second batch.
	in := consumerFetch(60_000, fetchPart(tp1, 1))
	in.MinBytes = 120
	r.m.Fetch(in, func(res []FetchResult) { ch <- res })
	r.mustProduce(-1, tp1, batchOf(t, 1, "one"))
	r.mustProduce(-1, tp1, batchOf(t, 1, "two"))
	res = <-ch
	if got := r.values(&res[0]); !cmp.Equal(got, []string{"one", "two"}) {
		t.Fatalf("minBytes gave %q", got)
	}
	// A parked fetch hears of a deleted topic, of a new leader and of a close.
	in = consumerFetch(60_000, fetchPart(tp0, 0))
	in.Version = 10 // before KIP-392: only a leader may answer
	r.m.Fetch(in, func(res []FetchResult) { ch <- res })
	r.changeLeader(id, 0, -1)
	if res = <-ch; res[0].Code() != kerrors.NotLeaderOrFollower {
		t.Fatalf("after losing leadership: %v", res[0].Code())
	}
	r.m.Fetch(consumerFetch(60_000, fetchPart(tp1, 3)), func(res []FetchResult) { ch <- res })
	r.apply(&recordschema.RemoveTopicRecord{TopicID: id})
	if res = <-ch; res[0].Code() != kerrors.UnknownTopicID {
		t.Fatalf("after the deletion: %v", res[0].Code())
	}
}

func TestFetchEpochsAndLimits(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 2, 5)
	tp0, tp1 := tpID("t", id, 0), tpID("t", id, 1)
	for range 3 {
		r.mustProduce(-1, tp0, batchOf(t, 1, "0123456789"))
		r.mustProduce(-1, tp1, batchOf(t, 1, "0123456789"))
	}
	for epoch, want := range map[int32]kerrors.Code{4: kerrors.FencedLeaderEpoch, 5: kerrors.None, 6: kerrors.UnknownLeaderEpoch, -1: kerrors.None} {
		p := fetchPart(tp0, 0)
		p.CurrentLeaderEpoch = epoch
		in := consumerFetch(60_000, p)
		in.Version = 16
		res := r.fetchAll(in)[0]
		res.Records.Release()
		if res.Code() != want || (want == kerrors.FencedLeaderEpoch) != (res.CurrentLeader != nil) {
			t.Errorf("KIP-320 epoch %d: %v, leader %v", epoch, res.Code(), res.CurrentLeader)
		}
	}
	p := fetchPart(tp0, 0)
	p.TP.TopicID = topicID(9)
	if res := r.fetchAll(consumerFetch(0, p))[0]; res.Code() != kerrors.InconsistentTopicID {
		t.Errorf("topic id mismatch: %v", res.Code())
	}
	// Diverging: the reader has an epoch that this log does not have.
	p = fetchPart(tp0, 3)
	p.LastFetchedEpoch = 4
	if res := r.fetchAll(consumerFetch(60_000, p))[0]; res.DivergingEpoch == nil || *res.DivergingEpoch != (wire.EpochEnd{Epoch: 4, EndOffset: 0}) {
		t.Errorf("epoch below all: %+v", res.FetchPartition)
	}
	p.LastFetchedEpoch = 7
	if res := r.fetchAll(consumerFetch(60_000, p))[0]; res.Code() != kerrors.OffsetOutOfRange {
		t.Errorf("epoch above all: %+v", res.FetchPartition)
	}
	r.changeLeader(id, 0, self) // epoch 6 begins at 3
	p = fetchPart(tp0, 3)
	p.LastFetchedEpoch = 5
	if res := r.fetchAll(consumerFetch(0, p))[0]; res.ErrorCode != 0 || res.DivergingEpoch != nil {
		t.Errorf("same history: %+v", res.FetchPartition)
	}
	r.mustProduce(-1, tp0, batchOf(t, 1, "0123456789"))
	p = fetchPart(tp0, 4)
	p.LastFetchedEpoch = 5
	if res := r.fetchAll(consumerFetch(60_000, p))[0]; res.DivergingEpoch == nil || res.DivergingEpoch.Epoch != 5 || res.DivergingEpoch.EndOffset != 3 {
		t.Errorf("KIP-595 divergence: %+v", res.FetchPartition)
	}
	// Limits: one whole batch at least, from the first non-empty partition only.
	in := consumerFetch(0, fetchPart(tp0, 0), fetchPart(tp1, 0))
	in.MaxBytes = 1
	res := r.fetchAll(in)
	if len(r.values(&res[0])) != 1 || res[1].Records.SizeBytes() != 0 {
		t.Errorf("KIP-74: %d and %d bytes", res[0].Records.SizeBytes(), res[1].Records.SizeBytes())
	}
}

func TestListOffsets(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	cfg := config.DefaultTopicConfig()
	cfg.RetentionMs = -1
	r.cfg["t"] = cfg
	r.topic("t", id, 1, 2)
	tp := tpID("t", id, 0)
	ask := func(version int16, ts int64) ListOffsetsResult {
		return r.m.ListOffsets(&ListOffsetsInput{ReplicaID: -1, Version: version, Partitions: []ListOffsetsPartition{
			{TP: tp.TopicPartition(), CurrentLeaderEpoch: -1, Timestamp: ts},
		}})[0]
	}
	check := func(what string, got ListOffsetsResult, offset, ts int64, code kerrors.Code) {
		t.Helper()
		if got.Offset != offset || got.Timestamp != ts || got.Code != code {
			t.Errorf("%s: got (%d, %d) %v, want (%d, %d) %v", what, got.Offset, got.Timestamp, got.Code, offset, ts, code)
		}
	}
	check("C051 empty", ask(7, TimestampMax), -1, -1, kerrors.None)
	for _, ts := range []int64{2, 4, 6, 8} {
		r.mustProduce(-1, tp, batchOf(t, ts, "x"))
	}
	for ts, want := range map[int64][2]int64{1: {0, 2}, 2: {0, 2}, 3: {1, 4}, 4: {1, 4}, 5: {2, 6}, 6: {2, 6}, 7: {3, 8}, 8: {3, 8}, 9: {-1, -1}} {
		check("C049", ask(7, ts), want[0], want[1], kerrors.None)
	}
	check("C049 latest", ask(7, TimestampLatest), 4, -1, kerrors.None)
	check("C049 earliest", ask(7, TimestampEarliest), 0, -1, kerrors.None)
	check("C051 max", ask(7, TimestampMax), 3, 8, kerrors.None)
	check("C051 v6", ask(6, TimestampMax), -1, -1, kerrors.UnsupportedVersion)
	check("local v7", ask(7, TimestampEarliestLocal), -1, -1, kerrors.UnsupportedVersion)
	check("local v8", ask(8, TimestampEarliestLocal), 0, -1, kerrors.None)
	check("tiered v9", ask(9, TimestampLatestTiered), -1, -1, kerrors.None)
	check("pending upload v10", ask(10, TimestampEarliestPendingUpload), -1, -1, kerrors.UnsupportedVersion)
	check("pending upload v11", ask(11, TimestampEarliestPendingUpload), -1, -1, kerrors.None)
	check("unknown special", ask(11, -7), -1, -1, kerrors.UnsupportedVersion)
	if got := ask(7, TimestampLatest).LeaderEpoch; got != 2 {
		t.Errorf("latest epoch %d", got)
	}
	twice := ListOffsetsPartition{TP: tp.TopicPartition(), CurrentLeaderEpoch: -1, Timestamp: -1}
	for _, got := range r.m.ListOffsets(&ListOffsetsInput{ReplicaID: -1, Version: 7, Partitions: []ListOffsetsPartition{twice, twice}}) {
		check("duplicate", got, -1, -1, kerrors.InvalidRequest)
	}
}

// TestC051_MaxTimestamp finds the first record with the largest timestamp.
func TestC051_MaxTimestamp(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	cfg := config.DefaultTopicConfig()
	cfg.RetentionMs = -1
	r.cfg["t"] = cfg
	r.topic("t", id, 1, 2)
	tp := tpID("t", id, 0)
	b := newBuilderWith(t, 100, 300, 200)
	r.mustProduce(-1, tp, b)
	for range 2 {
		got := r.m.ListOffsets(&ListOffsetsInput{ReplicaID: -1, Version: 7, Partitions: []ListOffsetsPartition{
			{TP: tp.TopicPartition(), CurrentLeaderEpoch: -1, Timestamp: TimestampMax},
		}})[0]
		if got.Offset != 1 || got.Timestamp != 300 {
			t.Fatalf("got (%d, %d)", got.Offset, got.Timestamp)
		}
		r.mustProduce(-1, tp, batchOf(t, 300, "x"))
	}
}

func TestDeleteRecords(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	r.topic(types.ConsumerOffsetsTopic, topicID(2), 1, 0)
	tp := tpID("t", id, 0)
	for range 5 {
		r.mustProduce(-1, tp, batchOf(t, 1, "x"))
	}
	del := func(topic string, offset int64) DeleteRecordsResult {
		ch := make(chan []DeleteRecordsResult, 1)
		r.m.DeleteRecords(&DeleteRecordsInput{TimeoutMs: 1000, Partitions: []DeleteRecordsPartition{
			{TP: types.TopicPartition{Topic: topic}, Offset: offset},
		}}, func(res []DeleteRecordsResult) { ch <- res })
		return (<-ch)[0]
	}
	for _, tc := range []struct {
		topic  string
		offset int64
		low    int64
		code   kerrors.Code
	}{
		{"t", 2, 2, kerrors.None},
		{"t", 1, 2, kerrors.None},
		{"t", 9, -1, kerrors.OffsetOutOfRange},
		{"t", -2, -1, kerrors.OffsetOutOfRange},
		{"nope", 1, -1, kerrors.UnknownTopicOrPartition},
		{types.ConsumerOffsetsTopic, 1, -1, kerrors.InvalidTopicException},
		{"t", -1, 5, kerrors.None},
	} {
		if got := del(tc.topic, tc.offset); got.LowWatermark != tc.low || got.Code != tc.code {
			t.Errorf("delete %s below %d: low watermark %d, %v", tc.topic, tc.offset, got.LowWatermark, got.Code)
		}
	}
	if res := r.fetchAll(consumerFetch(0, fetchPart(tp, 1)))[0]; res.Code() != kerrors.OffsetOutOfRange {
		t.Errorf("fetch below the log start: %v", res.Code())
	}
}

// TestC023_EndOffsetOfAnEpoch asks for old, current, future and skipped epochs.
func TestC023_EndOffsetOfAnEpoch(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	id := topicID(1)
	r.topic("t", id, 1, 3)
	tp := tpID("t", id, 0)
	for range 10 {
		r.mustProduce(-1, tp, batchOf(t, 1, "x"))
	}
	r.stop(true)
	r.start()
	defer r.stop(true)
	r.replayAll()
	r.changeLeader(id, 0, -1) // fenced
	r.changeLeader(id, 0, self)
	for range 10 {
		r.mustProduce(-1, tp, batchOf(t, 1, "x"))
	}
	for ask, want := range map[int32]EpochEndResult{
		3: {LeaderEpoch: 3, EndOffset: 10}, 5: {LeaderEpoch: 5, EndOffset: 20}, 105: {LeaderEpoch: -1, EndOffset: -1}, 4: {LeaderEpoch: 3, EndOffset: 10},
	} {
		got := r.m.OffsetsForLeaderEpoch([]EpochEndInput{{TP: tp.TopicPartition(), CurrentLeaderEpoch: -1, LeaderEpoch: ask}})[0]
		want.TP = tp.TopicPartition()
		if got != want {
			t.Errorf("epoch %d: got %+v, want %+v", ask, got, want)
		}
	}
}

func TestMinISRAndTimeout(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	cfg := config.DefaultTopicConfig()
	cfg.MinInsyncReplicas = 2
	r.cfg["t"] = cfg
	recs := []recordschema.MetadataRecord{&recordschema.TopicRecord{Name: "t", TopicID: id}}
	for p, isr := range [][]int32{{self}, {self, 2}} {
		recs = append(recs, &recordschema.PartitionRecord{
			PartitionID: int32(p), TopicID: id, Replicas: []int32{self, 2}, ISR: isr, Leader: self,
			Directories: []types.UUID{types.UnassignedDir, types.UnassignedDir},
		})
	}
	r.apply(recs...)
	if got := r.produce(-1, tpID("t", id, 0), batchOf(t, 1, "x")); kerrors.CodeOf(got.Err) != kerrors.NotEnoughReplicas {
		t.Fatalf("below min ISR: %v", got.Err)
	}
	if got := r.mustProduce(1, tpID("t", id, 0), batchOf(t, 1, "x")); got.BaseOffset != 0 {
		t.Fatalf("acks=1 below min ISR: %+v", got)
	}
	res := r.fetchAll(consumerFetch(0, fetchPart(tpID("t", id, 0), 0)))[0]
	if res.HighWatermark != 0 || res.Records.SizeBytes() != 0 {
		t.Fatalf("data below min ISR is visible: %+v", res)
	}
	// The follower never fetches: the append stays, the answer is a timeout.
	got := r.produceAll(&ProduceInput{Acks: -1, TimeoutMs: 1, Version: 9, Partitions: []ProducePartition{{TP: tpID("t", id, 1), Records: batchOf(t, 1, "x")}}})[0]
	if kerrors.CodeOf(got.Err) != kerrors.RequestTimedOut || got.BaseOffset != -1 {
		t.Fatalf("no follower: %+v", got)
	}
	// A follower's fetch moves the high watermark and wakes what waits.
	ch := make(chan []ProduceResult, 1)
	r.m.Produce(&ProduceInput{Acks: -1, TimeoutMs: 60_000, Version: 9, Partitions: []ProducePartition{{TP: tpID("t", id, 1), Records: batchOf(t, 1, "y")}}},
		func(res []ProduceResult) { ch <- res })
	in := consumerFetch(0, fetchPart(tpID("t", id, 1), 2))
	in.ReplicaID, in.Partitions[0].LogStartOffset = 2, 0
	if res := r.fetchAll(in)[0]; res.ErrorCode != 0 {
		t.Fatalf("follower fetch: %v", res.Code())
	}
	if got := (<-ch)[0]; got.Err != nil {
		t.Fatalf("after the follower fetched: %v", got.Err)
	}
	in = consumerFetch(0, fetchPart(tpID("t", id, 1), 2))
	in.ReplicaID = 7
	if res := r.fetchAll(in)[0]; res.Code() != kerrors.NotLeaderOrFollower {
		t.Fatalf("fetch by a broker that is not assigned: %v", res.Code())
	}
}

func TestDurabilityModes(t *testing.T) {
	for _, d := range []config.Durability{config.Strict, config.Replicated, config.Relaxed} {
		t.Run(d.String(), func(t *testing.T) {
			mem := vfs.NewMem()
			r := newRig(t, mem)
			cfg := config.DefaultTopicConfig()
			cfg.Durability = d
			r.cfg["t"] = cfg
			r.start()
			defer r.stop(true)
			id := topicID(1)
			r.topic("t", id, 1, 0)
			tp := tpID("t", id, 0)
			for i := range 20 {
				r.mustProduce(-1, tp, batchOf(t, 1, number(i)))
			}
			if got := r.readAll(tp); len(got) != 20 {
				t.Fatalf("read %d", len(got))
			}
			p := r.m.table.Load().get("t", 0).view.Load()
			if d == config.Strict && p.log.DurableEndOffset() != 20 {
				t.Fatalf("acknowledged beyond the durable end %d", p.log.DurableEndOffset())
			}
		})
	}
}

func TestLeadershipListener(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	l := &recorder{}
	r.opts.Leadership = l
	r.start()
	defer r.stop(true)
	id := topicID(1)
	r.topic(types.ConsumerOffsetsTopic, id, 1, 4)
	r.topic("plain", topicID(2), 1, 4)
	r.changeLeader(id, 0, -1)
	r.changeLeader(id, 0, self)
	r.apply(&recordschema.RemoveTopicRecord{TopicID: id})
	want := []string{"elected __consumer_offsets-0 4", "resigned __consumer_offsets-0", "elected __consumer_offsets-0 6", "resigned __consumer_offsets-0"}
	if d := cmp.Diff(want, l.events); d != "" {
		t.Fatal(d)
	}
}

// TestStraysAreSetAside: logs of topics that were deleted or made anew while the
// broker was away make room, and stay on the disk under another name.
func TestStraysAreSetAside(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	r.topic("keep", topicID(1), 1, 0)
	r.topic("gone", topicID(2), 1, 0)
	r.topic("again", topicID(3), 1, 0)
	r.mustProduce(-1, tpID("keep", topicID(1), 0), batchOf(t, 1, "x"))
	r.mustProduce(-1, tpID("again", topicID(3), 0), batchOf(t, 1, "old"))
	r.stop(true)

	r.m = New(r.opts) // no logs: only to move the image on
	r.m.Start(r.logs)
	r.apply(&recordschema.RemoveTopicRecord{TopicID: topicID(2)}, &recordschema.RemoveTopicRecord{TopicID: topicID(3)})
	r.m.Close()
	r.start()
	defer r.stop(true)
	r.replayAll()
	r.topic("again", topicID(4), 1, 0) // the old folder is in its way
	if got := r.produce(-1, tpID("again", topicID(4), 0), batchOf(t, 1, "x")); kerrors.CodeOf(got.Err) != kerrors.KafkaStorageError {
		t.Fatalf("before the strays are set aside: %v", got.Err)
	}
	r.m.SetStraysAside()
	if kept := r.logs.Strays(); len(kept) != 2 || !strings.HasSuffix(kept[0], "-stray") || !strings.HasSuffix(kept[1], "-stray") {
		t.Fatalf("set aside: %v", kept)
	}
	r.mustProduce(-1, tpID("again", topicID(4), 0), batchOf(t, 1, "new"))
	if got := r.readAll(tpID("again", topicID(4), 0)); !cmp.Equal(got, []string{"new"}) {
		t.Fatalf("the new topic holds %q", got)
	}
	if got := r.readAll(tpID("keep", topicID(1), 0)); !cmp.Equal(got, []string{"x"}) {
		t.Fatalf("keep holds %q", got)
	}
}

func TestDescribeLogDirs(t *testing.T) {
	r := newRig(t, vfs.NewMem(), "/d1", "/d2").start()
	defer r.stop(true)
	r.topic("t", topicID(1), 4, 0)
	r.mustProduce(-1, tpID("t", topicID(1), 2), batchOf(t, 1, "x"))
	r.m.opts.FailedDirs = []string{"/broken"}
	if got := r.m.DescribeLogDirs(nil); len(got) != 3 || got[2].Path != "/broken" || got[2].Code != kerrors.KafkaStorageError {
		t.Errorf("folders %+v", got)
	}
	r.m.opts.FailedDirs = nil
	n := 0
	for _, d := range r.m.DescribeLogDirs(nil) {
		if d.Code != kerrors.None {
			t.Errorf("%s: %v", d.Path, d.Code)
		}
		for _, l := range d.Logs {
			n++
			if (l.SizeBytes > 0) != (l.TP.Partition == 2) || l.OffsetLag != 0 {
				t.Errorf("%+v", l)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d logs", n)
	}
	for _, d := range r.m.DescribeLogDirs(map[types.TopicPartition]bool{{Topic: "t", Partition: 9}: true}) {
		if len(d.Logs) != 0 {
			t.Errorf("filter let %v through", d.Logs)
		}
	}
}

func TestCheckpointedHighWatermark(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, mem).start()
	id := topicID(1)
	r.topic("t", id, 1, 0)
	r.mustProduce(-1, tpID("t", id, 0), batchOf(t, 1, "x"))
	r.m.CheckpointHighWatermarks()
	f, err := mem.Open("/data/" + highWatermarkFile)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, _ := f.ReadAt(buf, 0)
	f.Close()
	if got := string(buf[:n]); got != "0\n1\nt 0 1\n" {
		t.Fatalf("checkpoint %q", got)
	}
	r.stop(true)
}

// TestSamePartitionTwice: a request may name a partition twice; both parts are
// answered, and a parked fetch is answered once.
func TestSamePartitionTwice(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	tp := tpID("t", id, 0)
	got := r.produceAll(&ProduceInput{Acks: -1, TimeoutMs: 10_000, Version: 12, Partitions: []ProducePartition{
		{TP: tp, Records: batchOf(t, 1, "a")}, {TP: tp, Records: batchOf(t, 1, "b")},
	}})
	if got[0].Err != nil || got[1].Err != nil || got[0].BaseOffset != 0 || got[1].BaseOffset != 1 {
		t.Fatalf("%+v", got)
	}
	ch := make(chan []FetchResult, 2)
	r.m.Fetch(consumerFetch(60_000, fetchPart(tp, 2), fetchPart(tp, 2)), func(res []FetchResult) { ch <- res })
	r.mustProduce(-1, tp, batchOf(t, 1, "c"))
	res := <-ch
	if a, b := r.values(&res[0]), r.values(&res[1]); !cmp.Equal(a, []string{"c"}) || !cmp.Equal(b, []string{"c"}) {
		t.Fatalf("%q %q", a, b)
	}
	if len(ch) != 0 || r.m.fetches.Waiting() != 0 {
		t.Fatal("answered twice")
	}
}
