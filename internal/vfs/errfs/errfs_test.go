package errfs_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// script does one of everything and returns the first error.
func script(fsys vfs.FS) error {
	if err := fsys.MkdirAll("/d"); err != nil {
		return err
	}
	f, err := fsys.Create("/d/a")
	if err != nil {
		return err
	}
	_, werr := f.WriteAt([]byte("0123456789"), 0)
	serr := f.Sync()
	cerr := f.Close()
	return errors.Join(werr, serr, cerr, fsys.Rename("/d/a", "/d/b"), fsys.SyncDir("/d"))
}

func TestFailNthForAllN(t *testing.T) {
	clean := errfs.Wrap(vfs.NewMem(), errfs.Hooks{})
	if err := script(clean); err != nil {
		t.Fatal(err)
	}
	if clean.Count() != 7 {
		t.Fatalf("%d operations, want 7", clean.Count())
	}
	for i := range clean.Count() {
		var last errfs.Op
		failures := 0
		f := errfs.Wrap(vfs.NewMem(), errfs.Hooks{
			Before: errfs.FailNth(i, syscall.EIO, nil),
			After: func(op errfs.Op, err error) {
				if errors.Is(err, syscall.EIO) {
					failures, last = failures+1, op
				}
			},
		})
		if err := script(f); !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d: %v", i, err)
		}
		if failures != 1 || last.Index != i {
			t.Errorf("operation %d: %d failures, last %+v", i, failures, last)
		}
	}
}

func TestNoSpaceWritesHalf(t *testing.T) {
	sw := errfs.NoSpace()
	mem := vfs.NewMem()
	fsys := errfs.Wrap(mem, errfs.Hooks{Before: sw.Before})
	f, err := fsys.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	sw.Fill()
	n, err := f.WriteAt([]byte("0123456789"), 0)
	if n != 5 || !vfs.IsNoSpace(err) {
		t.Errorf("write: %d, %v", n, err)
	}
	if _, err := fsys.Open("/f"); err != nil {
		t.Errorf("reading needs no space: %v", err)
	}
	sw.Off()
	if n, err := f.WriteAt([]byte("0123456789"), 0); n != 10 || err != nil {
		t.Errorf("after space returned: %d, %v", n, err)
	}
}

func TestMatches(t *testing.T) {
	m := errfs.All(errfs.Kinds(errfs.Write, errfs.Sync), errfs.PathSuffix(".log"))
	for op, want := range map[errfs.Op]bool{
		{Kind: errfs.Write, Path: "/x.log"}:  true,
		{Kind: errfs.Write, Path: "/x.idx"}:  false,
		{Kind: errfs.Rename, Path: "/x.log"}: false,
	} {
		if m(op) != want {
			t.Errorf("%v %s: %v", op.Kind, op.Path, !want)
		}
	}
	f := errfs.FailFrom(2, syscall.EIO, errfs.Changing)
	got := ""
	for _, k := range []errfs.Kind{errfs.Write, errfs.Read, errfs.Sync, errfs.Rename, errfs.Stat, errfs.Remove} {
		if f(errfs.Op{Kind: k}) != nil {
			got += k.String() + " "
		}
	}
	if got != "rename remove " {
		t.Errorf("failed %q", got)
	}
}
