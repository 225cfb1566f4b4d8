package errfs

import (
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// Kind says what an operation does.
type Kind uint8

// The operations of vfs.FS and vfs.File.
const (
	Create Kind = iota
	OpenReadWrite
	Open
	Remove
	RemoveAll
	Rename
	MkdirAll
	List
	Stat
	SyncDir
	Lock
	Usage
	Read
	Write
	Sync
	Truncate
	Size
	Close
)

var kindNames = [...]string{
	"create", "openrw", "open", "remove", "removeall", "rename", "mkdirall", "list", "stat",
	"syncdir", "lock", "usage", "read", "write", "sync", "truncate", "size", "close",
}

func (k Kind) String() string { return kindNames[k] }

// Changes reports whether the operation alters what is on disk or what a power
// cut would leave.
func (k Kind) Changes() bool {
	switch k {
	case Create, OpenReadWrite, Remove, RemoveAll, Rename, MkdirAll, SyncDir, Lock, Write, Sync, Truncate:
		return true
	}
	return false
}

// Op is one operation.
type Op struct {
	Index     int64 // 0 for the first one
	Kind      Kind
	Path      string
	NewPath   string // of a rename
	Offset    int64  // of a read or write; the new size of a truncation
	SizeBytes int    // of a read or write
}

// Fault is how an operation fails.
type Fault struct {
	Err error
	// ShortBytes of a write reach the file before it fails.
	ShortBytes int
}

// Hooks see each operation. Both may be nil.
type Hooks struct {
	// Before may let the operation fail.
	Before func(Op) *Fault
	// After hears how it went; a test takes a CrashClone here.
	After func(Op, error)
}

// FS is a wrapped file system.
type FS struct {
	inner vfs.FS
	hooks Hooks
	next  atomic.Int64
}

// Wrap returns inner with hooks around every operation.
func Wrap(inner vfs.FS, hooks Hooks) *FS {
	if hooks.Before == nil {
		hooks.Before = func(Op) *Fault { return nil }
	}
	if hooks.After == nil {
		hooks.After = func(Op, error) {}
	}
	return &FS{inner: inner, hooks: hooks}
}

// Count returns how many operations there were.
func (f *FS) Count() int64 { return f.next.Load() }

func (f *FS) do(op Op, run func() error) error {
	op.Index = f.next.Add(1) - 1
	var err error
	if fault := f.hooks.Before(op); fault != nil {
		err = &fs.PathError{Op: op.Kind.String(), Path: op.Path, Err: fault.Err}
	} else {
		err = run()
	}
	f.hooks.After(op, err)
	return err
}

func (f *FS) open(kind Kind, name string, run func() (vfs.File, error)) (vfs.File, error) {
	var out vfs.File
	err := f.do(Op{Kind: kind, Path: name}, func() error {
		in, err := run()
		if err == nil {
			out = &file{inner: in, fs: f}
		}
		return err
	})
	return out, err
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	return f.open(Create, name, func() (vfs.File, error) { return f.inner.Create(name) })
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, create bool) (vfs.File, error) {
	return f.open(OpenReadWrite, name, func() (vfs.File, error) { return f.inner.OpenReadWrite(name, create) })
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	return f.open(Open, name, func() (vfs.File, error) { return f.inner.Open(name) })
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.do(Op{Kind: Remove, Path: name}, func() error { return f.inner.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	return f.do(Op{Kind: RemoveAll, Path: name}, func() error { return f.inner.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	return f.do(Op{Kind: Rename, Path: oldname, NewPath: newname}, func() error { return f.inner.Rename(oldname, newname) })
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string) error {
	return f.do(Op{Kind: MkdirAll, Path: dir}, func() error { return f.inner.MkdirAll(dir) })
}

// List implements vfs.FS.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.do(Op{Kind: List, Path: dir}, func() error { names, err = f.inner.List(dir); return err })
	return names, err
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(Op{Kind: Stat, Path: name}, func() error { info, err = f.inner.Stat(name); return err })
	return info, err
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	return f.do(Op{Kind: SyncDir, Path: dir}, func() error { return f.inner.SyncDir(dir) })
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (c io.Closer, err error) {
	err = f.do(Op{Kind: Lock, Path: name}, func() error { c, err = f.inner.Lock(name); return err })
	return c, err
}

// Usage implements vfs.FS.
func (f *FS) Usage(dir string) (totalBytes, usableBytes int64, err error) {
	err = f.do(Op{Kind: Usage, Path: dir}, func() error { totalBytes, usableBytes, err = f.inner.Usage(dir); return err })
	return totalBytes, usableBytes, err
}

type file struct {
	inner vfs.File
	fs    *FS
}

func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(Op{Kind: Read, Path: f.Name(), Offset: off, SizeBytes: len(p)}, func() error { n, err = f.inner.ReadAt(p, off); return err })
	return n, err
}

// WriteAt does not use do, because a failing write may still write a part.
func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	op := Op{Index: f.fs.next.Add(1) - 1, Kind: Write, Path: f.Name(), Offset: off, SizeBytes: len(p)}
	if fault := f.fs.hooks.Before(op); fault != nil {
		if short := min(fault.ShortBytes, len(p)); short > 0 {
			n, _ = f.inner.WriteAt(p[:short], off)
		}
		err = &fs.PathError{Op: "write", Path: f.Name(), Err: fault.Err}
	} else {
		n, err = f.inner.WriteAt(p, off)
	}
	f.fs.hooks.After(op, err)
	return n, err
}

// Close always closes the wrapped file, as the kernel does when it reports an
// error from close.
func (f *file) Close() error {
	op := Op{Index: f.fs.next.Add(1) - 1, Kind: Close, Path: f.Name()}
	err := f.inner.Close()
	if fault := f.fs.hooks.Before(op); fault != nil {
		err = &fs.PathError{Op: "close", Path: f.Name(), Err: fault.Err}
	}
	f.fs.hooks.After(op, err)
	return err
}

func (f *file) Sync() error {
	return f.fs.do(Op{Kind: Sync, Path: f.Name()}, f.inner.Sync)
}

func (f *file) Truncate(sizeBytes int64) error {
	return f.fs.do(Op{Kind: Truncate, Path: f.Name(), Offset: sizeBytes}, func() error { return f.inner.Truncate(sizeBytes) })
}

// Reserve, Unreserve and WriteOut are no operations to fail or crash at: nothing of what is
// stored changes.
func (f *file) Reserve(from, to int64) error { return f.inner.Reserve(from, to) }
func (f *file) WriteOut()                    { f.inner.WriteOut() }
func (f *file) Unreserve() error             { return f.inner.Unreserve() }

func (f *file) Size() (n int64, err error) {
	err = f.fs.do(Op{Kind: Size, Path: f.Name()}, func() error { n, err = f.inner.Size(); return err })
	return n, err
}

func (f *file) Fd() (uintptr, bool) { return f.inner.Fd() }
func (f *file) Name() string        { return f.inner.Name() }
