package log

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// modelRecord is a record as the model knows it.
type modelRecord struct {
	offset, ts int64
	value      string
	epoch      int32
}

// model is the log as a list: nothing else is promised to a client.
type model struct {
	start, end, durable int64
	records             []modelRecord // also those below start that are not removed yet
	batches             []int64       // base offsets
	now                 int64
	epoch               int32
	next                int
}

func (m *model) visible(upper int64) []string {
	var out []string
	for _, r := range m.records {
		if r.offset >= m.start && r.offset < upper {
			out = append(out, fmt.Sprintf("%d:%s", r.offset, r.value))
		}
	}
	return out
}

func (m *model) cut(end int64) {
	n := 0
	for n < len(m.records) && m.records[n].offset < end {
		n++
	}
	m.records = m.records[:n]
	for len(m.batches) > 0 && m.batches[len(m.batches)-1] >= end {
		m.batches = m.batches[:len(m.batches)-1]
	}
	m.end = end
	m.durable = min(m.durable, end)
}

func (m *model) byTime(ts, upper int64) (TimestampOffset, bool) {
	for _, r := range m.records {
		if r.offset >= m.start && r.ts >= ts {
			return TimestampOffset{Offset: r.offset, TimestampMs: r.ts, LeaderEpoch: r.epoch}, r.offset < upper
		}
	}
	return TimestampOffset{}, false
}

// pair is the log and its model.
type pair struct {
	t   *rapid.T
	fs  *vfs.Mem
	cfg config.TopicConfig
	h   *host
	l   *Log
	m   model
}

func (p *pair) open() {
	h, err := start(p.fs, p.cfg)
	if err != nil {
		p.t.Fatalf("start: %v", err)
	}
	p.h = h
	h.quiet()
	if p.l, err = h.m.Create(testTP, testID, p.cfg); err != nil {
		p.t.Fatalf("create: %v", err)
	}
}

func (p *pair) must(err error) {
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) append(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "records")
	p.m.now += rapid.Int64Range(-300, 600).Draw(t, "ms")
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf("value %d", p.m.next)
		p.m.next++
	}
	info, err := p.l.AppendAsLeader(AppendInput{Records: batch(p.m.now, values...), LeaderEpoch: p.m.epoch, NowMs: p.m.now, ProduceVersion: 9})
	p.must(err)
	if info.FirstOffset != p.m.end || info.LastOffset != p.m.end+int64(n)-1 {
		t.Fatalf("appended at %d..%d, want %d", info.FirstOffset, info.LastOffset, p.m.end)
	}
	p.m.batches = append(p.m.batches, p.m.end)
	for i, v := range values {
		p.m.records = append(p.m.records, modelRecord{p.m.end + int64(i), p.m.now + int64(i), v, p.m.epoch})
	}
	p.m.end += int64(n)
}

func (p *pair) flush(*rapid.T) {
	p.must(p.l.Flush())
	p.m.durable = p.m.end
	p.l.SetHighWatermark(p.m.end)
}

func (p *pair) leaderEpoch(t *rapid.T) {
	p.m.epoch += rapid.Int32Range(1, 3).Draw(t, "epochs")
	p.must(p.l.AssignLeaderEpoch(p.m.epoch))
}

func (p *pair) deleteRecords(t *rapid.T) {
	hw := p.l.HighWatermark()
	to := rapid.Int64Range(0, p.m.end+2).Draw(t, "offset")
	err := p.l.IncrementLogStartOffset(to)
	if to > hw {
		wantCode(p.t, err, kerrors.OffsetOutOfRange)
		return
	}
	p.must(err)
	p.m.start = max(p.m.start, to)
	p.must(p.h.m.Checkpoint())
}

func (p *pair) retain(*rapid.T) {
	_, err := p.l.DeleteOldSegments(p.m.now)
	p.must(err)
	if s := p.l.LogStartOffset(); s < p.m.start || s > p.m.end {
		p.t.Fatalf("log start %d of [%d, %d]", s, p.m.start, p.m.end)
	}
	p.m.start = p.l.LogStartOffset()
	p.must(p.h.m.Checkpoint())
	p.h.m.folders[0].tick(day0 + 100_000)
}

func (p *pair) truncate(t *rapid.T) {
	if len(p.m.batches) == 0 {
		return
	}
	to := rapid.SampledFrom(p.m.batches).Draw(t, "batch")
	if to < p.m.start {
		return
	}
	p.must(p.l.TruncateTo(to))
	p.m.cut(to) // for good: no power cut brings back what was cut
}

