package index

import (
	"math"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
)

var (
	byTime       = field{0, 8}
	byTimeOffset = field{8, 4}
)

// Time is the .timeindex of one segment (TimeIndex.java).
type Time struct {
	c    core
	last TimeEntry
}

// Init ties the index to its file. maxBytes is segment.index.bytes.
func (x *Time) Init(fc *filecache.Cache, name filecache.Namer, kind uint8, base int64, maxBytes int) {
	x.c.init(fc, name, kind, base, maxBytes, TimeEntrySize)
	x.last = TimeEntry{TimestampMs: -1, Offset: base}
}

// Create says that the segment is new and has no file yet.
func (x *Time) Create() {
	x.last = TimeEntry{TimestampMs: -1, Offset: x.c.base}
	x.c.create()
}

// Load is Offset.Load.
func (x *Time) Load() error {
	trimmed, err := x.c.load()
	if err != nil {
		return err
	}
	if !trimmed {
		return x.Adopt(math.MaxInt64)
	}
	return x.setLast()
}

// Adopt takes the leading entries that grow and lie below offsetLimit.
func (x *Time) Adopt(offsetLimit int64) error {
	err := x.c.adopt(func(b []byte) int { return validTimes(b, x.c.base, offsetLimit) })
	if err != nil {
		return err
	}
	return x.setLast()
}

func (x *Time) setLast() error {
	x.last = TimeEntry{TimestampMs: -1, Offset: x.c.base}
	if x.c.n == 0 {
		return nil
	}
	var b [TimeEntrySize]byte
	if err := x.c.entry(x.c.n-1, b[:]); err != nil {
		return err
	}
	x.last = decodeTime(b[:], x.c.base)
	if x.last.Offset < x.c.base || x.last.TimestampMs < 0 {
		return ErrCorrupt
	}
	return nil
}

// Append adds an entry if its timestamp lies above the last one's; force adds
// it to a full index too (the last entry of a segment that is rolled).
func (x *Time) Append(e TimeEntry, force bool) error {
	if e.TimestampMs <= x.last.TimestampMs || e.Offset < x.last.Offset || x.Full() && !force || x.c.backlog() {
		return nil
	}
	var buf [TimeEntrySize]byte
	b, err := AppendTimeEntry(buf[:0], x.c.base, e)
	if err != nil {
		return err
	}
	x.last = e
	return x.c.push(b)
}

// Lookup returns the last entry whose timestamp is not above ts; (-1, base) and
// false when there is none.
func (x *Time) Lookup(ts int64) (TimeEntry, bool, error) {
	if x.c.n > 0 && ts >= x.last.TimestampMs {
		return x.last, true, nil
	}
	var b [TimeEntrySize]byte
	i, err := x.c.search(byTime, ts, noGuess, b[:])
	if err != nil || i < 0 {
		return TimeEntry{TimestampMs: -1, Offset: x.c.base}, false, err
	}
	return decodeTime(b[:], x.c.base), true, nil
}

// TruncateTo removes the entries at and above offset.
func (x *Time) TruncateTo(offset int64) error {
	var b [TimeEntrySize]byte
	i, err := x.c.search(byTimeOffset, min(offset-1-x.c.base, math.MaxInt32), noGuess, b[:])
	if err != nil {
		return err
	}
	if err := x.c.cut(i + 1); err != nil {
		return err
	}
	return x.setLast()
}

// Last returns the newest entry; (-1, base) and false when there is none.
func (x *Time) Last() (TimeEntry, bool) { return x.last, x.c.n > 0 }

// Full reports whether only the last entry of a rolled segment fits.
func (x *Time) Full() bool { return (x.c.n+2)*TimeEntrySize > x.c.maxBytes }

// Entries returns the number of entries.
func (x *Time) Entries() int { return x.c.n }

// Flush writes the entries that are only in memory.
func (x *Time) Flush() error { return x.c.flush() }

// Seal writes everything and trims the file; must makes one that is missing.
func (x *Time) Seal(must bool) error { return x.c.seal(must) }

// Sync makes the written file durable.
func (x *Time) Sync() error { return x.c.sync() }

// Close closes the file for good; nothing is written.
func (x *Time) Close() { x.c.slot.Close() }
