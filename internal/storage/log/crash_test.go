package log

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// quiet stops the manager's background work, so that every operation happens on
// the test's goroutine, in the same order each time.
func (h *host) quiet() {
	h.m.stopped.Do(func() { close(h.m.stop) })
	h.m.runner.Wait()
	h.m.folders[0].env.sync = func(*Log) {}
}

func crashConfig() config.TopicConfig {
	cfg := testConfig()
	cfg.SegmentBytes = 700
	cfg.Durability = config.Relaxed
	return cfg
}

// story is a run of a log and what it may count on.
type story struct {
	h     *host
	l     *Log
	acked func()
	next  int
	ever  map[int64][]string // every value ever written at an offset
	now   map[int64]string   // what the log holds
	kept  []promise          // by number of acked calls
	abort []int64            // offsets of abort markers in the log
}

type promise struct {
	start, end int64
	values     map[int64]string
	aborted    []int64
}

func (s *story) promise() {
	p := promise{start: s.l.LogStartOffset(), end: s.l.DurableEndOffset(), values: map[int64]string{}}
	for o, v := range s.now {
		if o >= p.start && o < p.end {
			p.values[o] = v
		}
	}
	for _, m := range s.abort {
		if m < p.end {
			p.aborted = append(p.aborted, m)
		}
	}
	s.kept = append(s.kept, p)
	s.acked()
}

// transaction appends a batch of a transaction and the marker that aborts it.
func (s *story) transaction() error {
	pid := int64(100 + len(s.abort))
	at := s.l.LogEndOffset()
	s.ever[at] = append(s.ever[at], "in transaction")
	s.ever[at+1] = append(s.ever[at+1], string([]byte{0, 0, 0, 0, 0, 7}))
	for i, b := range [][]byte{txnBatch(at, pid, 0, ""), txnBatch(at+1, pid, -1, "abort")} {
		if _, err := s.l.AppendAsFollower(b, 9); err != nil {
			return err
		}
		s.now[at+int64(i)] = s.ever[at+int64(i)][len(s.ever[at+int64(i)])-1]
	}
	s.abort = append(s.abort, at+1)
	return nil
}

func (s *story) open(fs vfs.FS, cfg config.TopicConfig) error {
	h, err := start(fs, cfg)
	if err != nil {
		return err
	}
	s.h = h
	h.quiet()
	s.l, err = h.m.Create(testTP, testID, cfg)
	return err
}

func (s *story) append(n int) error {
	for range n {
		values := []string{fmt.Sprintf("v%03d", s.next), fmt.Sprintf("w%03d", s.next)}
		s.next++
		at := s.l.LogEndOffset()
		for i, v := range values {
			s.ever[at+int64(i)] = append(s.ever[at+int64(i)], v)
		}
		info, err := appendValues(s.l, day0+int64(s.next), values...)
		if err != nil {
			return err
		}
		for i, v := range values {
			s.now[info.FirstOffset+int64(i)] = v
		}
	}
	return nil
}

func (s *story) flush() error {
	if err := s.l.Flush(); err != nil {
		return err
	}
	s.l.SetHighWatermark(s.l.DurableEndOffset())
	s.promise()
	return nil
}

func (s *story) truncate(offset int64) error {
	for o := range s.now {
		if o >= offset {
			delete(s.now, o)
		}
	}
	p := s.kept[len(s.kept)-1]
	p.end = min(p.end, offset)
	p.aborted = slices.DeleteFunc(slices.Clone(p.aborted), func(m int64) bool { return m >= offset })
	s.abort = slices.DeleteFunc(s.abort, func(m int64) bool { return m >= offset })
	s.kept = append(s.kept, p)
	s.acked()
	return s.l.TruncateTo(offset)
}

// raisedTo is where the story moves the log start to.
const raisedTo = 12

