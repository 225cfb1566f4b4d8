package commit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/internal/storage/commit"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog counts what the loop does to it.
type fakeLog struct {
	end    atomic.Int64 // what is written
	syncFn func() error

	inSync    atomic.Int32
	inTell    atomic.Int32
	syncs     atomic.Int32
	durable   atomic.Int64
	failures  atomic.Int32
	err       atomic.Value
	violation atomic.Value
	onDurable func(int64)
}

func (f *fakeLog) broken(format string, args ...any) {
	f.violation.Store(fmt.Sprintf(format, args...))
}

func (f *fakeLog) FlushUpTo() int64 { return f.end.Load() }

func (f *fakeLog) WriteOut() {
	if f.inSync.Load() != 0 {
		f.broken("written out during a sync")
	}
}

func (f *fakeLog) Sync() error {
	if f.inSync.Add(1) != 1 {
		f.broken("two syncs at once")
	}
	defer f.inSync.Add(-1)
	f.syncs.Add(1)
	if f.syncFn != nil {
		return f.syncFn()
	}
	return nil
}

func (f *fakeLog) OnDurable(offset int64) {
	if f.inTell.Add(1) != 1 {
		f.broken("two callbacks at once")
	}
	defer f.inTell.Add(-1)
	if f.failures.Load() > 0 {
		f.broken("durable %d after a failure", offset)
	}
	if old := f.durable.Swap(offset); old > offset && f.end.Load() >= old {
		f.broken("durable went from %d to %d", old, offset)
	}
	if f.onDurable != nil {
		f.onDurable(offset)
	}
}

func (f *fakeLog) OnFailed(err error) {
	f.err.Store(err)
	f.failures.Add(1)
}

func (f *fakeLog) check(t *testing.T) {
	t.Helper()
	if v := f.violation.Load(); v != nil {
		t.Error(v)
	}
}

func TestRequestMakesDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := commit.New(commit.Options{})
		f := &fakeLog{}
		f.end.Store(10)
		l.Request(f)
		synctest.Wait()
		if got := f.durable.Load(); got != 10 {
			t.Fatalf("durable %d, want 10", got)
		}
		if st := l.Stats(); st.Syncs != 1 || st.Requests != 1 {
			t.Fatalf("stats %+v", st)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// What many connections ask for while one sync runs is one more sync.
func TestRequestsDuringASyncShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group atomic.Int64
		l := commit.New(commit.Options{Observer: observer(func(_ time.Duration, requests int, _ error) { group.Store(int64(requests)) })})
		gate := make(chan struct{})
		f := &fakeLog{syncFn: func() error { <-gate; return nil }}
		f.end.Store(1)
		l.Request(f)
		synctest.Wait()
		for range 50 {
			f.end.Add(1)
			l.Request(f)
		}
		if got := f.durable.Load(); got != 0 {
			t.Fatalf("durable %d before the disk answered", got)
		}
		gate <- struct{}{}
		synctest.Wait()
		if got := f.durable.Load(); got != 1 {
			t.Fatalf("durable %d, want 1: what came during a sync is not covered by it", got)
		}
		gate <- struct{}{}
		synctest.Wait()
		if f.durable.Load() != 51 || f.syncs.Load() != 2 || group.Load() != 50 {
			t.Fatalf("durable %d after %d syncs, last group %d; want 51, 2, 50", f.durable.Load(), f.syncs.Load(), group.Load())
		}
		f.check(t)
		l.Close()
	})
}

func TestParallelIsBoundedAndASlowLogHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := commit.New(commit.Options{Parallel: 4})
		slow := &fakeLog{syncFn: func() error { time.Sleep(time.Hour); return nil }}
		slow.end.Store(1)
		l.Request(slow)
		var running, most atomic.Int32
		logs := make([]*fakeLog, 100)
		for i := range logs {
			logs[i] = &fakeLog{syncFn: func() error {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Millisecond)
				running.Add(-1)
				return nil
			}}
			logs[i].end.Store(int64(i + 1))
			l.Request(logs[i])
		}
		time.Sleep(time.Second)
		for i, f := range logs {
			if f.durable.Load() != int64(i+1) {
				t.Fatalf("log %d waits for the slow one", i)
			}
		}
		if got := most.Load(); got != 3 {
			t.Fatalf("%d syncs at once beside the slow one, want 3", got)
		}
		if st := l.Stats(); st.OldestSync != time.Second || st.Syncing != 1 {
			t.Fatalf("stats %+v, want a sync of one second under way", st)
		}
		l.Close()
	})
}

