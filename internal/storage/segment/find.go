package segment

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/index"
)

// place is where a batch is.
type place struct {
	pos  int64
	base int64
	last int64
	size int64 // 0: not read
}

// start is where a search for an offset begins, and what the header there must
// satisfy.
type start struct {
	pos     int64
	claim   int64 // the last offset of the batch at pos, from an index entry
	claimed bool
	exact   bool // the batch at pos begins with the offset
}

// where looks the offset up in memory, then in the index.
func (s *Segment) where(target int64) (start, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	best := boundary{-1, -1}
	for _, b := range s.recent {
		if b.offset <= target && b.offset > best.offset {
			best = b
		}
	}
	if best.pos >= 0 {
		return start{pos: best.pos, exact: best.offset == target}, nil
	}
	e, ok, err := s.offsets.Lookup(target)
	return start{pos: e.Position, claim: e.Offset, claimed: ok}, err
}

// find returns the first batch that ends at or behind target: the one that
// holds it, or the next one after a gap. False when there is none.
func (s *Segment) find(target int64) (place, bool, error) {
	if !s.ready.Load() {
		if err := s.ensure(); err != nil {
			return place{}, false, err
		}
	}
	for try := 0; ; try++ {
		st, err := s.where(target)
		var p place
		var ok bool
		if err == nil {
			if st.exact {
				return place{pos: st.pos, base: target}, true, nil
			}
			p, ok, err = s.scanFor(st, target)
		}
		if err == nil || try > 0 || !(errors.Is(err, index.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) && !s.deleted.Load()) {
			return p, ok, err
		}
		if err := s.repair(err); err != nil {
			return place{}, false, err
		}
	}
}

// scanFor walks headers from st on.
func (s *Segment) scanFor(st start, target int64) (place, bool, error) {
	h, err := s.log.Acquire(false)
	if err != nil {
		return place{}, false, err
	}
	defer h.Release()
	size := s.Size()
	w := newWalker(h, size)
	defer w.close()
	if st.claimed && !s.entryHolds(w, st) {
		return place{}, false, fmt.Errorf("%w: its entry for offset %d at position %d names no such batch", index.ErrCorrupt, st.claim, st.pos)
	}
	for pos := st.pos; pos < size; {
		b, err := w.header(pos)
		if err != nil {
			return place{}, false, s.corrupt(pos, err)
		}
		n := int64(b.LengthBytes())
		if b.LastOffset() >= target {
			return place{pos: pos, base: b.BaseOffset(), last: b.LastOffset(), size: n}, true, nil
		}
		pos += n
	}
	return place{}, false, nil
}

// entryHolds reports whether an offset entry names a batch that ends where it
// says. Older versions of Kafka wrote the last offset of a whole append, so the
// batch may end before.
func (s *Segment) entryHolds(w *walker, st start) bool {
	b, err := w.header(st.pos)
	return err == nil && b.BaseOffset() <= st.claim && b.LastOffset() <= st.claim
}

// EndPosition returns the file position below which every batch lies wholly
// below offset upper.
func (s *Segment) EndPosition(upper int64) (int64, error) {
	if !s.ready.Load() {
		if err := s.ensure(); err != nil {
			return 0, err
		}
	}
	s.mu.RLock()
	next, size := s.next, s.size.Load()
	s.mu.RUnlock()
	if upper >= next {
		return size, nil
	}
	p, ok, err := s.find(upper)
	if err != nil {
		return 0, err
	}
	if !ok {
		return size, nil
	}
	return p.pos, nil
}

// ReadResult is a range of the .log, with a reference to the file.
type ReadResult struct {
	File *filecache.Handle // nil when Len is 0
	Pos  int64
	Len  int
	// FirstIncomplete says that the byte bound cuts the first batch.
	FirstIncomplete bool
}

// Read returns up to maxBytes from the batch that holds offset on, not beyond
// file position end. minOne returns that batch whole in any case. False when no
// batch of this segment ends at or behind offset.
func (s *Segment) Read(offset int64, maxBytes int, end int64, minOne bool) (ReadResult, bool, error) {
	p, ok, err := s.find(offset)
	if err != nil || !ok {
		return ReadResult{}, ok, err
	}
	room := min(end, s.Size()) - p.pos
	if room <= 0 {
		return ReadResult{Pos: p.pos}, true, nil
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return ReadResult{}, true, err
	}
	r := ReadResult{File: h, Pos: p.pos, Len: int(room)}
	if int64(maxBytes) < room {
		if p.size == 0 {
			if p.size, err = batchSize(h, p.pos, s.Size()); err != nil {
				h.Release()
				return ReadResult{}, true, s.corrupt(p.pos, err)
			}
		}
		r.Len = max(0, maxBytes)
		if int64(r.Len) < p.size {
			r.FirstIncomplete = !minOne
			if minOne {
				r.Len = int(p.size)
			}
		}
		r.Len = min(r.Len, int(room))
	}
	if r.Len == 0 {
		h.Release()
		r.File = nil
	}
	return r, true, nil
}

func batchSize(h *filecache.Handle, pos, limit int64) (int64, error) {
	w := newWalker(h, limit)
	defer w.close()
	b, err := w.header(pos)
	if err != nil {
		return 0, err
	}
	return int64(b.LengthBytes()), nil
}

// OffsetAfter returns an offset of this segment such that every batch that
// begins below file position pos begins below it; false when only the next
// segment's base is one (OffsetIndex.fetchUpperBoundOffset).
func (s *Segment) OffsetAfter(pos int64) (int64, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok, err := s.offsets.After(pos)
	return e.Offset, ok, err
}

// CollectAborted appends the aborted transactions that overlap [from, upper)
// and end in this segment; complete says that later segments have none.
func (s *Segment) CollectAborted(dst []index.AbortedTxn, from, upper int64) (_ []index.AbortedTxn, complete bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.txns.Collect(dst, from, upper)
}