// steps is the life of the log that every crash and every error is tried in.
func (s *story) steps(fs vfs.FS, cfg config.TopicConfig) []func() error {
	return []func() error{
		func() error { return s.open(fs, cfg) },
		func() error { s.promise(); return s.append(6) },
		s.flush,
		func() error { return s.append(9) }, // rolls
		s.transaction,
		s.flush,
		s.transaction,
		func() error { return s.append(1) },
		s.snapshot,
		s.flush,
		func() error { return s.h.m.Checkpoint() },
		func() error { return s.l.AssignLeaderEpoch(3) },
		func() error { return s.append(3) },
		func() error { return s.truncate(s.l.LogEndOffset() - 4) },
		func() error { return s.append(4) },
		s.flush,
		func() error { return s.l.IncrementLogStartOffset(raisedTo) },
		func() error { return s.h.m.Checkpoint() },
		func() error { s.promise(); _, err := s.l.DeleteOldSegments(day0); return err },
		func() error { s.h.m.folders[0].tick(day0 + 100_000); return nil },
		func() error { return s.append(2) },
		s.transaction,
		func() error { return s.h.stop(true) },
		func() error { s.l = nil; return s.open(fs, cfg) },
		func() error { return s.append(5) },
		s.flush,
		func() error { return s.h.stop(false) },
		func() error { s.l = nil; return s.open(fs, cfg) },
		func() error { return s.append(2) },
		s.flush,
	}
}

// snapshot is what a checkpoint does when much was appended.
func (s *story) snapshot() error {
	s.l.mu.Lock()
	s.l.sinceSnap = snapshotBytes
	s.l.mu.Unlock()
	s.l.prepareCheckpoint()
	return nil
}

func newStory(acked func()) *story {
	return &story{acked: acked, ever: map[int64][]string{}, now: map[int64]string{}}
}

// holds checks a disk against a promise: every promised record is there, what
// else is there was written once, nothing is torn, and the log goes on.
func holds(fs vfs.FS, cfg config.TopicConfig, p *promise, ever map[int64][]string) error {
	h, err := start(fs, cfg)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer func() { _ = h.stop(false) }()
	h.quiet()
	l, ok := h.m.Get(testTP)
	if !ok {
		if p != nil && p.end > p.start { // without a record its folder may go (SyncNames)
			return errors.New("the log is gone")
		}
		return nil
	}
	from, end := l.LogStartOffset(), l.LogEndOffset()
	if p != nil && (from < p.start || from > raisedTo || end < p.end) {
		return fmt.Errorf("the log is [%d, %d), promised [%d, %d)\n%s", from, end, p.start, p.end, h.logged)
	}
	got, err := readAll(l, from, end)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if int64(len(got)) != end-from {
		return fmt.Errorf("%d records in [%d, %d)", len(got), from, end)
	}
	for i, g := range got {
		off := from + int64(i)
		v, found := strings.CutPrefix(g, fmt.Sprintf("%d:", off))
		if !found {
			return fmt.Errorf("offset %d reads as %s", off, g)
		}
		if p != nil && off < p.end {
			if want, promised := p.values[off]; promised && v != want {
				return fmt.Errorf("offset %d holds %s, promised %s", off, v, want)
			}
		}
		if !slices.Contains(ever[off], v) {
			return fmt.Errorf("offset %d holds %q, which was never written there", off, v)
		}
	}
	if err := abortsHold(l, p, end); err != nil {
		return err
	}
	info, err := appendValues(l, day0+1000, "after")
	if err != nil || info.FirstOffset != end {
		return fmt.Errorf("append after the crash: %+v, %w", info, err)
	}
	return l.Flush()
}

// abortsHold checks that the index knows every aborted transaction: those that
// were promised, and those whose marker the log holds.
func abortsHold(l *Log, p *promise, end int64) error {
	found, err := l.AbortedTxns(0, end)
	if err != nil {
		return err
	}
	have := map[int64]bool{}
	for _, a := range found {
		have[a.LastOffset] = true
	}
	if p != nil {
		for _, m := range p.aborted {
			if !have[m] && m >= l.LogStartOffset() {
				return fmt.Errorf("the transaction aborted at %d is not in the index: %v", m, found)
			}
		}
	}
	return l.walk(l.LogStartOffset(), func(b record.Batch, _ *segment.Segment) error {
		if b.IsControl() && !have[b.BaseOffset()] {
			return fmt.Errorf("the log has an abort marker at %d, the index has not: %v", b.BaseOffset(), found)
		}
		return nil
	})
}

