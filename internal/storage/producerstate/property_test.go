package producerstate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// seen is an entry in a form that cmp can compare.
type seen struct {
	Entry   producerstate.Entry
	Batches []producerstate.BatchMeta
}

func entries(m interface{ Entries() []producerstate.Entry }) []seen {
	var out []seen
	for _, e := range m.Entries() {
		b := e.Batches()
		for i := range b {
			b[i].TimestampMs = 0 // a snapshot has one time for a batch and a marker after it
		}
		out = append(out, seen{e, b})
	}
	return out
}

// diff compares entries by their exported fields and their batches.
func diff(want, got []seen) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(producerstate.Entry{}))
}

// State == replay of the log, whatever was tried, refused, snapshotted,
// truncated and restarted in between; and the first unstable offset is what
// the batches say.
func TestStateEqualsReplay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.nowMs = 0 // nothing expires here
		reloaded := false
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			reloaded = randomStep(rt, t, w) || reloaded
			compareWithReplay(rt, w, reloaded)
		}
	})
}

// randomStep reports whether the state was loaded again.
func randomStep(rt *rapid.T, t *testing.T, w *world) (reloaded bool) {
	switch rapid.IntRange(0, 19).Draw(rt, "op") {
	case 0:
		_, _, err := w.m.TakeSnapshot(rapid.Bool().Draw(rt, "sync"))
		must(t, err)
	case 1:
		w.reload(t)
		return true
	case 2:
		if len(w.batches) > 0 {
			b := rapid.SampledFrom(w.batches).Draw(rt, "truncate before")
			if b.BaseOffset >= w.hw { // below it nothing is ever truncated
				w.truncate(t, b.BaseOffset)
				return true
			}
		}
	case 3:
		w.hw = rapid.Int64Range(w.hw, w.end).Draw(rt, "hw")
		w.m.OnHighWatermark(w.hw)
	default:
		b, origin := drawBatch(rt, w)
		v, err := w.append(b, origin)
		if err == nil && v.Duplicate && !inLog(w, b, v) {
			rt.Fatalf("duplicate of what is not in the log: %+v", v)
		}
	}
	return false
}

func drawBatch(rt *rapid.T, w *world) (producerstate.Batch, record.Origin) {
	b := producerstate.Batch{
		ProducerID:     rapid.Int64Range(0, 3).Draw(rt, "pid"),
		ProducerEpoch:  rapid.Int16Range(0, 3).Draw(rt, "epoch"),
		Transactional:  rapid.Bool().Draw(rt, "txn"),
		MaxTimestampMs: int64(len(w.batches)),
	}
	n := rapid.Int32Range(1, 3).Draw(rt, "n")
	b.LastOffset = int64(n)
	if rapid.IntRange(0, 4).Draw(rt, "marker") == 0 {
		b.Control, b.LastOffset, b.BaseSequence, b.LastSequence = true, 1, -1, -1
		b.Marker = &producerstate.Marker{
			Commit: rapid.Bool().Draw(rt, "commit"), CoordinatorEpoch: rapid.Int32Range(0, 2).Draw(rt, "coordinator"),
			TimestampMs: b.MaxTimestampMs, TransactionVersion: rapid.SampledFrom([]int16{0, 1, 2}).Draw(rt, "tv"),
		}
		return b, record.OriginCoordinator
	}
	// Mostly what continues, so that something is accepted.
	if e, ok := w.m.Entry(b.ProducerID); ok && rapid.IntRange(0, 5).Draw(rt, "wild") > 0 {
		b.ProducerEpoch, b.BaseSequence = e.Epoch, e.LastSequence()+1
		if e.InTransaction() {
			b.Transactional = true
		}
		if old := e.Batches(); len(old) > 0 && rapid.IntRange(0, 3).Draw(rt, "again") == 0 {
			m := rapid.SampledFrom(old).Draw(rt, "repeat")
			b.BaseSequence, n = m.FirstSequence(), m.OffsetDelta+1
			b.LastOffset = int64(n)
		}
	} else {
		b.BaseSequence = rapid.Int32Range(0, 4).Draw(rt, "seq")
	}
	b.LastSequence = b.BaseSequence + n - 1
	return b, rapid.SampledFrom([]record.Origin{record.OriginClient, record.OriginClient, record.OriginReplication}).Draw(rt, "origin")
}

func inLog(w *world, b producerstate.Batch, v producerstate.Verdict) bool {
	for _, x := range w.batches {
		if x.ProducerID == b.ProducerID && x.ProducerEpoch == b.ProducerEpoch && x.BaseSequence == b.BaseSequence &&
			x.LastSequence == b.LastSequence && x.BaseOffset == v.FirstOffset && x.LastOffset == v.LastOffset {
			return true
		}
	}
	return false
}

