//go:build unix && !linux

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func syncData(f *os.File) error { return f.Sync() }

func reserve(*os.File, int64, int64) error { return errors.ErrUnsupported }
func writeOut(*os.File)                    {}
func unreserve(*os.File) error             { return nil }

// lockFile uses flock where there are no open-file-description locks; it
// excludes another Tidemark, but not Apache Kafka.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func usage(dir string) (totalBytes, usableBytes int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), nil
}