// The next sync of a log does not wait for the callback of the last one, and
// the callbacks still come one at a time and in order.
func TestCallbacksAreOrderedWhileSyncsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := commit.New(commit.Options{})
		gate := make(chan struct{})
		f := &fakeLog{}
		f.onDurable = func(int64) { <-gate }
		f.end.Store(1)
		l.Request(f)
		synctest.Wait()
		for range 3 {
			f.end.Add(1)
			l.Request(f)
			synctest.Wait()
		}
		if got := f.syncs.Load(); got != 4 {
			t.Fatalf("%d syncs while a callback runs, want 4", got)
		}
		close(gate)
		synctest.Wait()
		if got := f.durable.Load(); got != 4 {
			t.Fatalf("durable %d, want 4", got)
		}
		f.check(t)
		l.Close()
	})
}

// A truncation takes the end back; what is durable then is still reported.
func TestDurableFollowsATruncation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := commit.New(commit.Options{})
		gate := make(chan struct{})
		f := &fakeLog{syncFn: func() error { <-gate; return nil }}
		f.end.Store(100)
		l.Request(f)
		synctest.Wait()
		l.Request(f) // the slot never becomes idle
		gate <- struct{}{}
		synctest.Wait()
		f.durable.Store(50)
		f.end.Store(60)
		l.Request(f)
		close(gate)
		synctest.Wait()
		if got := f.durable.Load(); got != 60 {
			t.Fatalf("durable %d, want 60", got)
		}
		l.Close()
	})
}

func TestDeferWaitsForTimeBytesOrARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := commit.New(commit.Options{DirtyDelay: time.Second, DirtyBytes: 100})
		a, b := &fakeLog{}, &fakeLog{}
		a.end.Store(1)
		b.end.Store(1)
		l.Defer(a, time.Minute, 10)
		l.Defer(b, 10*time.Millisecond, 10)
		time.Sleep(20 * time.Millisecond)
		if a.durable.Load() != 0 || b.durable.Load() != 1 {
			t.Fatalf("after 20 ms: a %d, b %d", a.durable.Load(), b.durable.Load())
		}
		if got := l.Stats().DirtyBytes; got != 10 {
			t.Fatalf("dirty bytes %d, want 10", got)
		}
		time.Sleep(time.Second)
		if a.durable.Load() != 1 {
			t.Fatal("the delay is not bounded by DirtyDelay")
		}
		a.end.Store(2)
		b.end.Store(2)
		l.Defer(a, time.Second, 50)
		l.Defer(b, time.Second, 60)
		synctest.Wait()
		if a.durable.Load() != 2 || b.durable.Load() != 2 || l.Stats().DirtyBytes != 0 {
			t.Fatal("too many dirty bytes must be synced at once")
		}
		a.end.Store(3)
		l.Defer(a, time.Second, 1)
		l.Request(a)
		synctest.Wait()
		if a.durable.Load() != 3 {
			t.Fatal("a request overtakes the delay")
		}
		a.end.Store(4)
		l.Defer(a, time.Second, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if a.durable.Load() != 4 {
			t.Fatal("Close must sync what was deferred")
		}
	})
}

func TestFlushWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := commit.New(commit.Options{})
		f := &fakeLog{syncFn: func() error { time.Sleep(time.Millisecond); return nil }}
		f.end.Store(1)
		l.Request(f)
		synctest.Wait()
		f.end.Store(2)
		if err := l.Flush(f); err != nil {
			t.Fatal(err)
		}
		if got := f.syncs.Load(); got != 2 {
			t.Fatalf("%d syncs: the one under way did not cover the second append", got)
		}
		l.Close()
		if err := l.Flush(f); !errors.Is(err, commit.ErrClosed) {
			t.Fatalf("flush after close: %v", err)
		}
		l.Request(f)
		synctest.Wait()
		if f.failures.Load() != 1 {
			t.Fatal("a request after close must hear OnFailed")
		}
	})
}

