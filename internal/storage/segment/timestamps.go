package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/index"
)

// decompressLimitBytes bounds what one stored batch may inflate to when a
// lookup has to look into it.
const decompressLimitBytes = 256 << 20

// MaxTimestamp returns the largest timestamp of the segment and the last offset
// of the first batch that has it; -1 when there is none.
func (s *Segment) MaxTimestamp() (index.TimeEntry, error) {
	if !s.ready.Load() {
		if err := s.ensure(); err != nil {
			return index.TimeEntry{}, err
		}
	}
	s.mu.RLock()
	t, known := s.maxTs, s.maxKnown
	s.mu.RUnlock()
	if known {
		return t, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.maxLocked()
	return s.maxTs, err
}

// KnownMaxTimestamp is MaxTimestamp as far as it is known without reading; -1
// otherwise.
func (s *Segment) KnownMaxTimestamp() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.maxKnown {
		return -1
	}
	return s.maxTs.TimestampMs
}

// maxLocked takes the last time entry, proves it, and walks the headers behind
// it: usually a few, all of them when timestamps fell or the index was cut.
func (s *Segment) maxLocked() error {
	if s.maxKnown || s.Size() == 0 {
		s.maxKnown = true
		return nil
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	best, err := s.maxUpTo(h, s.Size())
	if errors.Is(err, index.ErrCorrupt) {
		return s.rebuildLocked(h, err)
	}
	if err != nil {
		return err
	}
	if best.TimestampMs > s.maxTs.TimestampMs {
		s.maxTs = best
	}
	s.maxKnown = true
	return nil
}

// maxUpTo returns the largest timestamp below a file position from the time
// index and the headers behind its last entry. An entry that does not prove
// true is index.ErrCorrupt.
func (s *Segment) maxUpTo(h io.ReaderAt, limit int64) (index.TimeEntry, error) {
	best, entered := s.times.Last()
	lie := fmt.Errorf("%w: the last time entry (%d at offset %d) names no such batch", index.ErrCorrupt, best.TimestampMs, best.Offset)
	var pos int64
	if entered {
		e, _, err := s.offsets.Lookup(best.Offset)
		if err != nil {
			return best, err
		}
		pos = e.Position
	}
	claim, proven := best, !entered
	w := newWalker(h, limit)
	defer w.close()
	for pos < limit {
		b, err := w.header(pos)
		if err != nil && !proven {
			return best, lie
		}
		if err != nil {
			return best, s.corrupt(pos, err)
		}
		if !proven && claim.Offset <= b.LastOffset() {
			if b.BaseOffset() > claim.Offset || b.MaxTimestamp() != claim.TimestampMs {
				return best, lie
			}
			proven = true
		}
		if proven && b.MaxTimestamp() > best.TimestampMs {
			best = index.TimeEntry{TimestampMs: b.MaxTimestamp(), Offset: b.LastOffset()}
		}
		pos += int64(b.LengthBytes())
	}
	if !proven {
		return best, lie
	}
	return best, nil
}

// LargestTimestamp is what retention.ms is compared with: the largest record
// timestamp, or the file's modification time when records have none.
func (s *Segment) LargestTimestamp() (int64, error) {
	t, err := s.MaxTimestamp()
	if err != nil || t.TimestampMs >= 0 {
		return t.TimestampMs, err
	}
	info, err := s.cache.FS().Stat(s.FilePath(kindLog))
	if err != nil {
		return 0, err
	}
	return info.ModTime().UnixMilli(), nil
}

// Found is a record found by time.
type Found struct {
	Offset      int64
	TimestampMs int64
	LeaderEpoch int32
}

// FindTimestamp returns the first record at or behind offset from whose
// timestamp is not below ts (LogSegment.findOffsetByTimestamp).
func (s *Segment) FindTimestamp(ts, from int64) (Found, bool, error) {
	if !s.ready.Load() {
		if err := s.ensure(); err != nil {
			return Found{}, false, err
		}
	}
	for try := 0; ; try++ {
		f, ok, err := s.findTimestamp(ts, from)
		if err == nil || try > 0 || !(errors.Is(err, index.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) && !s.deleted.Load()) {
			return f, ok, err
		}
		if err := s.repair(err); err != nil {
			return Found{}, false, err
		}
	}
}

func (s *Segment) findTimestamp(ts, from int64) (Found, bool, error) {
	s.mu.RLock()
	e, entered, err := s.times.Lookup(ts)
	s.mu.RUnlock()
	if err != nil {
		return Found{}, false, err
	}
	p, ok, err := s.find(max(e.Offset, from))
	if err != nil {
		return Found{}, false, err
	}
	if !ok && entered && e.Offset >= from {
		return Found{}, false, lyingTime(e)
	}
	if !ok {
		return Found{}, false, nil
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return Found{}, false, err
	}
	defer h.Release()
	size := s.Size()
	w := newWalker(h, size)
	defer w.close()
	for pos := p.pos; pos < size; {
		b, err := w.header(pos)
		if err != nil {
			return Found{}, false, s.corrupt(pos, err)
		}
		if entered && pos == p.pos && e.Offset >= from && (e.Offset < b.BaseOffset() || b.MaxTimestamp() != e.TimestampMs) {
			return Found{}, false, lyingTime(e)
		}
		n := int64(b.LengthBytes())
		if b.MaxTimestamp() >= ts {
			whole, err := (&scanner{r: h, limit: size}).batch(pos)
			if err != nil {
				return Found{}, false, s.corrupt(pos, err)
			}
			f, ok, err := firstAt(whole, ts, from)
			if err != nil || ok {
				return f, ok, err
			}
		}
		pos += n
	}
	return Found{}, false, nil
}

func lyingTime(e index.TimeEntry) error {
	return fmt.Errorf("%w: its entry for time %d at offset %d names no such batch", index.ErrCorrupt, e.TimestampMs, e.Offset)
}

// firstAt looks into a batch.
func firstAt(b record.Batch, ts, from int64) (Found, bool, error) {
	for r, err := range b.Records(decompressLimitBytes) {
		if err != nil {
			return Found{}, false, fmt.Errorf("%w: batch at offset %d: %w", ErrCorrupt, b.BaseOffset(), err)
		}
		if r.Timestamp >= ts && r.Offset >= from {
			return Found{Offset: r.Offset, TimestampMs: r.Timestamp, LeaderEpoch: b.PartitionLeaderEpoch()}, true, nil
		}
	}
	return Found{}, false, nil
}

// FindMaxTimestamp returns the first record with the segment's largest
// timestamp.
func (s *Segment) FindMaxTimestamp() (Found, bool, error) {
	t, err := s.MaxTimestamp()
	if err != nil || t.TimestampMs < 0 {
		return Found{}, false, err
	}
	p, ok, err := s.find(t.Offset)
	if err != nil || !ok {
		return Found{}, false, err
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return Found{}, false, err
	}
	defer h.Release()
	b, err := (&scanner{r: h, limit: s.Size()}).batch(p.pos)
	if err != nil {
		return Found{}, false, s.corrupt(p.pos, err)
	}
	return firstAt(b, t.TimestampMs, b.BaseOffset())
}
