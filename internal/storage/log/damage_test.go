package log

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// answers is everything a log can be asked that its indexes help to answer.
type answers struct {
	Records []string
	Reads   []string
	Times   []string
	Max     string
	Aborted []string
}

func ask(l *Log) (answers, error) {
	var a answers
	var err error
	end := l.LogEndOffset()
	if a.Records, err = readAll(l, l.LogStartOffset(), end); err != nil {
		return a, fmt.Errorf("records: %w", err)
	}
	for o := l.LogStartOffset(); o < end; o += 3 {
		r, err := l.Read(ReadInput{StartOffset: o, MaxBytes: 1, UpperBound: end, MinOneBatch: true})
		if err != nil {
			return a, fmt.Errorf("read %d: %w", o, err)
		}
		a.Reads = append(a.Reads, fmt.Sprintf("%d: pos %d len %d", o, r.Records.Pos, r.SizeBytes))
		r.Release()
		found, err := l.AbortedTxns(o, min(o+20, end))
		if err != nil {
			return a, fmt.Errorf("aborted %d: %w", o, err)
		}
		a.Aborted = append(a.Aborted, fmt.Sprintf("%d: %v", o, found))
	}
	for ts := day0 - 2; ts < day0+1300; ts += 7 {
		f, ok, err := l.OffsetForTimestamp(ts, end)
		if err != nil {
			return a, fmt.Errorf("time %d: %w", ts, err)
		}
		a.Times = append(a.Times, fmt.Sprintf("%d: %v %v", ts-day0, f, ok))
	}
	f, ok, err := l.OffsetForMaxTimestamp()
	a.Max = fmt.Sprint(f, ok)
	return a, err
}

// txnBatch is a batch of a transaction or its marker.
func txnBatch(base int64, pid int64, seq int32, marker string) []byte {
	o := record.BuilderOptions{BaseOffset: base, HasProducer: true, ProducerID: pid, ProducerEpoch: 1, BaseSequence: seq, Transactional: true}
	if marker == "" {
		b := record.NewBuilder(o)
		b.Append(day0, []byte("k"), []byte("in transaction"))
		out, err := b.Build()
		if err != nil {
			panic(err)
		}
		return out
	}
	o.Control, o.BaseSequence = true, -1
	b := record.NewBuilder(o)
	key := []byte{0, 0, 0, 0}
	if marker == "commit" {
		key[3] = 1
	}
	b.Append(day0, key, []byte{0, 0, 0, 0, 0, 7})
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

// damaged builds a log of several segments with timestamps out of order and
// transactions across segments.
func damagedLog(t *testing.T, l *Log) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	open := map[int64]int32{}
	for i := range 160 {
		var err error
		pid := int64(1 + i%3)
		switch {
		case i%4 == 1:
			_, err = l.AppendAsFollower(txnBatch(l.LogEndOffset(), pid, open[pid], ""), 0)
			open[pid]++
		case i%16 == 14:
			kind := "abort"
			if i%32 == 14 {
				kind = "commit"
			}
			_, err = l.AppendAsFollower(txnBatch(l.LogEndOffset(), pid, -1, kind), 0)
		default:
			_, err = appendValues(l, day0+rng.Int64N(1200), fmt.Sprintf("value %d", i), "x")
		}
		if err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
		l.SetHighWatermark(l.LogEndOffset())
	}
}

