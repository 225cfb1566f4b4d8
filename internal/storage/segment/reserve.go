package segment

import (
	"errors"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// A log that is synced every few appends has disk space reserved ahead of it: an
// fdatasync then need not place the new bytes, which on ext4 costs more than a
// third of the CPU of a small sync, and lets half as many syncs through
// (bench/NOTES.md). Logs that are synced in large steps gain nothing and reserve
// nothing. What is reserved is a quarter of what the segment holds, within these
// bounds, and goes back when the segment is sealed or closed, or after a crash.
const (
	reserveFrom = 1 << 20 // the size from which on it is worth it
	reserveMin  = 256 << 10
	reserveMax  = 2 << 20
	// reserveStep is the largest growth between two syncs that counts as small.
	reserveStep = 1 << 20
)

// reservation is what the goroutine that syncs remembers of it.
type reservation struct {
	synced int64 // size at the sync before
	end    int64 // reserved up to here; 0 nothing
	off    bool  // the disk has no room for it, or the file system no notion
}

// next returns what to reserve after a sync at size: from..to, or nothing.
func (r *reservation) next(size int64) (from, to int64, ok bool) {
	step := size - r.synced
	r.synced = size
	if r.off || step <= 0 || step > reserveStep || size < reserveFrom || size+step <= r.end {
		return 0, 0, false
	}
	from = max(size, r.end)
	return from, size + min(max(size/4, reserveMin), reserveMax), true
}

// reserve follows a sync of h.
func (s *Segment) reserve(h *filecache.Handle) {
	from, to, ok := s.ahead.next(s.size.Load())
	if !ok || s.sealed.Load() {
		return
	}
	if err := h.Reserve(from, to); err != nil {
		s.ahead.off = true
		if !vfs.IsNoSpace(err) && !errors.Is(err, errors.ErrUnsupported) {
			s.logger.Warn("no disk space is reserved for a segment", "segment", s.FilePath(kindLog), "error", err)
		}
		return
	}
	s.ahead.end = to
}

// Unreserve gives back what is reserved behind the end. The caller sees to it that
// nothing is appended meanwhile (the segment is sealed, or its log closed or not
// loaded yet) and that neither Sync nor TruncateTo runs, which ends a seal.
func (s *Segment) Unreserve() {
	if s.ahead.end == 0 {
		return
	}
	s.ahead.end = 0
	h, err := s.log.Acquire(false)
	if err == nil {
		err = h.Unreserve()
		h.Release()
	}
	if err != nil {
		s.logger.Warn("the disk space reserved for a segment was not given back", "segment", s.FilePath(kindLog), "error", err)
	}
}
