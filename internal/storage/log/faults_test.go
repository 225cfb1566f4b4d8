package log

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/commit"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// TestRollWithoutResources: no inode, or no file descriptor, is left when a
// segment rolls. The append is refused with a retriable error, what is there is
// read on, the folder stays online, and writing goes on when there is room again.
func TestRollWithoutResources(t *testing.T) {
	for _, lack := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE} {
		t.Run(lack.Error(), func(t *testing.T) {
			var lacking atomic.Bool
			mem := vfs.NewMem()
			fs := errfs.Wrap(mem, errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
				if lacking.Load() && (op.Kind == errfs.Create || op.Kind == errfs.OpenReadWrite) {
					return &errfs.Fault{Err: lack}
				}
				return nil
			}})
			cfg := crashConfig()
			h := mustStart(t, fs, cfg)
			l := h.log(t)
			lacking.Store(true)
			var refused error
			for refused == nil {
				_, refused = appendValues(l, day0, "a value that fills the segment")
			}
			wantCode(t, refused, kerrors.KafkaStorageError)
			if !errors.Is(refused, lack) {
				t.Errorf("the refusal does not say why: %v", refused)
			}
			if n := l.SegmentCount(); n != 1 {
				t.Fatalf("%d segments after a roll that failed", n)
			}
			end := l.LogEndOffset()
			if got, err := readAll(l, 0, end); err != nil || int64(len(got)) != end {
				t.Fatalf("%d of %d records can be read: %v", len(got), end, err)
			}
			lacking.Store(false)
			info, err := appendValues(l, day0, "again")
			if err != nil || info.FirstOffset != end || l.SegmentCount() != 2 {
				t.Fatalf("after the lack: %+v, %d segments, %v", info, l.SegmentCount(), err)
			}
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			left := mem.CrashClone(vfs.CrashOptions{})
			if got := mustStart(t, left, cfg).log(t).LogEndOffset(); got != end+1 {
				t.Errorf("the log ends at %d after a power cut, want %d", got, end+1)
			}
		})
	}
}

// TestBitRotInASealedSegment flips bits in the middle of a segment that was synced
// long ago. Nobody reads it again at start, as in Kafka. A damaged record is
// served as it lies there, and the reader's CRC check refuses it; damage to a
// length, which would lead astray, is answered with CORRUPT_MESSAGE. Everything
// else is served.
func TestBitRotInASealedSegment(t *testing.T) {
	cfg := testConfig()
	mem := vfs.NewMem()
	h := mustStart(t, mem, cfg)
	l := h.log(t)
	for l.SegmentCount() < 3 {
		if _, err := appendValues(l, day0, "some value that takes room"); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	path, end := l.path(segment.FileName(0, segment.LogSuffix)), l.LogEndOffset()
	second := l.Segments()[1].BaseOffset
	r, err := l.Read(ReadInput{StartOffset: second / 2, MaxBytes: 1, UpperBound: end, MinOneBatch: true})
	if err != nil {
		t.Fatal(err)
	}
	at := r.Records.Pos
	r.Release()
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
	flip := func(fs vfs.FS, pos int64) {
		f, err := fs.OpenReadWrite(path, false)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := []byte{0}
		if _, err = f.ReadAt(b, pos); err == nil {
			b[0] ^= 0x40
			_, err = f.WriteAt(b, pos)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a record", func(t *testing.T) {
		left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: 100})
		flip(left, at+record.HeaderSize+8)
		l := mustStart(t, left, cfg).log(t)
		if got, err := readAll(l, 0, second/2); err != nil || int64(len(got)) != second/2 {
			t.Errorf("before the damage: %d records, %v", len(got), err)
		}
		if _, err := readAll(l, second/2, second/2+1); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("the damaged batch: %v", err)
		}
		if got, err := readAll(l, second/2+1, end); err != nil || int64(len(got)) != end-second/2-1 {
			t.Errorf("behind the damage: %d records, %v", len(got), err)
		}
	})
	t.Run("a length", func(t *testing.T) {
		left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: 100})
		flip(left, at+8)
		l := mustStart(t, left, cfg).log(t)
		_, err := l.Read(ReadInput{StartOffset: second / 2, MaxBytes: 1, UpperBound: end, MinOneBatch: true})
		wantCode(t, err, kerrors.CorruptMessage)
		if got, err := readAll(l, second, end); err != nil || int64(len(got)) != end-second {
			t.Errorf("the other segments: %d records, %v", len(got), err)
		}
	})
}

