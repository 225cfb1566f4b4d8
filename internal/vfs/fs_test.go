package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// The same expectations hold on the machine's file system, in memory and
// behind error injection.
func eachFS(t *testing.T, test func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, vfs.OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) { test(t, memWith(t, "/data"), "/data") })
	t.Run("errfs", func(t *testing.T) { test(t, errfs.Wrap(memWith(t, "/data"), errfs.Hooks{}), "/data") })
}

func memWith(t *testing.T, dir string) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	must(t, m.MkdirAll(dir))
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func write(t *testing.T, fsys vfs.FS, name, data string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(data), 0)
	must(t, err)
	must(t, f.Close())
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return string(b)
}

func TestFiles(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		_, err := fsys.Open(name)
		wantErr(t, "open a missing file", err, fs.ErrNotExist)
		_, err = fsys.OpenReadWrite(name, false)
		wantErr(t, "open a missing file for writing", err, fs.ErrNotExist)

		f, err := fsys.OpenReadWrite(name, true)
		must(t, err)
		if f.Name() != name {
			t.Errorf("name %q", f.Name())
		}
		for _, w := range []struct {
			off  int64
			data string
		}{{0, "hello"}, {8, "there"}, {1, "E"}} {
			n, err := f.WriteAt([]byte(w.data), w.off)
			if err != nil || n != len(w.data) {
				t.Fatalf("write at %d: %d, %v", w.off, n, err)
			}
		}
		if got := read(t, fsys, name); got != "hEllo\x00\x00\x00there" {
			t.Errorf("content %q", got)
		}
		short := make([]byte, 10)
		n, err := f.ReadAt(short, 10)
		if n != 3 || err != io.EOF {
			t.Errorf("read over the end: %d, %v", n, err)
		}
		must(t, f.Truncate(2))
		must(t, f.Truncate(4))
		if got := read(t, fsys, name); got != "hE\x00\x00" {
			t.Errorf("after truncations %q", got)
		}
		must(t, f.Sync())
		must(t, f.Close())
		_, err = f.WriteAt([]byte("x"), 0)
		wantErr(t, "write to a closed file", err, fs.ErrClosed)

		ro, err := fsys.Open(name)
		must(t, err)
		if _, err := ro.WriteAt([]byte("x"), 0); err == nil {
			t.Error("wrote through a file opened for reading")
		}
		must(t, ro.Close())
		write(t, fsys, name, "new")
		if got := read(t, fsys, name); got != "new" {
			t.Errorf("Create did not truncate: %q", got)
		}
	})
}

func TestNames(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		p := func(s string) string { return filepath.Join(dir, s) }
		must(t, fsys.MkdirAll(p("a/b/c")))
		must(t, fsys.MkdirAll(p("a/b/c")))
		write(t, fsys, p("a/2"), "two")
		write(t, fsys, p("a/1"), "one")
		names, err := fsys.List(p("a"))
		must(t, err)
		if !slices.Equal(names, []string{"1", "2", "b"}) {
			t.Errorf("list %q", names)
		}
		_, err = fsys.List(p("nothing"))
		wantErr(t, "list a missing folder", err, fs.ErrNotExist)
		info, err := fsys.Stat(p("a/1"))
		must(t, err)
		if info.Size() != 3 || info.IsDir() || info.Name() != "1" {
			t.Errorf("stat %v", info)
		}
		if info, err = fsys.Stat(p("a/b")); err != nil || !info.IsDir() {
			t.Errorf("stat a folder: %v, %v", info, err)
		}
		wantErr(t, "remove a full folder", fsys.Remove(p("a")), syscall.ENOTEMPTY)
		wantErr(t, "remove a missing file", fsys.Remove(p("x")), fs.ErrNotExist)
		wantErr(t, "rename a missing file", fsys.Rename(p("x"), p("y")), fs.ErrNotExist)

		must(t, fsys.Rename(p("a/1"), p("a/2")))
		if got := read(t, fsys, p("a/2")); got != "one" {
			t.Errorf("rename did not replace: %q", got)
		}
		must(t, fsys.Rename(p("a"), p("z")))
		if got := read(t, fsys, p("z/2")); got != "one" {
			t.Errorf("renamed folder lost its file: %q", got)
		}
		must(t, fsys.SyncDir(p("z")))
		wantErr(t, "sync a missing folder", fsys.SyncDir(p("a")), fs.ErrNotExist)
		must(t, fsys.RemoveAll(p("z")))
		must(t, fsys.RemoveAll(p("z")))
		if _, err := fsys.Stat(p("z")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("RemoveAll left %v", err)
		}
		write(t, fsys, p("f"), "")
		if err := fsys.MkdirAll(p("f/g")); err == nil {
			t.Error("made a folder below a file")
		}
	})
}

func TestOpenFileOutlivesItsName(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "f")
		f, err := fsys.Create(name)
		must(t, err)
		_, err = f.WriteAt([]byte("abc"), 0)
		must(t, err)
		must(t, fsys.Remove(name))
		b := make([]byte, 3)
		_, err = f.ReadAt(b, 0)
		must(t, err)
		if !bytes.Equal(b, []byte("abc")) {
			t.Errorf("read %q", b)
		}
		must(t, f.Close())
	})
}

func TestLockExcludes(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, ".lock")
		l, err := fsys.Lock(name)
		must(t, err)
		_, err = fsys.Lock(name)
		wantErr(t, "second lock", err, vfs.ErrLocked)
		wantErr(t, "second lock, in the system's word", err, syscall.EWOULDBLOCK)
		must(t, l.Close())
		l, err = fsys.Lock(name)
		must(t, err)
		must(t, l.Close())
	})
}

func TestUsage(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		total, usable, err := fsys.Usage(dir)
		must(t, err)
		if total <= 0 || usable < 0 || usable > total {
			t.Errorf("total %d, usable %d", total, usable)
		}
	})
}

func TestOSFd(t *testing.T) {
	f, err := vfs.OS().Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer f.Close()
	if fd, ok := f.Fd(); !ok || fd == 0 {
		t.Errorf("fd %d, %v", fd, ok)
	}
}

// What is reserved changes neither size nor content, and goes back.
func TestReserve(t *testing.T) {
	eachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		f, err := fsys.Create(filepath.Join(dir, "f"))
		must(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte("abc"), 0)
		must(t, err)
		if err := f.Reserve(3, 1<<20); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte("def"), 3)
		must(t, err)
		f.WriteOut()
		must(t, f.Sync())
		must(t, f.Unreserve())
		got := make([]byte, 7)
		n, err := f.ReadAt(got, 0)
		wantErr(t, "read", err, io.EOF)
		if size, err := f.Size(); err != nil || size != 6 || string(got[:n]) != "abcdef" {
			t.Errorf("%d bytes (%v): %q", size, err, got[:n])
		}
	})
}
