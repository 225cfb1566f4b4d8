package log

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// TestConcurrentUse appends, reads, looks up, retains, checkpoints and
// reconfigures at the same time; it is meant for the race detector.
func TestConcurrentUse(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes, cfg.RetentionBytes = 3000, 9000
	cfg.FileDeleteDelayMs = 0
	var durable atomic.Int64
	h := mustStart(t, vfs.NewMem(), cfg, func(o *ManagerOptions) {
		o.MaxOpenFiles = 4
		o.OnDurable = func(l *Log, end int64) {
			durable.Store(end)
			l.SetHighWatermark(end)
		}
	})
	l := h.log(t)
	const appends = 600
	done := make(chan struct{})
	var wg sync.WaitGroup
	work := func(fn func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := fn(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work(func(int) error {
		_, err := readAll(l, l.LogStartOffset(), l.HighWatermark())
		if kerrors.CodeOf(err) == kerrors.OffsetOutOfRange {
			return nil // retention was faster
		}
		return err
	})
	work(func(i int) error {
		_, _, err := l.OffsetForTimestamp(day0+int64(i%appends), l.HighWatermark())
		if err != nil {
			return fmt.Errorf("time: %w", err)
		}
		l.Segments()
		return nil
	})
	work(func(int) error { h.m.DeleteOldSegments(); return h.m.Checkpoint() })
	work(func(i int) error { l.Reconfigure(cfg); h.m.folders[0].tick(day0 + 1); return nil })
	for i := range appends {
		if _, err := appendValues(l, day0+int64(i), "some value of some length", "another"); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
	if durable.Load() > 2*appends {
		t.Fatalf("durable %d", durable.Load())
	}
}

// TestStrictAdvances is the strict path: an append becomes durable by itself
// and the callback says so.
func TestStrictAdvances(t *testing.T) {
	heard := make(chan int64, 64)
	h := mustStart(t, vfs.NewMem(), testConfig(), func(o *ManagerOptions) {
		o.OnDurable = func(_ *Log, end int64) { heard <- end }
	})
	l := h.log(t)
	for i := range 5 {
		info, err := appendValues(l, day0, fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		for <-heard < info.NextOffset() {
		}
		if l.DurableEndOffset() != info.NextOffset() {
			t.Fatalf("durable %d", l.DurableEndOffset())
		}
	}
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
}

// TestFlushSettings: in relaxed durability nothing asks for a sync but
// flush.messages, when so many are not synced, and flush.ms after an append.
func TestFlushSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		messages, ms int64
		syncedAt     int64 // appends before a sync is due
	}{
		"flush.messages": {3, math.MaxInt64, 3},
		"flush.ms":       {math.MaxInt64, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan int64, 64)
			cfg := testConfig()
			cfg.Durability, cfg.FlushMessages, cfg.FlushMs = config.Relaxed, tc.messages, tc.ms
			h := mustStart(t, vfs.NewMem(), cfg, func(o *ManagerOptions) {
				o.CheckpointMs = math.MaxInt64 / 2 // else its syncs count too
				o.OnDurable = func(_ *Log, end int64) { heard <- end }
			})
			l := h.log(t)
			for i := range tc.syncedAt {
				if got := l.DurableEndOffset(); got != 0 {
					t.Fatalf("durable %d after %d appends", got, i)
				}
				if _, err := appendValues(l, day0, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			for <-heard < tc.syncedAt {
			}
			if err := h.stop(true); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFolderOffline is reliability row D6: after a failed fsync the folder is
// gone, its logs answer KAFKA_STORAGE_ERROR, and nothing is called durable.
func TestFolderOffline(t *testing.T) {
	broken := errors.New("input/output error")
	var fail atomic.Bool
	fs := errfs.Wrap(vfs.NewMem(), errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
		if fail.Load() && op.Kind == errfs.Sync {
			return &errfs.Fault{Err: broken}
		}
		return nil
	}})
	offline := make(chan error, 1)
	h := mustStart(t, fs, testConfig(), func(o *ManagerOptions) {
		o.OnDirOffline = func(_ *logdir.Dir, err error) { offline <- err }
	})
	l := h.log(t)
	if _, err := appendValues(l, day0, "a"); err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	if _, err := appendValues(l, day0, "b"); err != nil {
		t.Fatal(err)
	}
	if err := <-offline; !errors.Is(err, broken) {
		t.Fatal(err)
	}
	_, err := appendValues(l, day0, "c")
	wantCode(t, err, kerrors.KafkaStorageError)
	_, err = l.Read(ReadInput{UpperBound: 1, MaxBytes: 1})
	wantCode(t, err, kerrors.KafkaStorageError)
	if l.DurableEndOffset() != 1 {
		t.Fatalf("durable %d", l.DurableEndOffset())
	}
	if _, ok := h.m.Get(testTP); ok {
		t.Fatal("the manager still serves the log")
	}
	_, err = h.m.Create(types.TopicPartition{Topic: "u"}, testID, testConfig())
	wantCode(t, err, kerrors.KafkaStorageError)
	if done, err := h.m.Close(true); err == nil || len(done) > 0 {
		t.Fatalf("closed as clean: %v %v", done, err)
	}
}

// TestIdlePartitionsHoldNoFiles bounds open files by the cache, not by the
// number of partitions.
func TestIdlePartitionsHoldNoFiles(t *testing.T) {
	cfg := testConfig()
	cfg.Durability = config.Strict
	h := mustStart(t, vfs.NewMem(), cfg, func(o *ManagerOptions) { o.MaxOpenFiles = 8 })
	for p := range int32(50) {
		l, err := h.m.Create(types.TopicPartition{Topic: "many", Partition: p}, testID, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := appendValues(l, day0, "x"); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.m.OpenFiles(); n > 8 {
		t.Fatalf("%d open files", n)
	}
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
}