func compareWithReplay(rt *rapid.T, w *world, reloaded bool) {
	s := producerstate.NewState()
	type open struct{ first, marker int64 }
	var txns []open
	current := map[int64]int{} // pid -> index in txns
	for _, b := range w.batches {
		_, done, err := s.Apply(b, record.OriginReplication)
		if err != nil {
			rt.Fatalf("an accepted batch is refused in replay: %v", err)
		}
		for _, c := range done {
			if err := s.CompleteTxn(c); err != nil {
				rt.Fatal(err)
			}
		}
		i, isOpen := current[b.ProducerID]
		switch {
		case b.Control && isOpen:
			txns[i].marker = b.BaseOffset
			delete(current, b.ProducerID)
		case !b.Control && b.Transactional && !isOpen:
			current[b.ProducerID] = len(txns)
			txns = append(txns, open{b.BaseOffset, -1})
		}
	}
	if d := diff(entries(s), entries(w.m)); d != "" {
		rt.Fatalf("state is not what replay gives (-replay +state):\n%s", d)
	}
	want := int64(-1)
	for _, x := range txns {
		if (x.marker < 0 || x.marker >= w.hw) && (want < 0 || x.first < want) {
			want = x.first
		}
	}
	// After a reload the completed transactions above the last snapshot are
	// known again, those below it are not: everything there is below the high
	// watermark in a real log.
	if got, _ := w.m.FirstUnstableOffset(); got != want && !reloaded {
		rt.Fatalf("first unstable offset %d, the batches say %d", got, want)
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 30).Draw(rt, "batches") {
			b, origin := drawBatch(rt, w)
			_, _ = w.append(b, origin)
		}
		got, err := producerstate.DecodeSnapshot(producerstate.EncodeSnapshot(w.m.Entries()))
		if err != nil {
			rt.Fatal(err)
		}
		if d := diff(entries(w.m), entries(list(got))); d != "" {
			rt.Fatal(d)
		}
	})
}

type list []producerstate.Entry

func (l list) Entries() []producerstate.Entry { return l }

// D15, D19: after a crash at any operation and a replay, the state is the
// log's; damaged snapshots are reported, never used.
func TestD19_SnapshotsSurviveCrashes(t *testing.T) {
	w := newWorld(t)
	must(t, w.fs.SyncDir("/"))
	crashes := 0
	err := errfs.EachCrash(w.fs, func(fsys vfs.FS, acked func()) error {
		m, err := producerstate.Open(producerstate.Options{FS: fsys, Dir: dir})
		if err != nil {
			return err
		}
		w.m = m
		for i := range 8 {
			for p := range int64(20) {
				if _, err := w.append(producerstate.Batch{ProducerID: p, BaseSequence: int32(i), LastSequence: int32(i), LastOffset: 1}, record.OriginClient); err != nil {
					return err
				}
			}
			if _, _, err := m.TakeSnapshot(i%2 == 0); err != nil {
				return err
			}
			acked()
			if i == 5 {
				if err := m.DeleteSnapshotsBefore(60); err != nil {
					return err
				}
			}
		}
		return nil
	}, func(c errfs.Crash) {
		crashes++
		left := &world{fs: c.Left, batches: w.batches, end: w.end}
		left.open(t)
		left.reload(t)
		if d := diff(entries(w.m), entries(left.m)); d != "" {
			t.Fatalf("after %v (%d%%): %s", c.After.Kind, c.Percent, d)
		}
		if c.Percent == 0 && len(left.reports) > 0 {
			t.Errorf("after %v with nothing unsynced kept: %v", c.After.Kind, left.reports)
		}
	})
	must(t, err)
	if crashes == 0 {
		t.Error("no crash was tried")
	}
}

// D20: an error at operation i, for all i, reaches the caller, and a later
// start still finds the log's state.
func TestD20_SnapshotErrors(t *testing.T) {
	for i := int64(0); ; i++ {
		w := newWorld(t)
		fsys := errfs.Wrap(w.fs, errfs.Hooks{Before: errfs.FailNth(i, fmt.Errorf("boom"), nil)})
		failed := func() error {
			m, err := producerstate.Open(producerstate.Options{FS: fsys, Dir: dir})
			if err != nil {
				return err
			}
			w.m = m
			for seq := range int32(4) {
				_, _ = w.append(producerstate.Batch{ProducerID: 1, BaseSequence: seq, LastSequence: seq, LastOffset: 1}, record.OriginClient)
				if _, _, err := m.TakeSnapshot(true); err != nil {
					return err
				}
			}
			if _, _, err := m.DetachSnapshot(2, ".deleted"); err != nil {
				return err
			}
			if err := m.DeleteSnapshotsBefore(2); err != nil {
				return err
			}
			m.SetEndOffset(100)
			return m.TruncateAndReload(0, 3, 0)
		}()
		if failed == nil {
			if i < 20 {
				t.Fatalf("only %d operations", i)
			}
			return
		}
		w.nowMs = 0
		before := len(w.batches)
		w.reload(t)
		if e, ok := w.m.Entry(1); before > 0 && (!ok || e.LastSequence() != int32(before-1)) {
			t.Errorf("operation %d (%v): lost the producer: %+v", i, failed, e)
		}
	}
}
