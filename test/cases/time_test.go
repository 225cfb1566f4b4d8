package cases

import (
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

func init() {
	register("C049", caseC049)
	register("C051", caseC051)
	register("C052", caseC052)
	register("C062", caseC062)
}

// C049: the offset for a time.
func caseC049(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1, "retention.ms", "-1")
	c := testkit.Dial(t, b.Bootstrap())
	for _, ts := range []int64{2, 4, 6, 8} {
		wantCode(t, "produce", produce(t, c, 9, topic, batch(t, plain(), rec{ts: ts, value: "v"})).ErrorCode, 0)
	}
	type found struct{ offset, ts int64 }
	for ts, want := range map[int64]found{
		1: {0, 2}, 2: {0, 2}, 3: {1, 4}, 4: {1, 4}, 5: {2, 6}, 6: {2, 6}, 7: {3, 8}, 8: {3, 8}, 9: {-1, -1}, -1: {4, -1}, -2: {0, -1},
	} {
		p := listOffset(t, c, 7, topic, 0, ts)
		if p.ErrorCode != 0 || p.Offset != want.offset || p.Timestamp != want.ts {
			t.Errorf("time %d: error %d, (%d, %d), want %v", ts, p.ErrorCode, p.Offset, p.Timestamp, want)
		}
	}
}

// C051: the offset of the newest timestamp (-3).
func caseC051(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1, "retention.ms", "-1")
	c := testkit.Dial(t, b.Bootstrap())
	check := func(what string, offset, ts int64) {
		t.Helper()
		p := listOffset(t, c, 7, topic, 0, -3)
		if p.ErrorCode != 0 || p.Offset != offset || p.Timestamp != ts {
			t.Errorf("%s: error %d, (%d, %d), want (%d, %d)", what, p.ErrorCode, p.Offset, p.Timestamp, offset, ts)
		}
	}
	check("empty topic", -1, -1)
	first := batch(t, plain(), rec{ts: 100, value: "a"}, rec{ts: 300, value: "b"}, rec{ts: 200, value: "c"})
	wantCode(t, "produce", produce(t, c, 9, topic, first).ErrorCode, 0)
	check("after 100, 300, 200", 1, 300)
	wantCode(t, "produce", produce(t, c, 9, topic, batch(t, plain(), rec{ts: 300, value: "d"})).ErrorCode, 0)
	check("after another 300", 1, 300)
	wantCode(t, "v6", listOffset(t, c, 6, topic, 0, -3).ErrorCode, 35)
}

// C052: LogAppendTime replaces what the producer said.
func caseC052(t *testing.T, b broker) {
	stamped, created := unique(t, "append"), unique(t, "create")
	createTopic(t, b, stamped, 1, "message.timestamp.type", "LogAppendTime")
	createTopic(t, b, created, 1, "retention.ms", "-1") // its record is from 1970
	c := testkit.Dial(t, b.Bootstrap())
	now := time.Now().UnixMilli()
	near := func(what string, ts int64) {
		t.Helper()
		if ts < now-10_000 || ts > now+60_000 {
			t.Errorf("%s: time %d is not near %d", what, ts, now)
		}
	}
	two := produce(t, c, 9, stamped, batch(t, plain(), rec{ts: 1, value: "a"}, rec{ts: 1, value: "b"}))
	wantCode(t, "two old records", two.ErrorCode, 0)
	near("answer", two.LogAppendTime)
	future := produce(t, c, 9, stamped, batch(t, plain(), rec{ts: now + 10*24*3600*1000, value: "c"}))
	wantCode(t, "a record from the future", future.ErrorCode, 0)
	near("answer", future.LogAppendTime)
	for bt, err := range record.Batches(fetch(t, c, stamped, 0, 1000).RecordBatches) {
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "append-time bit", bt.TimestampType(), record.LogAppendTime)
		if err := bt.Verify(); err != nil {
			t.Errorf("the stamped batch is not whole: %v", err)
		}
		near("batch", bt.MaxTimestamp())
		for r, err := range bt.Records(1 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "time of a record", r.Timestamp, bt.MaxTimestamp())
		}
	}
	wantEqual(t, "offset a minute ago", listOffset(t, c, 7, stamped, 0, now-60_000).Offset, 0)
	plainTopic := produce(t, c, 9, created, batch(t, plain(), rec{ts: 1, value: "a"}))
	wantCode(t, "CreateTime", plainTopic.ErrorCode, 0)
	wantEqual(t, "append time on a CreateTime topic", plainTopic.LogAppendTime, -1)
	p := listOffset(t, c, 7, created, 0, 1)
	wantEqual(t, "time kept", p.Timestamp, 1)
}

// C062: a new topic is empty, and restarts add nothing.
func caseC062(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	wantEqual(t, "end", endOffset(t, c, topic), 0)
	wantEqual(t, "start", startOffset(t, c, topic), 0)
	p := fetch(t, c, topic, 0, 100)
	if p.ErrorCode != 0 || p.HighWatermark != 0 || p.LastStableOffset != 0 || p.LogStartOffset != 0 {
		t.Fatalf("empty topic: %+v", p)
	}
	for i := range int64(5) {
		wantEqual(t, "offset", produce(t, c, 9, topic, batch(t, plain(), rec{value: "v"})).BaseOffset, i)
	}
	b.Restart()
	b.Restart()
	c = testkit.Dial(t, b.Bootstrap())
	waitForLeaders(t, c, topic, 1)
	wantEqual(t, "start after restarts", startOffset(t, c, topic), 0)
	wantEqual(t, "end after restarts", endOffset(t, c, topic), 5)
	records := 0
	for bt, err := range record.Batches(fetch(t, c, topic, 0, 1000).RecordBatches) {
		if err != nil {
			t.Fatal(err)
		}
		records += int(bt.Count())
	}
	wantEqual(t, "records read", records, 5)
}
