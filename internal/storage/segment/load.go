package segment

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/index"
)

// tailSlack is how many index intervals of log may lie behind the last entry
// before the index is taken for cut short.
const tailSlack = 8

// ensure loads the indexes at first use, checks them as far as a few reads can,
// and rebuilds them from the .log when they do not hold.
func (s *Segment) ensure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready.Load() {
		return nil
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	reason := s.loadIndexes()
	if reason == nil {
		reason = s.checkTail(h)
	}
	switch {
	case reason == nil:
	case errors.Is(reason, index.ErrCorrupt), errors.Is(reason, errNotBatch), errors.Is(reason, fs.ErrNotExist):
		if err := s.rebuildLocked(h, reason); err != nil {
			return err
		}
	default:
		return reason
	}
	s.ready.Store(true)
	return nil
}

// loadIndexes opens both sparse indexes. A segment without records may have none.
func (s *Segment) loadIndexes() error {
	empty := s.Size() == 0
	if err := s.offsets.Load(); err != nil {
		if !empty || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.offsets.Create()
	}
	if err := s.times.Load(); err != nil {
		if !empty || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.times.Create()
	}
	return nil
}

// checkTail proves the last offset entry against the log and walks the headers
// behind it: that gives the next offset and shows an index that lost entries.
func (s *Segment) checkTail(h *filecache.Handle) error {
	size := s.Size()
	last, ok := s.offsets.Last()
	w := newWalker(h, size)
	defer w.close()
	if ok && last.Position >= size {
		return fmt.Errorf("%w: its last entry points at %d in a log of %d bytes", index.ErrCorrupt, last.Position, size)
	}
	s.next = s.base
	var since int64
	for pos := last.Position; pos < size; {
		b, err := w.header(pos)
		if err != nil {
			return err
		}
		if ok && pos == last.Position && (b.BaseOffset() > last.Offset || b.LastOffset() > last.Offset) {
			return fmt.Errorf("%w: its last entry names offset %d, the batch there begins at %d", index.ErrCorrupt, last.Offset, b.BaseOffset())
		}
		if since > tailSlack*s.interval {
			return fmt.Errorf("%w: entries are missing behind offset %d", index.ErrCorrupt, last.Offset)
		}
		s.next = b.NextOffset()
		since += int64(b.LengthBytes())
		pos += int64(b.LengthBytes())
	}
	s.sinceEntry = since
	return nil
}

// repair rebuilds the indexes of a segment whose entries were caught lying.
func (s *Segment) repair(reason error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	return s.rebuildLocked(h, reason)
}

// rebuildLocked makes both sparse indexes anew from the batch headers.
func (s *Segment) rebuildLocked(h *filecache.Handle, reason error) error {
	s.logger.Warn("rebuilding the indexes of a segment from its log",
		"segment", s.FilePath(kindLog), "sizeBytes", s.Size(), "reason", reason)
	if err := s.resetIndexes(); err != nil {
		return err
	}
	size := s.Size()
	w := newWalker(h, size)
	defer w.close()
	for pos := int64(0); pos < size; {
		b, err := w.header(pos)
		if err != nil {
			return s.corrupt(pos, err)
		}
		s.noteBatch(b, pos, int64(b.LengthBytes()))
		pos += int64(b.LengthBytes())
	}
	s.maxKnown = true
	if s.sealed.Load() {
		s.indexDirty = true
		return s.sealLocked(true)
	}
	// Whoever is killed need not do this once more.
	s.indexError(s.offsets.Flush())
	s.indexError(s.times.Flush())
	return nil
}

// resetIndexes empties both sparse indexes and what was derived from them.
func (s *Segment) resetIndexes() error {
	if err := s.offsets.Adopt(0, 0); err != nil {
		return err
	}
	if err := s.times.Adopt(0); err != nil {
		return err
	}
	s.recent, s.recentAt = nil, 0
	s.sinceEntry, s.next = 0, s.base
	s.firstTs = noFirst
	s.maxTs = index.TimeEntry{TimestampMs: -1, Offset: s.base}
	s.maxKnown = false
	return nil
}

// NextOffset is the offset behind the last batch, the base offset when empty.
func (s *Segment) NextOffset() (int64, error) {
	if !s.ready.Load() {
		if err := s.ensure(); err != nil {
			return 0, err
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.next, nil
}

// Walk yields the headers (control batches whole) of the batches from the one
// that holds offset from on, until fn says stop. The batch is valid during fn.
func (s *Segment) Walk(from int64, fn func(b record.Batch, pos int64) (more bool, err error)) error {
	p, ok, err := s.find(from)
	if err != nil || !ok {
		return err
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	size := s.Size()
	w := newWalker(h, size)
	defer w.close()
	whole := &scanner{r: h, limit: size}
	for pos := p.pos; pos < size; {
		b, err := w.header(pos)
		if err != nil {
			return s.corrupt(pos, err)
		}
		n := int64(b.LengthBytes())
		if b.IsControl() {
			if b, err = whole.batch(pos); err != nil {
				return s.corrupt(pos, err)
			}
		}
		more, err := fn(b, pos)
		if err != nil || !more {
			return err
		}
		pos += n
	}
	return nil
}
