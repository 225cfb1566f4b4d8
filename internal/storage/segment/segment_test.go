package segment

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

const dir = "/p-0"

func options(fs vfs.FS, logged *bytes.Buffer) Options {
	if logged == nil {
		logged = &bytes.Buffer{}
	}
	return Options{
		Cache: filecache.New(fs, 4), Folder: NewFolder(dir), IndexIntervalBytes: 100, IndexBytes: 1 << 16,
		Logger: slog.New(slog.NewTextHandler(logged, nil)), NowMs: 1000,
	}
}

func memory(t testing.TB) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	return fs
}

func batchAt(base, ts int64, records int) record.Batch {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: base})
	for i := range records {
		b.Append(ts+int64(i), nil, []byte(fmt.Sprintf("value %d", base+int64(i))))
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

// filled is a segment of n batches of two records, 10 ms apart.
func filled(t testing.TB, fs vfs.FS, base int64, n int) *Segment {
	t.Helper()
	s, err := Create(base, options(fs, nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := s.Append(batchAt(base+2*int64(i), 1000+10*int64(i), 2)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestNames(t *testing.T) {
	if got := FileName(4992, LogSuffix); got != "00000000000000004992.log" {
		t.Error(got)
	}
	for name, want := range map[string]string{
		"00000000000000004992.log":              "4992 .log",
		"00000000000000004992.timeindex":        "4992 .timeindex",
		"00000000000000000000.log.deleted":      "0 .log.deleted",
		"4992.log":                              "",
		"leader-epoch-checkpoint":               "",
		"0000000000000000499x.log":              "",
		"00000000000000000012-0000000001.check": "",
	} {
		base, suffix, ok := ParseName(name)
		got := ""
		if ok {
			got = fmt.Sprintf("%d %s", base, suffix)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestFindEveryOffset(t *testing.T) {
	fs := memory(t)
	s := filled(t, fs, 50, 200)
	check := func(s *Segment) {
		t.Helper()
		for off := int64(50); off < 450; off++ {
			r, ok, err := s.Read(off, 1, s.Size(), true)
			if err != nil || !ok {
				t.Fatal(off, ok, err)
			}
			b := make([]byte, r.Len)
			if _, err := r.File.ReadAt(b, r.Pos); err != nil {
				t.Fatal(err)
			}
			r.File.Release()
			if got := record.Batch(b); got.BaseOffset() > off || got.LastOffset() < off || got.Verify() != nil {
				t.Fatalf("offset %d: batch %d..%d", off, got.BaseOffset(), got.LastOffset())
			}
		}
		if _, ok, err := s.Read(450, 1, s.Size(), true); ok || err != nil {
			t.Fatal("found an offset behind the end", err)
		}
	}
	check(s)
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	opened := Open(50, s.Size(), true, options(fs, nil))
	check(opened)
	if ts, err := opened.MaxTimestamp(); err != nil || ts.TimestampMs != 2991 || ts.Offset != 449 {
		t.Fatal(ts, err)
	}
	if first, err := opened.WaitedForRollMs(0, 5000); err != nil || first != 5000-1001 {
		t.Fatal(first, err)
	}
}

// TestEndPosition bounds a read below an offset.
func TestEndPosition(t *testing.T) {
	s := filled(t, memory(t), 0, 100)

	for _, upper := range []int64{0, 1, 2, 99, 100, 199, 200, 300} {
		got, err := s.EndPosition(upper)
		want := s.Size()
		r, ok, ferr := s.Read(upper, 1, s.Size(), true)
		if ok {
			want = r.Pos
			r.File.Release()
		}
		if err != nil || ferr != nil || got != want {
			t.Fatalf("upper %d: %d, want %d (%v)", upper, got, want, err)
		}
	}
}

// TestFailedWrite leaves nothing behind, whether the cut works at once or not.
func TestFailedWrite(t *testing.T) {
	fs := memory(t)
	failWrite, failCut := false, false
	wrapped := errfs.Wrap(fs, errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
		switch {
		case failWrite && op.Kind == errfs.Write && strings.HasSuffix(op.Path, LogSuffix):
			return &errfs.Fault{Err: syscall.ENOSPC, ShortBytes: 33}
		case failCut && op.Kind == errfs.Truncate && strings.HasSuffix(op.Path, LogSuffix):
			return &errfs.Fault{Err: syscall.EIO}
		}
		return nil
	}})
	s := filled(t, wrapped, 0, 3)
	size := s.Size()
	fileSize := func() int64 {
		info, err := fs.Stat(s.FilePath(kindLog))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	failWrite = true
	if err := s.Append(batchAt(6, 0, 2)); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrTorn) {
		t.Fatal(err)
	}
	if s.Size() != size || fileSize() != size {
		t.Fatalf("size %d, file %d, want %d", s.Size(), fileSize(), size)
	}
	failCut = true
	if err := s.Append(batchAt(6, 0, 2)); !errors.Is(err, ErrTorn) || !s.Torn() {
		t.Fatal(err)
	}
	failWrite = false
	if err := s.Append(batchAt(6, 0, 2)); !errors.Is(err, ErrTorn) {
		t.Fatal("wrote behind torn bytes", err)
	}
	failCut = false
	if err := s.Append(batchAt(6, 0, 2)); err != nil || s.Torn() || fileSize() != s.Size() {
		t.Fatal(err)
	}
	if next, err := s.NextOffset(); err != nil || next != 8 {
		t.Fatal(next, err)
	}
}

// TestRecoverReadsOnlyTheTail proves that a restart does not scan what was
// durable.
func TestRecoverReadsOnlyTheTail(t *testing.T) {
	fs := memory(t)
	s := filled(t, fs, 0, 500)
	if err := s.FlushIndexes(); err != nil {
		t.Fatal(err)
	}
	size := s.Size()
	for _, durable := range []int64{0, 1, 500, 900, 999, 1000} {
		visited := 0
		got := Open(0, size, false, options(fs, nil))
		r, err := got.Recover(durable, func(record.Batch) { visited++ })
		if err != nil || r.NextOffset != 1000 || r.TruncatedBytes != 0 {
			t.Fatalf("durable %d: %+v %v", durable, r, err)
		}
		if unflushed := int(1000-durable) / 2; visited > unflushed+4 {
			t.Errorf("durable %d: %d batches scanned, %d were not flushed", durable, visited, unflushed)
		}
		if next, err := got.NextOffset(); err != nil || next != 1000 {
			t.Fatal(next, err)
		}
		if f, ok, err := got.FindTimestamp(3333, 0); err != nil || !ok || f.Offset != 468 {
			t.Fatal(f, ok, err)
		}
		got.Close()
	}
}

func TestTruncate(t *testing.T) {
	fs := memory(t)
	s := filled(t, fs, 0, 100)
	if err := s.TruncateTo(77); err != nil {
		t.Fatal(err)
	}
	if next, err := s.NextOffset(); err != nil || next != 77 {
		t.Fatal(next, err)
	}
	if ts, err := s.MaxTimestamp(); err != nil || ts.TimestampMs != 1371 {
		t.Fatal(ts, err)
	}
	if err := s.Append(batchAt(77, 5000, 1)); err != nil {
		t.Fatal(err)
	}
	r := Open(0, s.Size(), false, options(fs, nil))
	if got, err := r.Recover(0, nil); err != nil || got.NextOffset != 78 || got.TruncatedBytes != 0 {
		t.Fatal(got, err)
	}
}

func TestDeletedSegmentServesItsReaders(t *testing.T) {
	fs := memory(t)
	s := filled(t, fs, 0, 10)
	r, ok, err := s.Read(0, 1<<20, s.Size(), true)
	if err != nil || !ok {
		t.Fatal(err)
	}
	if err := s.MarkDeleted(); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, r.Len)
	if _, err := r.File.ReadAt(b, r.Pos); err != nil || record.Batch(b[:record.Batch(b).LengthBytes()]).Verify() != nil {
		t.Fatal(err)
	}
	r.File.Release()
	if names, err := fs.List(dir); err != nil || len(names) != 0 {
		t.Fatal(names, err)
	}
}

// FuzzRecover gives Recover any bytes as a .log: it must keep a prefix of whole
// batches and answer for it.
func FuzzRecover(f *testing.F) {
	good := append(append([]byte(nil), batchAt(0, 5, 2)...), batchAt(2, 9, 3)...)
	f.Add(good, int64(0))
	f.Add(good[:len(good)-3], int64(2))
	f.Add(append(good, make([]byte, 100)...), int64(5))
	f.Fuzz(func(t *testing.T, b []byte, durable int64) {
		fs := memory(t)
		file, err := fs.Create(dir + "/" + FileName(0, LogSuffix))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		s := Open(0, int64(len(b)), false, options(fs, nil))
		r, err := s.Recover(durable, nil)
		if err != nil {
			t.Fatal(err)
		}
		rest := b[:s.Size()]
		next := int64(0)
		for len(rest) > 0 {
			bt, err := record.Parse(rest)
			if err != nil || bt.Verify() != nil || bt.BaseOffset() < next {
				t.Fatalf("kept %v", err)
			}
			next = bt.NextOffset()
			rest = rest[len(bt):]
		}
		if r.NextOffset != next || r.TruncatedBytes != int64(len(b))-s.Size() {
			t.Fatalf("%+v, %d bytes kept, next %d", r, s.Size(), next)
		}
		if _, _, err := s.Read(0, 1, s.Size(), true); err != nil {
			t.Fatal(err)
		}
		if _, err := s.MaxTimestamp(); err != nil {
			t.Fatal(err)
		}
	})
}
