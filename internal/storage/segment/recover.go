package segment

import (
	"errors"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/index"
)

// Recovered says what Recover found.
type Recovered struct {
	NextOffset     int64
	ScannedBytes   int64
	TruncatedBytes int64 // cut at the end
	Reason         error // why, when TruncatedBytes > 0
}

// maxStepsBack bounds how many index entries are tried as a starting point
// before the whole segment is scanned.
const maxStepsBack = 16

// Recover makes the segment whole after a crash. What lies below offset durable
// is known to be on disk: from the last index entry below it that proves true,
// only headers are read up to there; without one, the scan begins at the start.
// From there every batch is checked (CRC, header, offsets that grow), the indexes
// are rebuilt, and the file is cut behind the last good batch. visit sees every
// header that was read. (LogSegment.recover, which always scans from the
// segment's start.)
func (s *Segment) Recover(durable int64, visit func(record.Batch)) (Recovered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.log.Acquire(false)
	if err != nil {
		return Recovered{}, err
	}
	defer h.Release()
	fileSize, err := h.Size()
	if err != nil {
		return Recovered{}, err
	}
	s.sealed.Store(false)
	c := &scanner{r: h, limit: fileSize}
	from, err := s.resume(c, durable, visit)
	if err != nil {
		return Recovered{}, err
	}
	r, end, err := s.scan(c, from, visit)
	if err != nil {
		return r, err
	}
	if end < fileSize {
		if err := h.Truncate(end); err != nil {
			return r, err
		}
	}
	if err := h.Unreserve(); err != nil { // of the run that was killed
		return r, err
	}
	r.TruncatedBytes = fileSize - end
	s.size.Store(end)
	s.torn = false
	s.maxKnown = true
	if err := s.truncateTxns(); err != nil {
		return r, err
	}
	// Whoever is killed again right away need not scan this once more.
	s.indexError(s.offsets.Flush())
	s.indexError(s.times.Flush())
	s.ready.Store(true)
	return r, nil
}

// truncateTxns drops what the transaction index says about the cut end. Its
// other entries for the scanned part stay: the owner, which replays the
// producers, adds only what is missing.
func (s *Segment) truncateTxns() error {
	err := s.txns.TruncateTo(s.next)
	if errors.Is(err, index.ErrCorrupt) {
		s.logger.Warn("emptying a transaction index; it is rebuilt from the log", "segment", s.FilePath(kindLog), "reason", err)
		return s.txns.Reset()
	}
	return err
}

// resume takes the index entries that can be trusted and returns where the
// scan begins.
func (s *Segment) resume(c *scanner, durable int64, visit func(record.Batch)) (int64, error) {
	if durable <= s.base {
		return 0, s.resetIndexes()
	}
	if err := s.offsets.Adopt(durable, c.limit); err != nil {
		return 0, err
	}
	w := newWalker(c.r, c.limit)
	defer w.close()
	for range maxStepsBack {
		last, ok := s.offsets.Last()
		if !ok {
			break
		}
		b, err := w.header(last.Position)
		if err == nil && b.LastOffset() == last.Offset {
			from, err := s.resumeAt(w, b, last, durable, visit)
			if err != nil || from > 0 {
				return from, err
			}
			return 0, s.resetIndexes()
		}
		if err != nil && !errors.Is(err, errNotBatch) {
			return 0, err
		}
		if err := s.offsets.TruncateTo(last.Offset); err != nil {
			return 0, err
		}
	}
	return 0, s.resetIndexes()
}

