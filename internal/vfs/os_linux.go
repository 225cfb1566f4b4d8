package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// syncData is fdatasync: data and size, not the times. It is not retried
// except when a signal came first, which is before anything was lost.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// writeOut tells nobody of its errors: the sync that follows meets them.
func writeOut(f *os.File) {
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}

func reserve(f *os.File, from, to int64) error {
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, to-from); err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// unreserve cuts the file at its size, which frees the blocks behind it. Files
// that have none to speak of are spared the journal entry.
func unreserve(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	const sectorBytes, slackBytes = 512, 64 << 10
	if st.Blocks*sectorBytes <= st.Size+slackBytes {
		return nil
	}
	return f.Truncate(st.Size)
}

// lockFile takes an open-file-description lock on the whole file. It excludes
// a second open in this process, another Tidemark, and Apache Kafka, whose
// Java file lock is a POSIX record lock on the same range.
func lockFile(f *os.File) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return err
}

func usage(dir string) (totalBytes, usableBytes int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}
