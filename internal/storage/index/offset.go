package index

import (
	"math"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
)

var (
	byOffset   = field{0, 4}
	byPosition = field{4, 4}
)

// Offset is the .index of one segment (OffsetIndex.java).
type Offset struct {
	c    core
	last OffsetEntry // valid when c.n > 0
}

// Init ties the index to its file. maxBytes is segment.index.bytes.
func (x *Offset) Init(fc *filecache.Cache, name filecache.Namer, kind uint8, base int64, maxBytes int) {
	x.c.init(fc, name, kind, base, maxBytes, OffsetEntrySize)
}

// Create says that the segment is new and has no file yet.
func (x *Offset) Create() { x.c.create() }

// Load opens a trimmed file as it is. An index that was not trimmed (its
// broker was killed) is taken as far as its entries grow. The error is
// ErrCorrupt for a file that cannot be one.
func (x *Offset) Load() error {
	trimmed, err := x.c.load()
	if err != nil {
		return err
	}
	if !trimmed {
		return x.Adopt(math.MaxInt64, math.MaxInt64)
	}
	return x.setLast()
}

// Adopt takes the leading entries whose offsets and positions grow and lie
// below both limits, and cuts the file behind them. A missing file has none.
func (x *Offset) Adopt(offsetLimit, positionLimit int64) error {
	err := x.c.adopt(func(b []byte) int { return validOffsets(b, x.c.base, offsetLimit, positionLimit) })
	if err != nil {
		return err
	}
	return x.setLast()
}

func (x *Offset) setLast() error {
	x.last = OffsetEntry{Offset: x.c.base}
	if x.c.n == 0 {
		return nil
	}
	var b [OffsetEntrySize]byte
	if err := x.c.entry(x.c.n-1, b[:]); err != nil {
		return err
	}
	x.last = decodeOffset(b[:], x.c.base)
	if x.last.Offset < x.c.base || x.last.Position < 0 {
		return ErrCorrupt
	}
	return nil
}

// Append adds an entry; it must lie above the last one or it is left out. An
// error means that the file could not be written: the entry counts all the
// same and is written later.
func (x *Offset) Append(e OffsetEntry) error {
	if x.Full() || x.c.backlog() || x.c.n > 0 && (e.Offset <= x.last.Offset || e.Position <= x.last.Position) {
		return nil
	}
	var buf [OffsetEntrySize]byte
	b, err := AppendOffsetEntry(buf[:0], x.c.base, e)
	if err != nil {
		return err
	}
	x.last = e
	return x.c.push(b)
}

// Lookup returns the last entry at or below offset; (base, 0) and false when
// there is none.
func (x *Offset) Lookup(offset int64) (OffsetEntry, bool, error) {
	d := offset - x.c.base
	if d < 0 || x.c.n == 0 {
		return OffsetEntry{Offset: x.c.base}, false, nil
	}
	if offset >= x.last.Offset {
		return x.last, true, nil
	}
	var b [OffsetEntrySize]byte
	i, err := x.c.search(byOffset, min(d, math.MaxInt32), x.about(d, x.last.Offset-x.c.base), b[:])
	if err != nil || i < 0 {
		return OffsetEntry{Offset: x.c.base}, false, err
	}
	return decodeOffset(b[:], x.c.base), true, nil
}

// about guesses the index of an entry from its share of the last one's value.
func (x *Offset) about(value, last int64) int {
	if last <= 0 {
		return noGuess
	}
	return int(float64(x.c.n) * min(float64(value)/float64(last), 1))
}

// After returns the first entry at or behind a file position; false when there
// is none (OffsetIndex.fetchUpperBoundOffset).
func (x *Offset) After(position int64) (OffsetEntry, bool, error) {
	if x.c.n == 0 || x.last.Position < position {
		return OffsetEntry{}, false, nil
	}
	var b [OffsetEntrySize]byte
	i, err := x.c.search(byPosition, position-1, x.about(position, x.last.Position), b[:])
	if err != nil {
		return OffsetEntry{}, false, err
	}
	if i+1 >= x.c.n {
		return OffsetEntry{}, false, nil
	}
	if err := x.c.entry(i+1, b[:]); err != nil {
		return OffsetEntry{}, false, err
	}
	return decodeOffset(b[:], x.c.base), true, nil
}

// TruncateTo removes the entries at and above offset.
func (x *Offset) TruncateTo(offset int64) error {
	var b [OffsetEntrySize]byte
	i, err := x.c.search(byOffset, min(offset-1-x.c.base, math.MaxInt32), noGuess, b[:])
	if err != nil {
		return err
	}
	if err := x.c.cut(i + 1); err != nil {
		return err
	}
	return x.setLast()
}

// Last returns the newest entry; (base, 0) and false when there is none.
func (x *Offset) Last() (OffsetEntry, bool) {
	if x.c.n == 0 {
		return OffsetEntry{Offset: x.c.base}, false
	}
	return x.last, true
}

// Fits reports whether an offset can be expressed in this index.
func (x *Offset) Fits(offset int64) bool { _, ok := relative(x.c.base, offset); return ok }

// Full reports whether no entry fits any more, which makes the segment roll.
func (x *Offset) Full() bool { return (x.c.n+1)*OffsetEntrySize > x.c.maxBytes }

// Entries returns the number of entries.
func (x *Offset) Entries() int { return x.c.n }

// Flush writes the entries that are only in memory.
func (x *Offset) Flush() error { return x.c.flush() }

// Seal writes everything and trims the file; must makes one that is missing.
func (x *Offset) Seal(must bool) error { return x.c.seal(must) }

// Sync makes the written file durable.
func (x *Offset) Sync() error { return x.c.sync() }

// Close closes the file for good; nothing is written.
func (x *Offset) Close() { x.c.slot.Close() }
