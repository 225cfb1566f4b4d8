package logdir

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// LockFile is the name of the file whose lock says that a folder is in use.
const LockFile = ".lock"

// Dir is an open data folder.
type Dir struct {
	Path        string
	ID          types.UUID // directory.id
	ClusterID   string
	NodeID      int32
	CleanStart  bool  // the last process closed the folder cleanly
	BrokerEpoch int64 // of that process, or NoBrokerEpoch

	fs        vfs.FS
	onOffline func(*Dir, error)
	offline   atomic.Pointer[offline]

	mu   sync.Mutex
	lock io.Closer // nil once closed
}

type offline struct{ reason error }

// FS returns the file system the folder is on.
func (d *Dir) FS() vfs.FS { return d.fs }

// Join returns a path within the folder.
func (d *Dir) Join(elem ...string) string { return filepath.Join(append([]string{d.Path}, elem...)...) }

// Offline takes the folder out of service for good: its partitions answer
// KAFKA_STORAGE_ERROR from now on. Only the first reason counts; it is handed
// to the OnOffline callback on the calling goroutine.
func (d *Dir) Offline(reason error) {
	if reason == nil {
		reason = errors.New("no reason given")
	}
	if d.offline.CompareAndSwap(nil, &offline{reason}) && d.onOffline != nil {
		d.onOffline(d, reason)
	}
}

// Err returns nil while the folder works, and afterwards an error that carries
// KAFKA_STORAGE_ERROR, the path and the reason.
func (d *Dir) Err() error {
	o := d.offline.Load()
	if o == nil {
		return nil
	}
	return kerrors.Wrap(kerrors.KafkaStorageError, o.reason, "log directory %s is offline", d.Path)
}

// IsOffline reports whether the folder is out of service.
func (d *Dir) IsOffline() bool { return d.offline.Load() != nil }

// Usage returns the total and usable bytes of the disk under the folder.
func (d *Dir) Usage() (totalBytes, usableBytes int64, err error) { return d.fs.Usage(d.Path) }

// CloseClean writes the clean-shutdown marker and gives the folder back. The
// caller has made all logs durable and stopped writing. A folder that is
// offline gets no marker; CloseClean then returns why.
func (d *Dir) CloseClean(brokerEpoch int64) error {
	if err := d.Err(); err != nil {
		return errors.Join(err, d.Close())
	}
	d.mu.Lock()
	open := d.lock != nil
	d.mu.Unlock()
	if !open {
		return fmt.Errorf("close %s: it is closed already", d.Path)
	}
	err := checkpoint.WriteFile(d.fs, d.Join(CleanShutdownFile), EncodeCleanShutdown(brokerEpoch))
	return errors.Join(err, d.Close())
}

// Close gives the folder back without a marker: the next start recovers. A
// second Close does nothing.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	err := d.lock.Close()
	d.lock = nil
	return err
}
