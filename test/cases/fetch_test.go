package cases

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

func init() {
	register("C019", caseC019)
	register("C022", caseC022)
	register("C023", caseC023)
	register("C025", caseC025)
}

// C019: a fetch at the end waits, past the end it fails at once.
func caseC019(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	produceOne(t, c, topic, 10)
	begin := time.Now()
	atEnd := fetch(t, c, topic, 10, 5000)
	if waited := time.Since(begin); waited < 4*time.Second {
		t.Errorf("answered after %v without data, want about 5 s", waited)
	}
	wantCode(t, "at the end", atEnd.ErrorCode, 0)
	wantEqual(t, "bytes at the end", len(atEnd.RecordBatches), 0)
	wantEqual(t, "high watermark", atEnd.HighWatermark, 10)

	// The wait is longer than a read of this test, so an answer that comes at all
	// came because of the error.
	past := fetch(t, c, topic, 11, int32(2*testkit.ReadTimeout.Milliseconds()))
	wantCode(t, "past the end", past.ErrorCode, 1)
	wantEqual(t, "high watermark", past.HighWatermark, -1)
	wantEqual(t, "log start", past.LogStartOffset, -1)
}

// C022: an offset inside a batch returns the batch as it was written.
func caseC022(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	five := []rec{{value: "0"}, {value: "1"}, {value: "2"}, {value: "3"}, {value: "4"}}
	wantCode(t, "five records", produce(t, c, 9, topic, batch(t, plain(), five...)).ErrorCode, 0)
	wantCode(t, "one record", produce(t, c, 9, topic, batch(t, plain(), rec{value: "5"})).ErrorCode, 0)
	got := fetch(t, c, topic, 3, 1000)
	var bases []int64
	for bt, err := range record.Batches(got.RecordBatches) {
		if err != nil {
			t.Fatal(err)
		}
		bases = append(bases, bt.BaseOffset())
	}
	if len(bases) != 2 || bases[0] != 0 || bases[1] != 5 {
		t.Fatalf("batches at %v, want 0 and 5", bases)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().At(3)},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var values string
	for len(values) < 3 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { values += string(r.Value) })
	}
	wantEqual(t, "records from offset 3", values, "345")
}

// C023: the end offset of an old epoch stays what it was.
func caseC023(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	produceOne(t, testkit.Dial(t, b.Bootstrap()), topic, 10)
	b.Restart()
	c := testkit.Dial(t, b.Bootstrap())
	waitForLeaders(t, c, topic, 1)
	produceOne(t, c, topic, 10)
	var epochs []int32
	for offset := range []int64{0, 10} {
		bt, err := record.Parse(fetch(t, c, topic, int64(offset*10), 1000).RecordBatches)
		if err != nil {
			t.Fatal(err)
		}
		epochs = append(epochs, bt.PartitionLeaderEpoch())
	}
	ask := func(epoch int32) (int32, int64) {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version = 4
		rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.CurrentLeaderEpoch, rp.LeaderEpoch = -1, epoch
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		p := testkit.Do(c, req, kmsg.NewPtrOffsetForLeaderEpochResponse()).Topics[0].Partitions[0]
		wantCode(t, "OffsetForLeaderEpoch", p.ErrorCode, 0)
		return p.LeaderEpoch, p.EndOffset
	}
	type answer struct {
		epoch int32
		end   int64
	}
	want := map[int32]answer{epochs[0]: {epochs[0], 10}, epochs[1]: {epochs[1], 20}, epochs[1] + 100: {-1, -1}}
	if epochs[1] > epochs[0]+1 {
		want[epochs[0]+1] = answer{epochs[0], 10}
	}
	if epochs[0] == epochs[1] {
		t.Fatalf("a restart kept leader epoch %d", epochs[0])
	}
	for asked, w := range want {
		if e, end := ask(asked); e != w.epoch || end != w.end {
			t.Errorf("epoch %d: (%d, %d), want %v", asked, e, end, w)
		}
	}
}

// C025: the epochs of a fetch session (KIP-227).
func caseC025(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	ask := func(topicName string, session, epoch int32, forget bool) *kmsg.FetchResponse {
		req := fetchRequest(topicName, 0, 200)
		req.SessionID, req.SessionEpoch = session, epoch
		if forget {
			f := kmsg.NewFetchRequestForgottenTopic()
			f.Topic, f.Partitions = topic, []int32{0}
			req.ForgottenTopics = append(req.ForgottenTopics, f)
		}
		return testkit.Do(c, req, kmsg.NewPtrFetchResponse())
	}
	full := ask(topic, 0, 0, false)
	wantCode(t, "full fetch", full.ErrorCode, 0)
	s := full.SessionID
	if s == 0 {
		t.Fatal("no session was made")
	}
	idle := ask("", s, 1, false)
	wantCode(t, "idle incremental fetch", idle.ErrorCode, 0)
	wantEqual(t, "partitions without news", len(idle.Topics), 0)
	wantCode(t, "epoch 5 out of turn", ask("", s, 5, false).ErrorCode, 71)
	wantCode(t, "unknown session", ask("", s+999, 1, false).ErrorCode, 70)
	produceOne(t, testkit.Dial(t, b.Bootstrap()), topic, 1)
	news := ask("", s, 2, false)
	wantCode(t, "epoch 2", news.ErrorCode, 0)
	if len(news.Topics) != 1 || len(news.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("the record did not arrive: %+v", news)
	}
	last := ask("", s, 3, true)
	wantCode(t, "nothing left", last.ErrorCode, 0)
	wantEqual(t, "session id when nothing is left", last.SessionID, 0)
}