// resumeAt prepares a scan behind batch b, which the last offset entry names, and
// what else lies below durable; it returns where the scan begins, 0 when the time
// index does not hold or no batches lead from b to durable.
func (s *Segment) resumeAt(w *walker, b record.Batch, last index.OffsetEntry, durable int64, visit func(record.Batch)) (int64, error) {
	base, end := b.BaseOffset(), last.Position+int64(b.LengthBytes())
	if err := s.times.Adopt(last.Offset + 1); err != nil {
		return 0, err
	}
	best, err := s.maxUpTo(w.r, end)
	if errors.Is(err, index.ErrCorrupt) || errors.Is(err, ErrCorrupt) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s.recent, s.recentAt, s.sinceEntry = nil, 0, 0
	s.maxTs = best
	s.next = base
	from, err := s.stepTo(w, last.Position, durable, visit)
	if errors.Is(err, errNotBatch) {
		return 0, nil
	}
	return from, err
}

// stepTo indexes the batches from a position on that lie wholly below offset
// durable, by their headers, and returns the position behind them. They were
// synced, so their records need not be read again.
func (s *Segment) stepTo(w *walker, pos, durable int64, visit func(record.Batch)) (int64, error) {
	for s.next < durable && pos < w.limit {
		b, err := w.header(pos)
		if err != nil {
			return pos, err
		}
		if b.BaseOffset() < s.next || !s.Fits(b.LastOffset()) {
			return pos, fmt.Errorf("%w: offsets %d to %d after %d", errNotBatch, b.BaseOffset(), b.LastOffset(), s.next)
		}
		if b.NextOffset() > durable {
			break
		}
		n := int64(b.LengthBytes())
		s.noteBatch(b, pos, n)
		if visit != nil {
			visit(b)
		}
		pos += n
	}
	return pos, nil
}

// scan checks batches from a position to the end of the file or the first bad
// one, and indexes them.
func (s *Segment) scan(c *scanner, from int64, visit func(record.Batch)) (Recovered, int64, error) {
	var r Recovered
	pos := from
	for pos < c.limit {
		b, err := c.batch(pos)
		if err == nil {
			err = s.acceptable(b)
		}
		if errors.Is(err, errNotBatch) {
			r.Reason = fmt.Errorf("at position %d: %w", pos, err)
			break
		}
		if err != nil {
			return r, pos, err
		}
		s.noteBatch(b, pos, int64(len(b)))
		if visit != nil {
			visit(b)
		}
		pos += int64(len(b))
	}
	r.NextOffset = s.next
	r.ScannedBytes = pos - from
	return r, pos, nil
}

func (s *Segment) acceptable(b record.Batch) error {
	if err := b.Verify(); err != nil {
		return fmt.Errorf("%w: %w", errNotBatch, err)
	}
	if b.BaseOffset() < s.next || !s.Fits(b.LastOffset()) {
		return fmt.Errorf("%w: offsets %d to %d after %d in a segment of base %d", errNotBatch, b.BaseOffset(), b.LastOffset(), s.next, s.base)
	}
	return nil
}

// TruncateTo removes the batch that holds offset and all behind it.
func (s *Segment) TruncateTo(offset int64) error {
	p, ok, err := s.find(offset)
	if err != nil {
		return err
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.truncateIndexes(offset); err != nil {
		return err
	}
	s.sealed.Store(false)
	s.next = offset
	s.recent, s.recentAt = nil, 0
	s.maxTs = index.TimeEntry{TimestampMs: -1, Offset: s.base}
	s.maxKnown = false
	if ok {
		if err := s.cutFile(h, p.pos); err != nil {
			return err
		}
	}
	last, _ := s.offsets.Last()
	s.sinceEntry = s.size.Load() - last.Position
	return nil
}

func (s *Segment) cutFile(h *filecache.Handle, pos int64) error {
	s.size.Store(pos) // readers first
	if pos == 0 {
		s.firstTs = noFirst
	}
	s.keepOpen(h) // the new size must be synced too
	return h.Truncate(pos)
}

func (s *Segment) truncateIndexes(offset int64) error {
	if err := s.offsets.TruncateTo(offset); err != nil {
		return err
	}
	if err := s.times.TruncateTo(offset); err != nil {
		return err
	}
	return s.txns.TruncateTo(offset)
}

// Unseal makes the newest segment of a log that was loaded writable.
func (s *Segment) Unseal() { s.sealed.Store(false) }
