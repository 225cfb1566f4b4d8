package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
)

// tailKeep is how many of the newest entries stay in memory (4 KiB apart: the
// last 256 KiB of the log); twice as many are collected before a write.
const tailKeep = 64

// blockBytes is read at once when a search has come close.
const blockBytes = 4096

var blocks = sync.Pool{New: func() any { return new([blockBytes]byte) }}

// field is where in an entry a search looks.
type field struct{ at, width int }

func (f field) read(b []byte) int64 {
	if f.width == 8 {
		return int64(binary.BigEndian.Uint64(b[f.at:]))
	}
	return int64(int32(binary.BigEndian.Uint32(b[f.at:])))
}

// core is a file of fixed-size entries whose tail is in memory.
type core struct {
	slot     filecache.Slot
	base     int64
	maxBytes int
	size     int // of an entry

	n       int    // entries
	written int    // entries in the file
	first   int    // index of the first entry in tail; tail reaches to n
	tail    []byte // nil until the first append or load
	long    bool   // the file is longer than written entries (preallocated)
	made    bool   // there is a file
}

func (c *core) init(fc *filecache.Cache, name filecache.Namer, kind uint8, base int64, maxBytes, size int) {
	c.slot.Init(fc, name, kind)
	c.base, c.size = base, size
	c.maxBytes = maxBytes / size * size
}

// create says that the segment is new: there is no file before the first write.
// Thousands of partitions that nobody writes to then have none, and a new one
// costs two files less.
func (c *core) create() {
	c.forget()
	c.made = false
}

// forget empties the memory side.
func (c *core) forget() { c.n, c.written, c.first, c.tail, c.long = 0, 0, 0, nil, false }

// load counts the entries of a trimmed file. It returns false for a file with
// zeros at its end, which only Valid entries may be taken from.
func (c *core) load() (trimmed bool, err error) {
	h, err := c.slot.Acquire(false)
	if err != nil {
		return false, err
	}
	defer h.Release()
	size, err := h.Size()
	if err != nil {
		return false, err
	}
	if size%int64(c.size) != 0 || size > maxIndexBytes {
		return false, fmt.Errorf("%w: %s has %d bytes, not whole entries of %d", ErrCorrupt, h.Name(), size, c.size)
	}
	c.forget()
	c.made = true
	c.n = int(size) / c.size
	c.written, c.first = c.n, c.n
	if c.n == 0 {
		return true, nil
	}
	last := make([]byte, c.size)
	if err := c.entry(c.n-1, last); err != nil {
		return false, err
	}
	if c.long = zero(last); c.long {
		return false, nil
	}
	c.tail, c.first = last, c.n-1
	return true, nil
}

// maxIndexBytes bounds what a file on disk may make us read.
const maxIndexBytes = 1 << 30

// adoptBytes is read at once by adopt, so that a preallocated file of 10 MiB
// with few entries costs one read.
const adoptBytes = 64 << 10

