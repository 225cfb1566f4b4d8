package log

import (
	"errors"
	"io/fs"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
)

// TruncateTo removes everything at and above offset (a follower that diverged).
// An offset at or beyond the log end changes nothing. When it returns, what it
// removed is gone for good, and the recovery point on disk is lowered, so that
// nothing appended afterwards is taken for durable.
func (l *Log) TruncateTo(offset int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	if offset < 0 {
		return kerrors.New(kerrors.InvalidRequest, "truncate %s to offset %d", l.tp, offset)
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	changed, err := l.truncateLocked(offset)
	l.mu.Unlock()
	if err == nil && changed {
		err = l.settleCut()
	}
	if err != nil {
		return l.halfDone(err)
	}
	if !changed {
		return nil
	}
	return l.env.moved(l, true)
}

// settleCut makes a truncation durable before anything is appended. Until the
// names are synced a power cut brings the renamed segments back, and one that
// begins where the new records end would join them: the log of no leader, and
// with one epoch over both nobody would notice. l.syncMu is held.
func (l *Log) settleCut() error {
	err := l.run(&syncWork{names: true, active: l.active()})
	if l.gone.Load() {
		return nil // closed or deleted under us
	}
	return err
}

func (l *Log) truncateLocked(offset int64) (bool, error) {
	if offset >= l.end.Load() {
		return false, l.truncateEpochs(l.end.Load())
	}
	if hw := l.hw.Load(); offset < hw {
		l.env.logger.Warn("truncating below the high watermark", "partition", l.tp.String(), "offset", offset, "highWatermark", hw)
	}
	segs := *l.segs.Load()
	if segs[0].BaseOffset() > offset {
		return true, l.restartAt(offset)
	}
	l.gen++
	if offset < l.durable.Load() {
		l.durable.Store(offset)
	}
	keep := floor(segs, offset) + 1
	l.lowerEnd(offset)
	l.setSegments(append([]*segment.Segment(nil), segs[:keep]...))
	if err := l.discard(segs[keep:]); err != nil {
		return true, err
	}
	last := segs[keep-1]
	l.unsynced = without(l.unsynced, last)
	if err := last.TruncateTo(offset); err != nil {
		return true, err
	}
	if err := l.truncateEpochs(offset); err != nil {
		return true, err
	}
	if l.start.Load() > offset {
		l.start.Store(offset)
	}
	if l.strayOf > offset {
		l.strayOf = none
	}
	if err := l.replayProducers(); err != nil {
		return true, err
	}
	l.setHighWatermarkLocked(l.hw.Load())
	return true, nil
}

// truncateEpochs removes the epochs at and above offset. Until the file says so
// too, nothing may be appended: see assignEpoch.
func (l *Log) truncateEpochs(offset int64) error {
	_, err := l.epochs.TruncateFromEnd(offset)
	l.epoch = l.epochs.LatestEpoch()
	l.epochUnsafe = l.epochUnsafe || err != nil
	return err
}

// lowerEnd publishes a lower end before the bytes go, high watermark included.
func (l *Log) lowerEnd(offset int64) {
	l.end.Store(offset)
	if l.hw.Load() > offset {
		l.hw.Store(offset)
	}
}

func without(segs []*segment.Segment, gone *segment.Segment) []*segment.Segment {
	var out []*segment.Segment
	for _, s := range segs {
		if s != gone {
			out = append(out, s)
		}
	}
	return out
}

// TruncateFullyAndStartAt empties the log; its next offset is offset.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	err := l.restartAt(offset)
	l.mu.Unlock()
	if err == nil {
		err = l.settleCut()
	}
	if err != nil {
		return l.halfDone(err)
	}
	return l.env.moved(l, true)
}

// halfDone gives up on a log whose truncation failed in the middle, for lack of
// space or not: memory and files disagree, and only a restart can tell.
func (l *Log) halfDone(err error) error {
	l.env.offline(err)
	return l.env.storage(err, "truncate "+l.tp.String())
}

// restartAt replaces all segments by an empty one; l.mu is held.
func (l *Log) restartAt(offset int64) error {
	segs := *l.segs.Load()
	l.gen++
	l.durable.Store(min(l.durable.Load(), offset))
	for _, s := range segs {
		if s.BaseOffset() == offset {
			// Its files make room for the new ones of the same name.
			if err := s.MarkDeleted(); err != nil {
				return err
			}
		}
	}
	fresh, err := segment.Create(offset, l.segmentOptions())
	if err != nil {
		return err
	}
	l.newNames = true
	l.unsynced = nil
	l.setSegments([]*segment.Segment{fresh})
	l.start.Store(offset)
	l.end.Store(offset)
	l.durable.Store(offset)
	if err := l.discard(segs); err != nil {
		return err
	}
	l.epochs.Clear()
	l.epoch = l.epochs.LatestEpoch()
	l.strayOf = none
	if err := l.producers.TruncateFullyAndStartAt(offset); err != nil {
		return err
	}
	l.setHighWatermarkLocked(offset)
	return l.epochs.Flush()
}

// discard renames segments that left the list, with their producer snapshots,
// and removes them after file.delete.delay.ms. l.mu is held.
func (l *Log) discard(segs []*segment.Segment) error {
	for _, s := range segs {
		if err := s.MarkDeleted(); err != nil {
			return err
		}
		l.unsynced = without(l.unsynced, s)
		snapshot, ok, err := l.producers.DetachSnapshot(s.BaseOffset(), segment.DeletedSuffix)
		if err != nil {
			l.env.logger.Warn("a producer snapshot was not removed", "partition", l.tp.String(), "error", err)
		}
		l.env.later(l.cfg.Load().FileDeleteDelayMs, func() error {
			err := s.Remove()
			if ok {
				if rm := l.env.fs.Remove(snapshot); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
					err = errors.Join(err, rm)
				}
			}
			return err
		})
	}
	return nil
}