// TestDamagedIndexes is reliability row D15: whatever happens to an index or a
// snapshot, the answers are those of a full scan.
func TestDamagedIndexes(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes = 2500
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem()
		h := mustStart(t, mem, cfg)
		l := h.log(t)
		damagedLog(t, l)
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := h.m.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		want, err := ask(l)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(want.Aborted, ""), "{") {
			t.Fatal("no aborted transaction in the story")
		}
		dir, producers := l.Path(), l.Producers()
		if err := h.stop(clean); err != nil {
			t.Fatal(err)
		}
		names, err := mem.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for _, name := range names {
			if strings.HasSuffix(name, segment.LogSuffix) || name == "partition.metadata" {
				continue
			}
			for range 12 {
				damageOne(t, mem, dir, name, rng, func(left vfs.FS, what string) {
					h := mustStart(t, left, cfg)
					got, err := ask(h.log(t))
					if err != nil {
						t.Fatalf("%s %s: %v\n%s", what, name, err, h.logged)
					}
					if d := cmp.Diff(want, got); d != "" {
						t.Fatalf("clean=%v %s %s: %s\n%s", clean, what, name, d, h.logged)
					}
					if d := cmp.Diff(len(producers), len(h.log(t).Producers())); d != "" {
						t.Fatalf("clean=%v %s %s: producers %s", clean, what, name, d)
					}
					if err := h.stop(true); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// damageOne hurts one file of a copy of the disk in a random way.
func damageOne(t *testing.T, mem *vfs.Mem, dir, name string, rng *rand.Rand, check func(vfs.FS, string)) {
	t.Helper()
	left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: 100})
	path := dir + "/" + name
	f, err := left.OpenReadWrite(path, false)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	var what string
	switch k := rng.IntN(4); {
	case k == 0 && !strings.HasSuffix(name, segment.TxnIndexSuffix):
		what = "deleted"
		err = left.Remove(path)
	case k == 1 && size > 0 && !strings.HasSuffix(name, segment.TxnIndexSuffix):
		n := rng.Int64N(size)
		what = fmt.Sprintf("cut to %d of %d", n, size)
		err = f.Truncate(n)
	case size > 0:
		at, bit := rng.Int64N(size), byte(1)<<rng.IntN(8)
		if strings.HasSuffix(name, segment.TxnIndexSuffix) {
			at -= at % 34 // the version: what an entry says cannot be checked
		}
		what = fmt.Sprintf("bit %#x flipped at %d of %d", bit, at, size)
		b := []byte{0}
		if _, err = f.ReadAt(b, at); err == nil {
			b[0] ^= bit
			_, err = f.WriteAt(b, at)
		}
	default:
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	check(left, what)
}

// TestProducerStateSurvives checks duplicates across restarts of every kind.
func TestProducerStateSurvives(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem()
		h := mustStart(t, mem, testConfig())
		l := h.log(t)
		send := func(seq int32) (AppendInfo, error) {
			b := record.NewBuilder(record.BuilderOptions{HasProducer: true, ProducerID: 9, ProducerEpoch: 0, BaseSequence: seq})
			b.Append(day0, nil, []byte("idempotent"))
			out, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return l.AppendAsLeader(AppendInput{Records: out, NowMs: day0, ProduceVersion: 9})
		}
		for seq := range int32(40) {
			if info, err := send(seq); err != nil || info.FirstOffset != int64(seq) {
				t.Fatalf("%+v %v", info, err)
			}
		}
		if info, err := send(37); err != nil || !info.Duplicate || info.FirstOffset != 37 {
			t.Fatalf("duplicate: %+v %v", info, err)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := h.stop(clean); err != nil {
			t.Fatal(err)
		}
		h = mustStart(t, mem, testConfig())
		l = h.log(t)
		if info, err := send(39); err != nil || !info.Duplicate || info.FirstOffset != 39 {
			t.Fatalf("clean=%v duplicate after restart: %+v %v", clean, info, err)
		}
		if _, err := send(44); err == nil {
			t.Fatal("a gap was accepted")
		}
		if info, err := send(40); err != nil || info.FirstOffset != 40 {
			t.Fatalf("%+v %v", info, err)
		}
		if got := l.Producers(); len(got) != 1 || got[0].LastSequence() != 40 {
			t.Fatalf("producers %+v", got)
		}
		if err := h.stop(true); err != nil {
			t.Fatal(err)
		}
	}
}
