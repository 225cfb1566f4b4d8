package segment

import (
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// big is a batch of sizeBytes, roughly.
func big(base int64, sizeBytes int) record.Batch {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: base})
	b.Append(1000, nil, make([]byte, sizeBytes))
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

func appendSynced(t *testing.T, s *Segment, from, n, sizeBytes int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		if err := s.Append(big(int64(i), sizeBytes)); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReserveAheadOfSmallSyncs(t *testing.T) {
	fs := memory(t)
	s, err := Create(0, options(fs, nil))
	if err != nil {
		t.Fatal(err)
	}
	reserved := func() int64 { return fs.ReservedBytes(s.FilePath(kindLog)) }
	appendSynced(t, s, 0, 15, 64<<10)
	if n := reserved(); n != 0 {
		t.Errorf("a small log has %d bytes reserved", n)
	}
	appendSynced(t, s, 15, 200, 64<<10)
	if n := reserved(); n < 64<<10 || n > reserveMax {
		t.Errorf("%d bytes reserved", n)
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := reserved(); n != 0 {
		t.Errorf("a sealed segment has %d bytes reserved", n)
	}
}

func TestReservationAfterACrashAndAtAClose(t *testing.T) {
	fs := memory(t)
	s, err := Create(0, options(fs, nil))
	if err != nil {
		t.Fatal(err)
	}
	appendSynced(t, s, 0, 40, 64<<10)
	path, size := s.FilePath(kindLog), s.Size()
	if fs.ReservedBytes(path) == 0 {
		t.Fatal("nothing is reserved")
	}
	again := Open(0, size, false, options(fs, nil))
	if _, err := again.Recover(0, func(record.Batch) {}); err != nil {
		t.Fatal(err)
	}
	if n := fs.ReservedBytes(path); n != 0 {
		t.Errorf("%d bytes are reserved after the recovery", n)
	}
	appendSynced(t, again, 40, 10, 64<<10)
	if fs.ReservedBytes(path) == 0 {
		t.Error("nothing is reserved after the restart")
	}
	again.Unreserve()
	if n := fs.ReservedBytes(path); n != 0 {
		t.Errorf("%d bytes are reserved after Unreserve", n)
	}
}

// TestReserveNeedsNoRoom: a disk that has no room for it still takes what fits.
func TestReserveNeedsNoRoom(t *testing.T) {
	fs := noReserve{memory(t)}
	s, err := Create(0, options(errfs.Wrap(fs, errfs.Hooks{}), nil))
	if err != nil {
		t.Fatal(err)
	}
	appendSynced(t, s, 0, 40, 64<<10)
	if !s.ahead.off || s.ahead.end != 0 {
		t.Errorf("%+v", s.ahead)
	}
}

// noReserve is a file system without room to reserve.
type noReserve struct{ *vfs.Mem }

type noReserveFile struct{ vfs.File }

func (noReserveFile) Reserve(_, _ int64) error { return syscall.ENOSPC }

func (n noReserve) OpenReadWrite(name string, create bool) (vfs.File, error) {
	f, err := n.Mem.OpenReadWrite(name, create)
	return noReserveFile{f}, err
}

func TestNextReservation(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name     string
		r        reservation
		size     int64
		from, to int64
		ok       bool
	}{
		{"small log", reservation{synced: 500 << 10}, 600 << 10, 0, 0, false},
		{"first", reservation{synced: mib}, mib + 1000, mib + 1000, mib + 1000 + (mib+1000)/4, true},
		{"enough", reservation{synced: mib, end: 2 * mib}, mib + 1000, 0, 0, false},
		{"almost used up", reservation{synced: 2*mib - 2000, end: 2 * mib}, 2*mib - 900, 2 * mib, 2*mib - 900 + (2*mib-900)/4, true},
		{"used up", reservation{synced: 100 * mib, end: 100 * mib}, 100*mib + 5, 100*mib + 5, 102*mib + 5, true},
		{"a large step", reservation{synced: 100 * mib}, 102 * mib, 0, 0, false},
		{"no step", reservation{synced: 100 * mib}, 100 * mib, 0, 0, false},
		{"cut", reservation{synced: 100 * mib, end: 101 * mib}, 50 * mib, 0, 0, false},
		{"off", reservation{synced: 100 * mib, off: true}, 100*mib + 5, 0, 0, false},
	} {
		if from, to, ok := c.r.next(c.size); from != c.from || to != c.to || ok != c.ok {
			t.Errorf("%s: %d..%d %v, want %d..%d %v", c.name, from, to, ok, c.from, c.to, c.ok)
		}
		if c.r.synced != c.size {
			t.Errorf("%s: remembers %d", c.name, c.r.synced)
		}
	}
}
