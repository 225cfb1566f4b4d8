package segment

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/index"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// ErrTorn says that a failed write could not be cut off: the bytes behind Size
// are not ours to serve, and the file must not be closed as clean.
var ErrTorn = errors.New("a failed write could not be cut off")

// Append writes a set of whole batches by one positioned write and publishes
// them. On error nothing is visible and the file is cut back; an error that is
// ErrTorn too means that the cut failed. The caller checked that the last
// offset Fits.
func (s *Segment) Append(set []byte) error {
	if !s.ready.Load() {
		if err := s.ensure(); err != nil {
			return err
		}
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	if s.torn {
		if err := s.cutTorn(h); err != nil {
			return fmt.Errorf("%w: %w", ErrTorn, err)
		}
	}
	pos := s.size.Load()
	if _, err := h.WriteAt(set, pos); err != nil {
		s.torn = true
		if cut := s.cutTorn(h); cut != nil {
			return fmt.Errorf("%w: %w: %w", ErrTorn, err, cut)
		}
		return err
	}
	s.mu.Lock()
	s.note(set, pos)
	s.keepOpen(h)
	s.size.Store(pos + int64(len(set)))
	s.mu.Unlock()
	return nil
}

// keepOpen pins the file until the next Sync, which takes the pin away before
// it syncs: whatever is written later sets it anew. s.mu is held.
func (s *Segment) keepOpen(h *filecache.Handle) {
	if s.pin == nil {
		h.Retain()
		s.pin = h
	}
}

func (s *Segment) cutTorn(h *filecache.Handle) error {
	if err := h.Truncate(s.size.Load()); err != nil {
		return err
	}
	s.torn = false
	return nil
}

// Torn reports whether bytes of a failed write may be behind Size.
func (s *Segment) Torn() bool { return s.torn }

// note adds the batches of set, written at pos, to indexes and caches. Failing
// index writes are not the append's business: see index.Offset.Append.
func (s *Segment) note(set []byte, pos int64) {
	for len(set) >= record.HeaderSize {
		b := record.Batch(set)
		n := b.LengthBytes()
		s.noteBatch(b, pos, int64(n))
		if s.recent == nil {
			s.recent = make([]boundary, 0, recentLen)
		}
		s.remember(boundary{b.BaseOffset(), pos})
		pos += int64(n)
		set = set[n:]
	}
}

// noteBatch is the index rule of LogSegment.append: an entry for the first
// batch that begins more than interval bytes behind the last entry.
func (s *Segment) noteBatch(b record.Batch, pos, size int64) {
	ts, last := b.MaxTimestamp(), b.LastOffset()
	s.next = b.NextOffset()
	if s.firstTs == noFirst && pos == 0 {
		s.firstTs = ts
	}
	if ts > s.maxTs.TimestampMs {
		s.maxTs = index.TimeEntry{TimestampMs: ts, Offset: last}
	}
	if s.sinceEntry > s.interval {
		s.indexError(s.offsets.Append(index.OffsetEntry{Offset: last, Position: pos}))
		if s.maxTs.TimestampMs >= 0 {
			s.indexError(s.times.Append(s.maxTs, false))
		}
		s.sinceEntry = 0
	}
	s.sinceEntry += size
}

// indexError says so when entries can only be kept in memory for now.
func (s *Segment) indexError(err error) {
	if err != nil && !vfs.IsNoSpace(err) {
		s.logger.Warn("an index entry could not be written; it is kept in memory or rebuilt later",
			"segment", s.FilePath(kindLog), "error", err)
	}
}

func (s *Segment) remember(b boundary) {
	if len(s.recent) < recentLen {
		s.recent = append(s.recent, b)
		return
	}
	s.recent[s.recentAt] = b
	s.recentAt = (s.recentAt + 1) % recentLen
}

// AppendAborted adds an aborted transaction whose marker was just appended.
func (s *Segment) AppendAborted(t index.AbortedTxn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txnDirty = true
	return s.txns.Append(t)
}

// RestoreAborted is AppendAborted for a replay: an entry that is there already
// is left alone.
func (s *Segment) RestoreAborted(t index.AbortedTxn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, err := s.txns.LastOffset()
	if err != nil || t.LastOffset <= last {
		return err
	}
	s.txnDirty = true
	return s.txns.Append(t)
}

// ResetAborted empties the transaction index before it is rebuilt.
func (s *Segment) ResetAborted() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txnDirty = true
	return s.txns.Reset()
}

// Repair cuts off what a failed write left behind Size.
func (s *Segment) Repair() error {
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	return s.cutTorn(h)
}
