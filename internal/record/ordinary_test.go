package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// closely is scanRecords without its short cut.
func closely(b Batch, o *ValidateOptions) (finding, error) {
	s := newScanner(b.RecordBytes())
	defer s.release()
	f := finding{maxTimestamp: NoTimestamp}
	check := recordCheck{b: b, o: o, f: &f, appendTimeBatch: b.TimestampType() == LogAppendTime, baseTimestamp: b.BaseTimestamp(),
		earliest: satSub(o.NowMs, o.TimestampBeforeMaxMs), latest: satAdd(o.NowMs, o.TimestampAfterMaxMs)}
	var m recordMeta
	for i := range b.Count() {
		if err := s.next(&m); err != nil {
			return f, refusal(err)
		}
		if m.offsetDelta != i {
			return f, fmt.Errorf("offset delta of %d", i)
		}
		check.one(i, &m)
	}
	if end, err := s.atEnd(); err != nil || !end {
		return f, fmt.Errorf("not at the end: %w", err)
	}
	return f, f.verdict()
}

// TestOrdinary: the loop for ordinary records takes and refuses exactly what the
// careful one does, whatever stands in the bytes.
func TestOrdinary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for round := range 60_000 {
		b := NewBuilder(BuilderOptions{LeaderEpoch: NoLeaderEpoch})
		for range 1 + rng.IntN(4) {
			var key []byte
			if rng.IntN(2) == 0 {
				key = make([]byte, rng.IntN(80))
			}
			var headers []Header
			if rng.IntN(8) == 0 {
				headers = []Header{{Key: "h", Value: []byte("v")}}
			}
			b.Append(int64(rng.IntN(20_000)), key, make([]byte, rng.IntN(90)), headers...)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		records := batch.RecordBytes()
		for range rng.IntN(3) {
			// mostly the small numbers that lengths and deltas are made of
			records[rng.IntN(len(records))] = byte(rng.IntN(256)) >> rng.IntN(7)
		}
		if rng.IntN(4) == 0 {
			batch = batch[:len(batch)-rng.IntN(len(records))]
		}
		o := benchOptions()
		o.NowMs, o.TimestampBeforeMaxMs, o.TimestampAfterMaxMs = 10_000, 9_000, 9_000
		o.Compacted, o.TimestampType = rng.IntN(2) == 0, CreateTime
		want, wantErr := closely(batch, &o)
		got, gotErr := scanRecords(batch, &o, nil)
		if (wantErr == nil) != (gotErr == nil) || fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("round %d: %v %v, want %v %v\n%x", round, got, gotErr, want, wantErr, records)
		}
		if gotErr == nil {
			accepted++
		}
	}
	if accepted < 5_000 {
		t.Errorf("%d batches were good: the test says little", accepted)
	}
}
