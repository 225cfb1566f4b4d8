package log

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// SingleOptions set up a log outside a Manager, for __cluster_metadata.
type SingleOptions struct {
	FS             vfs.FS
	Dir            string // the partition folder; made when missing
	TopicPartition types.TopicPartition
	TopicID        types.UUID
	Config         config.TopicConfig
	// RecoveryPoint is the offset from which the log is scanned at start and cut
	// at the first bad batch; ignored when Clean says that it was closed.
	RecoveryPoint int64
	Clean         bool
	// LogStart is the checkpointed log start offset.
	LogStart int64
	Now      func() int64
	Logger   *slog.Logger
}

// OpenSingle opens one log without commit loop, retention and checkpoints: the
// owner calls Flush, DeleteSegmentsBelowStart and Close. Removals happen at
// once. An I/O error other than lack of space ends the log.
func OpenSingle(o SingleOptions) (*Log, error) {
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var failed atomic.Pointer[error]
	e := &env{
		fs: o.FS, cache: filecache.New(o.FS, 0), logger: o.Logger, now: o.Now,
		jitter:      func(int64) int64 { return 0 },
		eagerEpochs: true,
		err: func() error {
			if reason := failed.Load(); reason != nil {
				return kerrors.Wrap(kerrors.KafkaStorageError, *reason, "the log in %s failed", o.Dir)
			}
			return nil
		},
		offline:  func(reason error) { failed.CompareAndSwap(nil, &reason) },
		appended: func(*Log, int, int64) {},
		sync:     func(*Log) {},
		durable:  func(*Log, int64) {},
		moved:    func(*Log, bool) error { return nil },
		later: func(_ int64, remove func() error) {
			if err := remove(); err != nil {
				o.Logger.Warn("a deleted file was not removed", "error", err)
			}
		},
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, err
	}
	l, err := open(e, source{
		tp: o.TopicPartition, topicID: o.TopicID, path: o.Dir, cfg: o.Config,
		clean: o.Clean, recoveryPoint: o.RecoveryPoint, logStart: o.LogStart,
	})
	if err != nil {
		return nil, err
	}
	return l, l.settle()
}

// Close makes a single log durable and closes it. The Manager closes its own.
func (l *Log) Close() error { return l.close() }