// TestWhatAPowerCutMayLose holds each durability to what it promises (design D9).
// Strict: what is durable when the append is acknowledged survives. Replicated and
// relaxed: an append is acknowledged from memory, so a power cut right after it may
// lose it, a kill does not, and what the background has synced survives.
func TestWhatAPowerCutMayLose(t *testing.T) {
	for _, d := range []config.Durability{config.Strict, config.Replicated, config.Relaxed} {
		t.Run(d.String(), func(t *testing.T) {
			cfg := testConfig()
			cfg.Durability = d
			mem := vfs.NewMem()
			durable := make(chan int64, 100)
			h := mustStart(t, mem, cfg, func(o *ManagerOptions) {
				o.Commit = commit.Options{DirtyDelay: time.Hour} // the background waits for the test
				o.OnDurable = func(_ *Log, end int64) { durable <- end }
			})
			l := h.log(t)
			for i := range 5 {
				if _, err := appendValues(l, day0, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			ends := func(percent int) int64 {
				left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: percent})
				l, ok := mustStart(t, left, cfg).m.Get(testTP)
				if !ok {
					return 0
				}
				return l.LogEndOffset()
			}
			if got := ends(100); got != 5 {
				t.Errorf("a kill leaves %d of 5 records", got)
			}
			if d != config.Strict {
				if got := l.DurableEndOffset(); got != 0 {
					t.Errorf("%d records are called durable before any sync", got)
				}
				if got := ends(0); got != 0 {
					t.Errorf("an unlucky power cut left %d records: this test cuts nothing", got)
				}
				h.m.folders[0].loop.Request(l) // its time has come
			}
			for end := int64(0); end < 5; {
				end = <-durable
			}
			if got := ends(0); got != 5 {
				t.Errorf("a power cut leaves %d of 5 durable records", got)
			}
			if err := h.stop(true); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDamagedTxnIndexSaysSo: an entry that cannot be true is noticed at the first
// read, as Kafka's sanity check does at start, and the index is made anew from the
// log with one line. A .txnindex that is gone is an empty one, in Kafka too: most
// segments have none.
func TestDamagedTxnIndexSaysSo(t *testing.T) {
	for name, flip := range map[string]int64{"version": 0, "producer id": 2, "last offset": 18} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			h := mustStart(t, mem, testConfig())
			l := h.log(t)
			for i, b := range [][]byte{txnBatch(0, 7, 0, ""), txnBatch(1, 7, -1, "abort")} {
				if _, err := l.AppendAsFollower(b, 0); err != nil {
					t.Fatal(i, err)
				}
			}
			path := l.path(segment.FileName(0, segment.TxnIndexSuffix))
			if err := h.stop(true); err != nil {
				t.Fatal(err)
			}
			f, err := mem.OpenReadWrite(path, false)
			if err == nil {
				_, err = f.WriteAt([]byte{0xff}, flip)
			}
			if err != nil {
				t.Fatal(err)
			}
			h = mustStart(t, mem, testConfig())
			found, err := h.log(t).AbortedTxns(0, 2)
			if err != nil || len(found) != 1 || found[0].ProducerID != 7 || found[0].LastOffset != 1 {
				t.Errorf("%v, %v", found, err)
			}
			if n := strings.Count(h.logged.String(), "rebuilding a transaction index"); n != 1 {
				t.Errorf("%d lines about it:\n%s", n, h.logged)
			}
		})
	}
}
