package vfs

import (
	"io"
	"io/fs"
)

// File is an open file. All access is positioned; there is no cursor.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes all written bytes and the size durable (fdatasync). After an
	// error the caller must not retry: the kernel may have dropped the pages.
	Sync() error
	// WriteOut starts to write what is not on disk, without waiting for it: a hint,
	// by which files that are synced together get into fewer commits of a journal.
	WriteOut()
	// Truncate sets the size in bytes.
	Truncate(sizeBytes int64) error
	// Reserve asks for disk space for the bytes from..to, which may lie behind the
	// end: later writes there are cheaper to sync. What is read and the size stay
	// as they are. errors.ErrUnsupported where the file system does not know it.
	Reserve(from, to int64) error
	// Unreserve gives back what is reserved behind the end, by whomever. It cuts the
	// file at the size it finds: nobody may write to the file meanwhile.
	Unreserve() error
	// Size returns the size in bytes.
	Size() (int64, error)
	// Fd returns the descriptor for sendfile, or false where there is none.
	// It stays valid until Close; the caller holds its own reference meanwhile.
	Fd() (uintptr, bool)
	// Name returns the path the file was opened with.
	Name() string
}

// FS is a file system. Paths are absolute or relative to the process.
type FS interface {
	// Create makes or truncates a file and opens it for reading and writing.
	Create(name string) (File, error)
	// OpenReadWrite opens for reading and writing; a missing file is made when create is set.
	OpenReadWrite(name string, create bool) (File, error)
	// Open opens for reading.
	Open(name string) (File, error)
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// RemoveAll removes a tree.
	RemoveAll(name string) error
	// Rename replaces newname.
	Rename(oldname, newname string) error
	// MkdirAll makes a folder and its parents.
	MkdirAll(dir string) error
	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)
	// Stat describes a name.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a folder durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file for the life of the process; a
	// second holder gets an error at once.
	Lock(name string) (io.Closer, error)
	// Usage returns the total and usable bytes of the file system under dir.
	Usage(dir string) (totalBytes, usableBytes int64, err error)
}