// adopt takes the leading entries of the file that count accepts. What follows
// them is cut off, unless it is the zeros of preallocation. A missing file has
// none, and stays missing.
func (c *core) adopt(count func(b []byte) int) error {
	h, err := c.slot.Acquire(false)
	if errors.Is(err, fs.ErrNotExist) {
		c.create()
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Release()
	size, err := h.Size()
	if err != nil {
		return err
	}
	c.forget()
	c.made = true
	b, err := c.readUsed(h, min(size, maxIndexBytes))
	if err != nil {
		return err
	}
	c.n = count(b)
	c.written = c.n
	c.first = max(0, c.n-tailKeep)
	if c.n > 0 {
		c.tail = append([]byte(nil), b[c.first*c.size:c.n*c.size]...)
	}
	used := c.n * c.size
	if size == int64(c.maxBytes) && zero(b[used:]) {
		c.long = true
		return nil
	}
	if size != int64(used) {
		return h.Truncate(int64(used))
	}
	return nil
}

// readUsed reads the file up to the first block that ends in a zero entry.
func (c *core) readUsed(r io.ReaderAt, size int64) ([]byte, error) {
	var b []byte
	for step := blockBytes; int64(len(b)) < size; step = min(2*step, adoptBytes) {
		n := int(min(int64(step/c.size*c.size), size-int64(len(b))))
		at := len(b)
		b = append(b, make([]byte, n)...)
		got, err := r.ReadAt(b[at:], int64(at))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		b = b[:at+got]
		if got < n || n < c.size || zero(b[len(b)-c.size:]) {
			break
		}
	}
	return b, nil
}

// push adds an entry in memory and writes the tail when it is long enough. The
// entry is in the index even when the write fails; the bytes are kept then.
func (c *core) push(entry []byte) error {
	if c.tail == nil {
		c.first = c.n
	}
	c.tail = append(c.tail, entry...)
	c.n++
	if c.n-c.first < 2*tailKeep {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	c.shrink()
	return nil
}

// shrink forgets the older entries of the tail, which must be written.
func (c *core) shrink() {
	if drop := c.n - c.first - tailKeep; drop > 0 && c.written >= c.first+drop {
		c.tail = append(c.tail[:0], c.tail[drop*c.size:]...)
		c.first += drop
	}
}

// backlog reports that writes have failed for so long that no entry should be
// added.
func (c *core) backlog() bool { return c.n-c.written >= 4*tailKeep }

// flush writes what the file lacks; the first entries make it.
func (c *core) flush() error {
	if c.written == c.n {
		return nil
	}
	h, err := c.slot.Acquire(true)
	if err != nil {
		return err
	}
	defer h.Release()
	c.made = true
	if !c.long {
		if err := h.Truncate(int64(max(c.maxBytes, c.n*c.size))); err != nil {
			return err
		}
		c.long = true
	}
	if _, err := h.WriteAt(c.tail[(c.written-c.first)*c.size:], int64(c.written*c.size)); err != nil {
		return err
	}
	c.written = c.n
	return nil
}

// seal writes everything and trims the file to its entries. must makes a file
// although there are none.
func (c *core) seal(must bool) error {
	if err := c.flush(); err != nil {
		return err
	}
	if !c.long && (c.made || !must) {
		return nil
	}
	h, err := c.slot.Acquire(true)
	if err != nil {
		return err
	}
	defer h.Release()
	c.made = true
	if !c.long {
		return nil
	}
	if err := h.Truncate(int64(c.n * c.size)); err != nil {
		return err
	}
	c.long = false
	return nil
}

// sync makes the file durable.
func (c *core) sync() error {
	h, err := c.slot.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	return h.Sync()
}

// cut keeps the first n entries; the file is cut too, so that no stale entry
// can be taken for a true one after a crash.
func (c *core) cut(n int) error {
	if n >= c.n {
		return nil
	}
	if n < c.written {
		h, err := c.slot.Acquire(true)
		if err != nil {
			return err
		}
		defer h.Release()
		if err := h.Truncate(int64(n * c.size)); err != nil {
			return err
		}
		c.long = false
		c.written = n
	}
	c.n = n
	if n <= c.first {
		c.first, c.tail = n, nil
	} else {
		c.tail = c.tail[:(n-c.first)*c.size]
	}
	return nil
}

// entry copies entry i into b.
func (c *core) entry(i int, b []byte) error {
	if i >= c.first && c.tail != nil {
		copy(b, c.tail[(i-c.first)*c.size:(i-c.first+1)*c.size])
		return nil
	}
	h, err := c.slot.Acquire(false)
	if err != nil {
		return err
	}
	defer h.Release()
	return readFull(h, b[:c.size], int64(i*c.size))
}

func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it ends before its last entry", ErrCorrupt)
	}
	return err
}

// guessBytes is read at once where a search expects its answer.
const guessBytes = 1024

// noGuess says that a search has no idea where to begin.
const noGuess = -1

// search copies into b the last entry whose field is not above target and
// returns its index, -1 when there is none. guess is about where that will be.
func (c *core) search(f field, target int64, guess int, b []byte) (int, error) {
	if c.n == 0 {
		return -1, nil
	}
	if len(c.tail) > 0 && (f.read(c.tail) <= target || c.first == 0) {
		i := floor(c.tail, c.size, f, target)
		if i < 0 {
			return -1, nil
		}
		copy(b, c.tail[i*c.size:(i+1)*c.size])
		return c.first + i, nil
	}
	return c.searchFile(f, target, guess, b)
}

// floor is the index in es of the last entry whose field is not above target.
func floor(es []byte, size int, f field, target int64) int {
	lo, hi := -1, len(es)/size-1
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if f.read(es[mid*size:]) <= target {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

func (c *core) searchFile(f field, target int64, guess int, b []byte) (int, error) {
	h, err := c.slot.Acquire(false)
	if err != nil {
		return -1, err
	}
	defer h.Release()
	block := blocks.Get().(*[blockBytes]byte)
	defer blocks.Put(block)
	lo, hi := 0, c.n-1 // the answer is in [lo-1, hi]
	if c.tail != nil {
		hi = c.first - 1
	}
	if per := guessBytes / c.size; guess >= 0 && hi-lo+1 > per {
		// Offsets grow about evenly, so one read mostly does for the three or four of
		// a binary search, of which a fetch used to consist more than of its records.
		from := min(max(guess-per/2, lo), hi-per+1)
		es := block[:per*c.size]
		if err := readFull(h, es, int64(from*c.size)); err != nil {
			return -1, err
		}
		i := floor(es, c.size, f, target)
		switch {
		case i < 0:
			hi = from - 1
		case i == per-1 && from+i < hi:
			lo = from + i
		default:
			copy(b, es[i*c.size:(i+1)*c.size])
			return from + i, nil
		}
	}
	for (hi-lo+1)*c.size > blockBytes {
		mid := (lo + hi) / 2
		if err := readFull(h, block[:c.size], int64(mid*c.size)); err != nil {
			return -1, err
		}
		if f.read(block[:]) <= target {
			lo = mid // kept in the range so that the last block holds the answer
		} else {
			hi = mid - 1
		}
	}
	if hi < lo {
		return -1, nil
	}
	es := block[:(hi-lo+1)*c.size]
	if err := readFull(h, es, int64(lo*c.size)); err != nil {
		return -1, err
	}
	i := floor(es, c.size, f, target)
	if i < 0 {
		return -1, nil
	}
	copy(b, es[i*c.size:(i+1)*c.size])
	return lo + i, nil
}
