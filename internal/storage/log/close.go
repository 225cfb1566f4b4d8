package log

import (
	"fmt"

	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// close writes what a clean start relies on, makes it durable, and closes the
// files. An error means that the folder must not be called clean.
func (l *Log) close() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.epochFile.Lock()
	defer l.epochFile.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone.Load() {
		return nil
	}
	l.gone.Store(true)
	defer l.closeFiles()
	if err := l.env.err(); err != nil {
		return err
	}
	active := l.active()
	if active.Torn() {
		if err := active.Repair(); err != nil {
			return fmt.Errorf("%w: %w", segment.ErrTorn, err)
		}
	}
	if err := active.Trim(); err != nil {
		return err
	}
	if err := l.epochs.FlushBelow(l.end.Load()); err != nil {
		return err
	}
	w := syncWork{id: l.newID, names: l.newNames, sealed: l.unsynced, active: active}
	if err := l.run(&w); err != nil {
		return err
	}
	active.Unreserve()
	// The other indexes and the snapshot are not synced: a start proves them and
	// can do without, and a thousand idle partitions would need thousands of syncs.
	if _, _, err := l.producers.TakeSnapshot(false); err != nil && !vfs.IsNoSpace(err) {
		return err
	}
	l.durable.Store(l.end.Load())
	return nil
}

// abandon closes the files and writes nothing: the folder is offline, or the
// partition deleted.
func (l *Log) abandon() {
	l.epochFile.Lock()
	defer l.epochFile.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone.Store(true)
	l.closeFiles()
}

func (l *Log) closeFiles() {
	for _, s := range *l.segs.Load() {
		s.Close()
	}
}
