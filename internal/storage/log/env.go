package log

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// env is what a log needs from the folder it lies in. The manager makes one per
// data folder; OpenSingle makes one for its log.
type env struct {
	fs     vfs.FS
	cache  *filecache.Cache
	logger *slog.Logger
	now    func() int64
	// jitter draws from [0, maxMs); segment.jitter.ms.
	jitter func(maxMs int64) int64

	producerExpirationMs atomic.Int64
	// scannedBytes is what recovery had to read at start.
	scannedBytes atomic.Int64
	// configsKnown says that a log is loaded with its own topic's configuration,
	// not with defaults: only then does it tell a hole from compaction.
	configsKnown bool

	// eagerEpochs has a new leader epoch written before anything is appended in
	// it: for an owner that keeps recovery points of its own.
	eagerEpochs bool

	// err is nil while the folder works, offline takes it out of service.
	err     func() error
	offline func(error)

	// appended says that sizeBytes were appended to l and what the topic's
	// durability makes of it. Called without Log.mu.
	appended func(l *Log, sizeBytes int, end int64)
	// named returns once the name of the log's folder, the made-th of its data
	// folder, is on disk. Unused where no log has one.
	named func(made int64) error
	// sync asks for a sync of l soon, for instance after a roll.
	sync func(l *Log)
	// durable hears that an fsync covered everything below end.
	durable func(l *Log, end int64)
	// moved says that a checkpointed offset changed in a way that must reach
	// the disk before anything is appended (a truncation) or soon.
	moved func(l *Log, now bool) error
	// later runs a removal after delayMs.
	later func(delayMs int64, remove func() error)
}

// storage gives an I/O error its code. Lack of space passes; anything else that
// is not about a closed or removed file takes the folder offline, because what
// the disk holds is no longer known.
func (e *env) storage(err error, what string) error {
	var coded *kerrors.Error
	var code kerrors.Code
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded), errors.As(err, &code):
		return err
	case vfs.IsNoSpace(err):
		return kerrors.Wrap(kerrors.KafkaStorageError, err, "%s: no space left; writing goes on when there is", what)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		e.logger.Error("the process ran out of a resource; nothing was lost", "what", what, "error", err)
		return kerrors.Wrap(kerrors.KafkaStorageError, err, "%s", what)
	case errors.Is(err, filecache.ErrClosed):
		return kerrors.Wrap(kerrors.KafkaStorageError, err, "%s: the log is closed", what)
	case errors.Is(err, segment.ErrCorrupt):
		e.logger.Error("corrupt data in the log", "what", what, "error", err)
		return kerrors.Wrap(kerrors.CorruptMessage, err, "%s", what)
	}
	e.offline(err)
	return kerrors.Wrap(kerrors.KafkaStorageError, err, "%s", what)
}