// D6: the first failed fsync stops everything, tells everyone, and nothing is
// ever synced again.
func TestD6_FailedSyncIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offline atomic.Int32
		var order atomic.Bool
		var late *fakeLog
		l := commit.New(commit.Options{Parallel: 2, OnOffline: func(err error) {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("offline because of %v", err)
			}
			offline.Add(1)
			time.Sleep(time.Second) // others return meanwhile
			order.Store(late.failures.Load() == 0)
		}})
		bad := &fakeLog{syncFn: func() error { time.Sleep(time.Millisecond); return syscall.EIO }}
		late = &fakeLog{syncFn: func() error { time.Sleep(2 * time.Millisecond); return nil }}
		queued, deferred := &fakeLog{}, &fakeLog{}
		for _, f := range []*fakeLog{bad, late, queued} {
			f.end.Store(1)
		}
		underWay := make(chan error, 1)
		l.Request(bad)
		go func() { underWay <- l.Flush(late) }()
		synctest.Wait()
		l.Request(queued)
		l.Defer(deferred, time.Minute, 1)
		if err := l.Flush(queued); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a waiter got %v", err)
		}
		if err := <-underWay; !errors.Is(err, syscall.EIO) {
			t.Fatalf("a waiter whose sync was under way got %v", err)
		}
		time.Sleep(time.Hour)
		for i, f := range []*fakeLog{bad, late, queued, deferred} {
			if f.failures.Load() != 1 || f.durable.Load() != 0 {
				t.Errorf("log %d: %d failures, durable %d; want one failure and nothing durable", i, f.failures.Load(), f.durable.Load())
			}
		}
		if offline.Load() != 1 || !order.Load() {
			t.Errorf("offline called %d times; before every OnFailed: %v", offline.Load(), order.Load())
		}
		before := bad.syncs.Load() + late.syncs.Load() + queued.syncs.Load()
		l.Request(bad)
		l.Defer(queued, 0, 1)
		if err := l.Flush(late); !errors.Is(err, syscall.EIO) {
			t.Errorf("flush after the failure: %v", err)
		}
		time.Sleep(time.Hour)
		if after := bad.syncs.Load() + late.syncs.Load() + queued.syncs.Load(); after != before {
			t.Error("something was synced after the failure")
		}
		if bad.failures.Load() != 2 || queued.failures.Load() != 2 {
			t.Error("a late request got no answer")
		}
		if err := l.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("close: %v", err)
		}
	})
}

// fileLog appends to a real vfs file.
type fileLog struct {
	fakeLog
	f vfs.File
}

func (f *fileLog) append(b []byte) error {
	_, err := f.f.WriteAt(b, f.end.Load())
	if err == nil {
		f.end.Add(int64(len(b)))
	}
	return err
}

// D20: an fsync error at operation i, for all i. After a power cut that keeps
// only what was synced, every offset that was reported durable is there.
func TestD20_SyncErrorAtEveryOperation(t *testing.T) {
	for i := int64(0); ; i++ {
		mem := vfs.NewMem()
		fsys := errfs.Wrap(mem, errfs.Hooks{Before: errfs.FailNth(i, syscall.EIO, errfs.Kinds(errfs.Sync))})
		failed := runLoad(t, fsys, mem, uint64(i))
		if !failed {
			if i < 20 {
				t.Fatalf("only %d syncs happened", i)
			}
			return
		}
	}
}

func runLoad(t *testing.T, fsys vfs.FS, mem *vfs.Mem, seed uint64) (failed bool) {
	t.Helper()
	var offline atomic.Int32
	l := commit.New(commit.Options{Parallel: 3, OnOffline: func(error) { offline.Add(1) }})
	logs := make([]*fileLog, 5)
	for i := range logs {
		f, err := fsys.Create(fmt.Sprintf("/d/%d", i))
		if err != nil {
			if err := fsys.MkdirAll("/d"); err != nil {
				t.Fatal(err)
			}
			f, err = fsys.Create(fmt.Sprintf("/d/%d", i))
			if err != nil {
				t.Fatal(err)
			}
		}
		logs[i] = &fileLog{f: f}
		logs[i].syncFn = f.Sync
	}
	if err := mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	if err := mem.SyncDir("/d"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, f := range logs {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 20 {
				if err := f.append(make([]byte, 1+rng.IntN(2000))); err != nil {
					t.Error(err)
				}
				if rng.IntN(4) == 0 {
					_ = l.Flush(f) // the error is seen through OnFailed
				} else {
					l.Request(f)
				}
			}
		})
	}
	wg.Wait()
	err := l.Close()
	if (err != nil) != (offline.Load() == 1) {
		t.Fatalf("close says %v, offline was called %d times", err, offline.Load())
	}
	left := mem.CrashClone(vfs.CrashOptions{})
	for _, f := range logs {
		f.check(t)
		size := int64(0)
		if info, err := left.Stat(filepath.Clean(f.f.Name())); err == nil {
			size = info.Size()
		}
		if size < f.durable.Load() {
			t.Fatalf("sync %d: %s holds %d bytes, %d were reported durable", seed, f.f.Name(), size, f.durable.Load())
		}
		if err == nil && f.durable.Load() != f.end.Load() {
			t.Fatalf("closed cleanly with %d of %d durable", f.durable.Load(), f.end.Load())
		}
	}
	return err != nil
}

type observer func(time.Duration, int, error)

func (o observer) Synced(took time.Duration, requests int, err error) { o(took, requests, err) }
