package filecache

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// DefaultMaxOpen is the number of files kept open when New gets zero.
const DefaultMaxOpen = 1024

// ErrClosed says that the slot was closed for good.
var ErrClosed = errors.New("filecache: slot is closed")

// Cache keeps the files of many slots open up to a bound.
type Cache struct {
	fs  vfs.FS
	max int

	mu   sync.Mutex
	ring []*Handle // open files in clock order
	hand int
}

// New returns a cache over fs that keeps about maxOpen files open (0: DefaultMaxOpen).
func New(fs vfs.FS, maxOpen int) *Cache {
	if maxOpen <= 0 {
		maxOpen = DefaultMaxOpen
	}
	return &Cache{fs: fs, max: maxOpen}
}

// FS returns the file system the cache opens files on.
func (c *Cache) FS() vfs.FS { return c.fs }

// Open returns the number of files now open.
func (c *Cache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ring)
}

// Namer tells a slot where its file is now. Kind is the slot's own; a path may
// change (a rename) as long as the file stays the same.
type Namer interface {
	FilePath(kind uint8) string
}

// Slot is one file that is opened on demand. The zero value is not usable; set
// it up with Init. A Slot must not be copied.
type Slot struct {
	cache  *Cache
	namer  Namer
	kind   uint8
	closed bool

	mu sync.Mutex
	h  *Handle
}

// Init ties the slot to its cache and its name.
func (s *Slot) Init(c *Cache, n Namer, kind uint8) {
	s.cache, s.namer, s.kind = c, n, kind
}

// Acquire returns a reference to the open file, opening it when necessary;
// create makes a missing file. The caller owes a Release.
func (s *Slot) Acquire(create bool) (*Handle, error) {
	s.mu.Lock()
	if h := s.h; h != nil {
		h.refs.Add(1)
		h.used.Store(true)
		s.mu.Unlock()
		return h, nil
	}
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	f, err := s.cache.fs.OpenReadWrite(s.namer.FilePath(s.kind), create)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	h := &Handle{File: f, slot: s}
	h.refs.Store(2) // the cache's and the caller's
	h.used.Store(true)
	s.h = h
	s.mu.Unlock()
	s.cache.add(h)
	return h, nil
}

// Drop closes the slot's file once no reference is left; a later Acquire opens
// it again.
func (s *Slot) Drop() { s.drop(false) }

// Close is Drop for good: a later Acquire fails with ErrClosed.
func (s *Slot) Close() { s.drop(true) }

func (s *Slot) drop(forGood bool) {
	s.mu.Lock()
	h := s.h
	s.h = nil
	s.closed = s.closed || forGood
	s.mu.Unlock()
	if h != nil {
		s.cache.remove(h)
		h.Release()
	}
}

// add puts an open file under the bound, evicting idle ones (clock algorithm).
func (c *Cache) add(h *Handle) {
	var victims []*Handle
	c.mu.Lock()
	if h.gone { // dropped before it got here
		c.mu.Unlock()
		return
	}
	h.at = len(c.ring)
	c.ring = append(c.ring, h)
	for tries := 2 * len(c.ring); len(c.ring) > c.max && tries > 0; tries-- {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		v := c.ring[c.hand]
		if v == h || v.used.Swap(false) || !v.detach() {
			c.hand++
			continue
		}
		c.unlink(v)
		victims = append(victims, v)
	}
	c.mu.Unlock()
	for _, v := range victims {
		v.Release()
	}
}

// detach takes an idle handle from its slot; false when it is in use.
func (h *Handle) detach() bool {
	h.slot.mu.Lock()
	defer h.slot.mu.Unlock()
	if h.slot.h != h || h.refs.Load() != 1 {
		return false
	}
	h.slot.h = nil
	return true
}

func (c *Cache) remove(h *Handle) {
	c.mu.Lock()
	c.unlink(h)
	c.mu.Unlock()
}

// unlink removes h from the ring; the caller holds c.mu.
func (c *Cache) unlink(h *Handle) {
	if h.gone {
		return
	}
	h.gone = true
	last := len(c.ring) - 1
	if h.at > last || c.ring[h.at] != h {
		return // not added yet
	}
	c.ring[h.at] = c.ring[last]
	c.ring[h.at].at = h.at
	c.ring[last] = nil
	c.ring = c.ring[:last]
}

// Handle is a counted reference to an open file.
type Handle struct {
	vfs.File
	slot *Slot
	refs atomic.Int32
	used atomic.Bool
	gone bool // guarded by Cache.mu
	at   int  // place in the ring, guarded by Cache.mu
}

// Retain takes one more reference.
func (h *Handle) Retain() { h.refs.Add(1) }

// Release gives a reference back; the last one closes the file.
func (h *Handle) Release() {
	if n := h.refs.Add(-1); n == 0 {
		_ = h.File.Close() // what had to be durable was synced before; nothing to report to
	} else if n < 0 {
		panic("filecache: released more often than taken")
	}
}
