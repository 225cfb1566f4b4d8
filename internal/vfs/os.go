package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// OS returns the file system of the machine. Files are made with mode 0644
// and folders with 0755, less the umask.
func OS() FS { return osFS{} }

type osFS struct{}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Reserve(from, to int64) error { return reserve(f.File, from, to) }
func (f osFile) Unreserve() error             { return unreserve(f.File) }
func (f osFile) WriteOut()                    { writeOut(f.File) }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) Fd() (uintptr, bool) { return f.File.Fd(), true }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) OpenReadWrite(name string, create bool) (File, error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	return open(name, flag)
}

func (osFS) Open(name string) (File, error)        { return open(name, os.O_RDONLY) }
func (osFS) Remove(name string) error              { return os.Remove(name) }
func (osFS) RemoveAll(name string) error           { return os.RemoveAll(name) }
func (osFS) Rename(oldname, newname string) error  { return os.Rename(oldname, newname) }
func (osFS) MkdirAll(dir string) error             { return os.MkdirAll(dir, 0o755) }
func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	// A folder needs fsync: fdatasync may leave out what a rename changed.
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}

func (osFS) Usage(dir string) (totalBytes, usableBytes int64, err error) { return usage(dir) }
