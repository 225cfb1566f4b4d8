package log

import (
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
)

// WriteOut implements commit.Flushable.
func (l *Log) WriteOut() {
	if !l.gone.Load() {
		l.active().WriteOut()
	}
}

// FlushUpTo implements commit.Flushable: it notes how far the next Sync
// reaches.
func (l *Log) FlushUpTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushGen, l.flushEnd, l.flushBytes = l.gen, l.end.Load(), l.appendedBytes.Load()
	return l.flushEnd
}

// Sync implements commit.Flushable: it makes everything below the last
// FlushUpTo durable, topic id and names first, then segments in order, and advances
// DurableEndOffset. A truncation that came between makes the offset void, not
// the sync. An error is final for the folder.
func (l *Log) Sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.gone.Load() {
		return nil
	}
	l.mu.Lock()
	gen, end, bytes := l.flushGen, l.flushEnd, l.flushBytes
	w := syncWork{id: l.newID, names: l.newNames, sealed: l.unsynced, snapshots: l.snapshots, active: l.active()}
	l.newID, l.newNames, l.unsynced, l.snapshots = false, false, nil, nil
	l.mu.Unlock()
	if err := l.run(&w); err != nil {
		if l.gone.Load() {
			return nil // closed or deleted under us; that is not the disk's fault
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if gen == l.gen && end > l.durable.Load() {
		l.durable.Store(end)
		l.durableBytes.Store(bytes)
	}
	return nil
}

// syncWork is what one Sync has to do.
type syncWork struct {
	id        bool
	names     bool
	sealed    []*segment.Segment
	snapshots []string
	active    *segment.Segment
}

func (l *Log) run(w *syncWork) error {
	if w.id {
		// Before the names: its sync commits them too.
		if err := logdir.SyncPartitionMetadata(l.env.fs, l.folder.Path()); err != nil {
			return err
		}
	}
	if l.made > 0 {
		if err := l.env.named(l.made); err != nil {
			return err
		}
	}
	if w.names {
		if err := l.env.fs.SyncDir(l.folder.Path()); err != nil {
			return err
		}
	}
	for _, s := range w.sealed {
		if err := s.Sync(); err != nil {
			return err
		}
	}
	if err := w.active.Sync(); err != nil {
		return err
	}
	for _, path := range w.snapshots {
		if err := producerstate.SyncSnapshot(l.env.fs, path); err != nil {
			// It carries a checksum and can be done without; a disk that fails
			// here fails the next sync of data too.
			l.env.logger.Warn("a producer snapshot was not synced", "partition", l.tp.String(), "error", err)
		}
	}
	return nil
}

// OnDurable implements commit.Flushable.
func (l *Log) OnDurable(int64) {
	if !l.gone.Load() {
		l.env.durable(l, l.durable.Load())
	}
}

// OnFailed implements commit.Flushable. The folder is offline by now, which is
// what every call to this log answers.
func (l *Log) OnFailed(error) {}

// Flush syncs the log now, on this goroutine.
func (l *Log) Flush() error {
	if err := l.usable(); err != nil {
		return err
	}
	l.syncMu.Lock()
	l.FlushUpTo()
	l.syncMu.Unlock()
	if err := l.Sync(); err != nil {
		l.env.offline(err)
		return l.env.storage(err, "sync "+l.tp.String())
	}
	l.OnDurable(0)
	return nil
}

// epochsBehind reports that the epoch file lacks an epoch that a recovery point
// at the durable end needs.
func (l *Log) epochsBehind() bool { return l.epochs.UnflushedFrom() < l.durable.Load() }

// flushEpochsForPoint writes the epoch file as far as a recovery point at the
// durable end needs it. Appends go on meanwhile. A log that was closed or
// deleted has nothing to write: its folder may belong to another one.
func (l *Log) flushEpochsForPoint() error {
	l.epochFile.Lock()
	defer l.epochFile.Unlock()
	if l.gone.Load() {
		return nil
	}
	return l.epochs.FlushBelow(l.durable.Load())
}

// claimRecoveryPoint returns the offset for the checkpoint: the durable end, or
// where an epoch begins that is not in its file yet.
func (l *Log) claimRecoveryPoint() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.durable.Load(), l.epochs.UnflushedFrom())
}

// RecoveryPoint is what the checkpoint may say: everything below it is on disk,
// and so are the indexes of every segment that lies wholly below it.
func (l *Log) RecoveryPoint() int64 { return l.durable.Load() }

// snapshotBytes is how much may be appended before a checkpoint also takes a
// producer snapshot, so that a restart replays little.
const snapshotBytes = 1 << 20

// prepareCheckpoint writes what makes a restart after a crash cheap: the index
// entries that are in memory, and a producer snapshot when much was appended.
// Nothing of it must succeed.
func (l *Log) prepareCheckpoint() {
	if l.usable() != nil {
		return
	}
	if err := l.active().FlushIndexes(); err != nil {
		l.env.logger.Warn("index entries were not written", "partition", l.tp.String(), "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sinceSnap < snapshotBytes || l.gone.Load() {
		return
	}
	old := l.strayOf
	l.takeSnapshot(false)
	if newest, ok := l.producers.LatestSnapshot(); ok && newest != old {
		l.strayOf = newest
		l.dropStray(old)
	}
}

// dropStray removes a mid-segment snapshot that a newer one replaced.
func (l *Log) dropStray(offset int64) {
	if offset == none {
		return
	}
	segs := *l.segs.Load()
	if i := floor(segs, offset); i >= 0 && segs[i].BaseOffset() == offset {
		return // it became a segment's own
	}
	path, ok, err := l.producers.DetachSnapshot(offset, segment.DeletedSuffix)
	if ok && err == nil {
		err = l.env.fs.Remove(path)
	}
	if err != nil {
		l.env.logger.Warn("an old producer snapshot was not removed", "partition", l.tp.String(), "error", err)
	}
}
