package log

import (
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/commit"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// folder is the manager's side of one data folder: its commit loop, its
// checkpoints, and what waits to be removed.
type folder struct {
	m    *Manager
	dir  *logdir.Dir
	env  *env
	loop *commit.Loop

	failed atomic.Pointer[error]

	bytes atomic.Int64 // appended since the last checkpoint

	mu       sync.Mutex
	dirty    []*Log // appended to since the last checkpoint
	dueMs    int64  // when the next checkpoint is due, none
	removals []removal
	stale    map[types.TopicPartition]bool // deleted, maybe still in the files

	names groupSync // of the partition folders
	// made counts the partition folders that were made; the first named of them
	// have their names on disk.
	made, named atomic.Int64

	checkpointMu sync.Mutex                     // one writer of the checkpoint files
	starts       map[types.TopicPartition]int64 // what the log start file says; nil unknown
}

// removal is a file or folder that goes when its time comes.
type removal struct {
	dueMs  int64
	remove func() error
}

func newFolder(m *Manager, dir *logdir.Dir) *folder {
	f := &folder{m: m, dir: dir, dueMs: none, stale: map[types.TopicPartition]bool{}}
	f.env = &env{
		fs: m.o.FS, cache: m.cache, logger: m.o.Logger.With(slog.String("dir", dir.Path)),
		now: m.o.Now, jitter: m.o.Jitter, err: f.err, offline: f.offline,
		appended: f.appended, durable: m.o.OnDurable, moved: f.moved, later: f.later,
		named: f.syncNamesTo,
		sync:  func(l *Log) { f.loop.Request(l) },
	}
	f.env.configsKnown = m.o.ConfigsKnown
	f.env.producerExpirationMs.Store(m.o.ProducerExpirationMs)
	o := m.o.Commit
	o.OnOffline = f.offline
	f.loop = commit.New(o)
	return f
}

func (f *folder) err() error {
	if reason := f.failed.Load(); reason != nil {
		return kerrors.Wrap(kerrors.KafkaStorageError, *reason, "log directory %s is offline", f.dir.Path)
	}
	return f.dir.Err()
}

// offline takes the folder out of service at once. The rest runs on its own
// goroutine: the caller may hold a log's lock.
func (f *folder) offline(reason error) {
	if !f.failed.CompareAndSwap(nil, &reason) {
		return
	}
	f.env.logger.Error("log directory goes offline", "error", reason)
	f.m.background.Go(func() {
		f.dir.Offline(reason)
		for _, l := range f.m.detach(f) {
			l.abandon()
		}
		f.m.o.OnDirOffline(f.dir, reason)
	})
}

// strict reports whether an append must be synced before it is acknowledged.
// Internal topics always are.
func strict(l *Log, cfg *config.TopicConfig) bool {
	return cfg.Durability == config.Strict || types.IsInternalTopic(l.tp.Topic)
}

// appended asks for the sync that the topic's durability promises.
func (f *folder) appended(l *Log, sizeBytes int, end int64) {
	cfg := l.cfg.Load()
	switch {
	case strict(l, cfg), end-l.durable.Load() >= cfg.FlushMessages:
		f.loop.Request(l)
	case cfg.Durability == config.Replicated, cfg.FlushMs < int64(time.Hour/time.Millisecond):
		f.loop.Defer(l, time.Duration(min(cfg.FlushMs, 1000))*time.Millisecond, int64(sizeBytes))
	}
	if !l.dirty.Swap(true) {
		f.mu.Lock()
		f.dirty = append(f.dirty, l)
		f.due(f.m.o.Now() + f.m.o.CheckpointMs)
		f.mu.Unlock()
	}
	if f.bytes.Add(int64(sizeBytes)) >= f.m.o.CheckpointBytes {
		f.bytes.Store(0)
		f.mu.Lock()
		f.due(f.m.o.Now())
		f.mu.Unlock()
	}
}

// syncNames makes the names of the partition folders durable, together for all
// that ask at the same time.
func (f *folder) syncNames() error {
	return f.names.do(func() error {
		made := f.made.Load()
		if err := f.m.o.FS.SyncDir(f.dir.Path); err != nil {
			return err
		}
		f.named.Store(made) // one sync at a time
		return nil
	})
}

// syncNamesTo is syncNames unless the first made names are on disk.
func (f *folder) syncNamesTo(made int64) error {
	if f.named.Load() >= made {
		return nil
	}
	return f.syncNames()
}

// due brings the next checkpoint forward; f.mu is held.
func (f *folder) due(atMs int64) {
	if f.dueMs == none || atMs < f.dueMs {
		f.dueMs = atMs
		f.m.wake()
	}
}

// startDelayMs is how long a raised log start may wait for its checkpoint, so
// that many share one.
const startDelayMs = 200

// moved makes a lower recovery point durable now, or a log start soon.
func (f *folder) moved(_ *Log, now bool) error {
	if now {
		return f.env.storage(f.checkpoint(), "checkpoints of "+f.dir.Path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due(f.m.o.Now() + startDelayMs)
	return nil
}

func (f *folder) later(delayMs int64, remove func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removals = append(f.removals, removal{f.m.o.Now() + delayMs, remove})
	f.m.wake()
}

// checkpoint writes the recovery points and the log starts of all logs.
func (f *folder) checkpoint() error {
	f.checkpointMu.Lock()
	defer f.checkpointMu.Unlock()
	if err := f.err(); err != nil {
		return err
	}
	f.mu.Lock()
	logs, stale := f.dirty, f.stale
	f.dirty, f.dueMs, f.stale = nil, none, map[types.TopicPartition]bool{}
	f.mu.Unlock()
	f.bytes.Store(0)
	for _, l := range logs {
		l.dirty.Store(false)
		l.prepareCheckpoint()
	}
	err := f.flushEpochs()
	if err == nil {
		err = f.writeCheckpoints()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		for tp := range stale {
			f.stale[tp] = true
		}
	}
	f.redirty(logs, err != nil)
	return err
}

// redirty keeps logs on the list whose end is not in the checkpoint yet, and
// has the relaxed ones synced: nobody else does. f.mu is held.
func (f *folder) redirty(logs []*Log, all bool) {
	for _, l := range logs {
		behind := l.durable.Load() < l.end.Load()
		if l.gone.Load() || !all && !behind {
			continue
		}
		if !l.dirty.Swap(true) {
			f.dirty = append(f.dirty, l)
		}
		if behind {
			f.env.sync(l)
		}
	}
	if len(f.dirty) > 0 {
		f.due(f.m.o.Now() + f.m.o.CheckpointMs)
	}
}

// flushEpochs writes the epoch files that the recovery points wait for. After a
// start that can be all of them, each with two syncs, so many are written at once.
func (f *folder) flushEpochs() error {
	var behind []*Log
	for _, l := range f.m.logsOf(f) {
		if l.epochsBehind() {
			behind = append(behind, l)
		}
	}
	return each(behind, syncsAtOnce, (*Log).flushEpochsForPoint)
}

func (f *folder) writeCheckpoints() error {
	points := map[types.TopicPartition]int64{}
	starts := map[types.TopicPartition]int64{}
	for _, l := range f.m.logsOf(f) {
		points[l.tp] = l.claimRecoveryPoint()
		// Kafka leaves out what the first segment shows; but the renames that
		// took older segments away may not be on disk yet.
		if start := l.start.Load(); start > 0 {
			starts[l.tp] = start
		}
	}
	if f.starts == nil || !maps.Equal(starts, f.starts) {
		if err := checkpoint.WriteOffsets(f.m.o.FS, f.dir.Join(checkpoint.LogStartFile), starts); err != nil {
			return err
		}
		f.starts = starts
	}
	return checkpoint.WriteOffsets(f.m.o.FS, f.dir.Join(checkpoint.RecoveryPointFile), points)
}

// tick does what is due and returns when it wants to be called again, none for
// never.
func (f *folder) tick(nowMs int64) int64 {
	f.mu.Lock()
	due := f.dueMs != none && f.dueMs <= nowMs
	var ready []removal
	f.removals, ready = splitDue(f.removals, nowMs)
	f.mu.Unlock()
	if f.err() != nil {
		return none
	}
	if due {
		if err := f.checkpoint(); err != nil {
			f.checkpointFailed(err)
		}
	}
	for _, r := range ready {
		if err := r.remove(); err != nil {
			f.env.logger.Warn("a deleted file was not removed", "error", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.dueMs
	for _, r := range f.removals {
		if next == none || r.dueMs < next {
			next = r.dueMs
		}
	}
	return next
}

func (f *folder) checkpointFailed(err error) {
	if !vfs.IsNoSpace(err) {
		f.offline(err)
		return
	}
	f.env.logger.Warn("checkpoints were not written; they are tried again", "error", err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due(f.m.o.Now() + f.m.o.CheckpointMs)
}

func splitDue(rs []removal, nowMs int64) (wait, ready []removal) {
	for _, r := range rs {
		if r.dueMs <= nowMs {
			ready = append(ready, r)
		} else {
			wait = append(wait, r)
		}
	}
	return wait, ready
}

// removeTree schedules the removal of a retired partition folder.
func (f *folder) removeTree(path string, delayMs int64) {
	f.later(delayMs, func() error {
		if err := f.m.o.FS.RemoveAll(path); err != nil {
			return err
		}
		f.env.logger.Info("removed a deleted partition", "folder", filepath.Base(path))
		return nil
	})
}

// offsets reads a checkpoint; one that is corrupt is as good as none.
func (f *folder) offsets(name string) (map[types.TopicPartition]int64, error) {
	m, err := checkpoint.ReadOffsets(f.m.o.FS, f.dir.Join(name))
	if errors.Is(err, checkpoint.ErrCorrupt) {
		f.env.logger.Warn("a checkpoint does not parse; its offsets are taken from the logs", "error", err)
		return map[types.TopicPartition]int64{}, nil
	}
	return m, err
}