func (p *pair) restartAt(t *rapid.T) {
	to := p.m.end + rapid.Int64Range(0, 50).Draw(t, "gap")
	p.must(p.l.TruncateFullyAndStartAt(to))
	p.m.cut(0)
	p.m.batches = nil
	p.m.start, p.m.end, p.m.durable = to, to, to
	p.must(p.h.m.Checkpoint())
}

func (p *pair) restart(t *rapid.T) {
	if rapid.Bool().Draw(t, "clean") {
		p.must(p.h.stop(true))
		p.m.durable = p.m.end
	} else {
		p.must(p.h.stop(false)) // kill -9: the page cache survives
	}
	p.open()
}

func (p *pair) powerCut(t *rapid.T) {
	left := p.fs.CrashClone(vfs.CrashOptions{
		UnsyncedPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "kept"),
		Seed:            rapid.Uint64().Draw(t, "seed"),
	})
	_ = p.h.stop(false)
	p.fs = left
	p.open()
	end := p.l.LogEndOffset()
	if end < p.m.durable || end > p.m.end {
		t.Fatalf("log end %d after the cut, durable was %d, end %d", end, p.m.durable, p.m.end)
	}
	p.m.cut(end)
	// The name of a first segment that was never synced may be lost where that of
	// the second is not: the log then begins with what is left.
	if start := p.l.LogStartOffset(); start > p.m.start {
		if p.m.durable > p.m.start {
			t.Fatalf("log start %d after the cut, was %d, durable %d", start, p.m.start, p.m.durable)
		}
		p.m.start = start
	}
	p.m.durable = end
}

// check compares everything a client can see.
func (p *pair) check(t *rapid.T) {
	if p.l.LogStartOffset() != p.m.start || p.l.LogEndOffset() != p.m.end || p.l.DurableEndOffset() < p.m.durable {
		t.Fatalf("log [%d, %d) durable %d, model [%d, %d) durable %d", p.l.LogStartOffset(), p.l.LogEndOffset(), p.l.DurableEndOffset(), p.m.start, p.m.end, p.m.durable)
	}
	got, err := readAll(p.l, p.m.start, p.m.end)
	p.must(err)
	if d := cmp.Diff(p.m.visible(p.m.end), got); d != "" {
		t.Fatal(d)
	}
	for _, off := range []int64{p.m.start - 1, p.m.end + 1} {
		_, err := p.l.Read(ReadInput{StartOffset: off, MaxBytes: 10, UpperBound: p.m.end})
		wantCode(p.t, err, kerrors.OffsetOutOfRange)
	}
	for _, ts := range []int64{day0 - 500, p.m.now - 200, p.m.now, p.m.now + 5} {
		got, ok, err := p.l.OffsetForTimestamp(ts, p.m.end)
		p.must(err)
		if want, wok := p.m.byTime(ts, p.m.end); ok != wok || ok && got != want {
			t.Fatalf("time %d: %v %v, want %v %v", ts, got, ok, want, wok)
		}
	}
}

// TestModel lives many random lives of a log beside a list.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := crashConfig()
		cfg.SegmentBytes = rapid.SampledFrom([]int{300, 900, 1 << 20}).Draw(t, "segment.bytes")
		cfg.SegmentMs = rapid.SampledFrom([]int64{500, 1 << 40}).Draw(t, "segment.ms")
		cfg.RetentionBytes = rapid.SampledFrom([]int64{-1, 600}).Draw(t, "retention.bytes")
		cfg.IndexIntervalBytes = rapid.SampledFrom([]int{0, 128, 4096}).Draw(t, "index.interval.bytes")
		p := &pair{t: t, fs: vfs.NewMem(), cfg: cfg, m: model{now: day0}}
		p.open()
		t.Repeat(map[string]func(*rapid.T){
			"append": p.append, "append2": p.append, "append3": p.append, "flush": p.flush, "epoch": p.leaderEpoch,
			"deleteRecords": p.deleteRecords, "retain": p.retain, "truncate": p.truncate, "restartAt": p.restartAt,
			"restart": p.restart, "powerCut": p.powerCut, "checkpoint": func(*rapid.T) { p.must(p.h.m.Checkpoint()) },
			"": p.check,
		})
		_ = p.h.stop(false)
	})
}