// TestCrashAfterEveryOperation is reliability row D19.
func TestCrashAfterEveryOperation(t *testing.T) {
	cfg := crashConfig()
	var s *story
	n := 0
	err := errfs.EachCrash(vfs.NewMem(), func(fs vfs.FS, acked func()) error {
		s = newStory(acked)
		for i, step := range s.steps(fs, cfg) {
			if err := step(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		return nil
	}, func(c errfs.Crash) {
		n++
		var p *promise
		if c.Acked > 0 {
			p = &s.kept[c.Acked-1]
		}
		if err := holds(c.Left, cfg, p, s.ever); err != nil {
			t.Fatalf("after %d %s %s (keeping %d%%, seed %d, promise %d): %v", c.After.Index, c.After.Kind, c.After.Path, c.Percent, c.Seed, c.Acked, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crashes", n)
}

// TestErrorAtEveryOperation is reliability row D20: an I/O error or a full disk
// at operation i, for all i. What was acknowledged must be there on the healed
// disk; nothing may panic.
func TestErrorAtEveryOperation(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
		t.Run(fault.Error(), func(t *testing.T) {
			cfg := crashConfig()
			for i := int64(0); ; i++ {
				mem := vfs.NewMem()
				hit := false
				fs := errfs.Wrap(mem, errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
					if op.Index != i {
						return nil
					}
					hit = true
					if op.Kind == errfs.Lock {
						return nil
					}
					return &errfs.Fault{Err: fault, ShortBytes: 40}
				}})
				s := newStory(func() {})
				failed := s.live(fs, cfg)
				if s.h != nil {
					_ = s.h.stop(false)
				}
				var p *promise
				if len(s.kept) > 0 {
					p = &s.kept[len(s.kept)-1]
				}
				if err := holds(mem, cfg, p, s.ever); err != nil {
					t.Fatalf("operation %d, step failed with %v: %v", i, failed, err)
				}
				if !hit {
					t.Logf("%d operations", i)
					return
				}
			}
		})
	}
}

// live goes through the steps, past errors; without a log it ends.
func (s *story) live(fs vfs.FS, cfg config.TopicConfig) error {
	var first error
	for _, step := range s.steps(fs, cfg) {
		if s.l == nil && s.h != nil && first != nil {
			return first
		}
		if err := step(); err != nil && first == nil {
			first = err
		}
		if s.h == nil || s.l == nil && s.kept == nil {
			return first
		}
	}
	return first
}

// TestTruncatedAtEveryByte is reliability row D13: a file that ends anywhere in
// its last two batches recovers to the last whole batch.
func TestTruncatedAtEveryByte(t *testing.T) {
	cfg := crashConfig()
	cfg.SegmentBytes = 1 << 20
	mem := vfs.NewMem()
	h := mustStart(t, mem, cfg)
	l := h.log(t)
	var ends []int64
	for i := range 6 {
		if _, err := appendValues(l, day0+int64(i), fmt.Sprintf("value %d", i)); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, l.SizeBytes())
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	path := l.path("00000000000000000000.log")
	if err := h.stop(false); err != nil {
		t.Fatal(err)
	}
	for size := ends[3]; size <= ends[5]; size++ {
		left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: 100})
		f, err := left.OpenReadWrite(path, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		h := mustStart(t, left, cfg)
		l := h.log(t)
		want := int64(0)
		for _, e := range ends {
			if e <= size {
				want++
			}
		}
		if l.LogEndOffset() != want {
			t.Fatalf("size %d: log end %d, want %d", size, l.LogEndOffset(), want)
		}
		if _, err := readAll(l, 0, want); err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		if err := h.stop(true); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFlippedBytes flips each byte behind the recovery point in turn.
func TestFlippedBytes(t *testing.T) {
	cfg := crashConfig()
	cfg.SegmentBytes = 1 << 20
	mem := vfs.NewMem()
	h := mustStart(t, mem, cfg)
	h.quiet()
	l := h.log(t)
	for i := range 3 {
		if _, err := appendValues(l, day0+int64(i), "value"); err != nil {
			t.Fatal(err)
		}
	}
	path, size := l.path("00000000000000000000.log"), l.SizeBytes()
	if err := h.stop(false); err != nil {
		t.Fatal(err)
	}
	for at := size / 3; at < size; at++ {
		left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: 100})
		f, err := left.OpenReadWrite(path, false)
		if err != nil {
			t.Fatal(err)
		}
		b := []byte{0}
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x10
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
		h := mustStart(t, left, cfg)
		l := h.log(t)
		// The base offset and the leader epoch are not covered by the CRC; a
		// wrong offset is refused when it falls below the one before.
		inBatch := at % (size / 3)
		want := at / (size / 3)
		if got := l.LogEndOffset(); got != want && inBatch >= record.LogOverhead+4 {
			t.Fatalf("byte %d: log end %d, want %d", at, got, want)
		}
		if err := h.stop(false); err != nil {
			t.Fatal(err)
		}
	}
}
