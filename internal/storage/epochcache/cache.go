package epochcache

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// Undefined is what EndOffsetFor returns as epoch and offset when it has no
// answer (UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET in Kafka).
const Undefined = -1

// Entry says at which offset a leader epoch began.
type Entry = checkpoint.EpochEntry

// Cache is the epoch list of one partition with its file behind it.
type Cache struct {
	fs   vfs.FS
	path string

	// writing is held by whoever writes the file, so that an older list never
	// follows a newer one. It comes before mu.
	writing sync.Mutex

	mu      sync.RWMutex
	entries list
	dirty   bool   // memory differs from the file
	version uint64 // counts the changes of entries
	// newFrom is the lowest offset at which an entry begins that AssignNoFlush
	// added and the file does not have; math.MaxInt64 without one.
	newFrom int64
}

// New reads the cache from path, the partition's leader-epoch-checkpoint. A
// missing or empty file is an empty cache. When the file is corrupt, New
// returns an empty cache together with an error that is checkpoint.ErrCorrupt:
// the caller reports it and assigns the epochs again from the log. Any other
// error comes without a cache.
func New(fs vfs.FS, path string) (*Cache, error) {
	c := &Cache{fs: fs, path: path, newFrom: math.MaxInt64}
	entries, err := checkpoint.ReadLeaderEpochs(fs, path)
	if errors.Is(err, checkpoint.ErrCorrupt) {
		c.dirty = true
		return c, err
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		c.entries.assign(e)
	}
	c.dirty = len(c.entries) != len(entries)
	return c, nil
}

// Assign records that epoch begins at startOffset and returns once the file
// says so. An epoch that is already the latest keeps its offset unless the new
// one is lower; older entries that contradict the new one are removed. It
// reports whether anything changed. After an error the memory holds the entry
// but the file may not: the caller must not acknowledge what depends on it.
func (c *Cache) Assign(epoch int32, startOffset int64) (changed bool, err error) {
	return c.AssignAll([]Entry{{Epoch: epoch, StartOffset: startOffset}})
}

// AssignAll is Assign for several entries in order, with one write.
func (c *Cache) AssignAll(entries []Entry) (changed bool, err error) {
	for _, e := range entries {
		if e.Epoch < 0 || e.StartOffset < 0 {
			return false, fmt.Errorf("leader epoch %d at offset %d: neither may be negative", e.Epoch, e.StartOffset)
		}
	}
	if !c.wouldChange(entries) {
		return false, nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		changed = c.entries.assign(e) || changed
	}
	if !changed {
		return false, nil
	}
	c.changed()
	return true, c.writeLocked()
}

// AssignNoFlush is Assign without the write. The batches of the log say the same
// as the entry, so until the recovery point passes startOffset a crash loses
// nothing: FlushBelow must come before that.
func (c *Cache) AssignNoFlush(epoch int32, startOffset int64) (changed bool) {
	if epoch < 0 || startOffset < 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.entries.assign(Entry{Epoch: epoch, StartOffset: startOffset})
	if changed {
		c.changed()
		c.newFrom = min(c.newFrom, startOffset)
	}
	return changed
}

// changed notes that entries differ from the file; c.mu is held.
func (c *Cache) changed() {
	c.dirty = true
	c.version++
}

// wouldChange keeps the common case, an append within the current epoch, off
// the write lock.
func (c *Cache) wouldChange(entries []Entry) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range entries {
		if c.entries.needs(e) {
			return true
		}
	}
	return false
}

// TruncateFromEnd removes the entries that begin at or after endOffset and
// reports whether there were any; if so it returns once the file says so. It
// must not wait: were the log to grow past such an offset again within an older
// epoch and then crash, the stale entry would come back as a lie about records
// it never had. After an error the memory is right and the file is not; the
// caller appends nothing until Flush succeeds.
func (c *Cache) TruncateFromEnd(endOffset int64) (changed bool, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.entries.truncateFromEnd(endOffset) {
		return false, nil
	}
	c.changed()
	return true, c.writeLocked()
}

// TruncateFromStart removes the entries before startOffset, keeps the epoch
// that covers it, and lets that one begin at startOffset. The file follows at
// the next Flush or Assign: one that is behind is cut again at the next load.
func (c *Cache) TruncateFromStart(startOffset int64) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed = c.entries.truncateFromStart(startOffset); changed {
		c.changed()
	}
	return changed
}

// Clear removes every entry; the file follows at the next Flush or Assign.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) > 0 {
		c.changed()
	}
	c.entries = nil
}

// Flush writes the file if it differs from memory.
func (c *Cache) Flush() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil
	}
	return c.writeLocked()
}

// FlushBelow writes the file if it lacks an entry of AssignNoFlush that begins
// below offset: an entry without a record needs no file. Readers and assignments
// do not wait for the disk meanwhile.
func (c *Cache) FlushBelow(offset int64) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.RLock()
	entries, path, version, due := slices.Clone(c.entries), c.path, c.version, c.newFrom < offset
	c.mu.RUnlock()
	if !due {
		return nil
	}
	if err := checkpoint.WriteLeaderEpochs(c.fs, path, entries); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		c.dirty, c.newFrom = false, math.MaxInt64
	}
	return nil
}

// UnflushedFrom is the lowest offset at which an entry of AssignNoFlush begins
// that the file lacks; math.MaxInt64 when it has all.
func (c *Cache) UnflushedFrom() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.newFrom
}

// SetPath tells the cache that its folder was renamed; nothing is written.
func (c *Cache) SetPath(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path = path
}

func (c *Cache) writeLocked() error {
	if err := checkpoint.WriteLeaderEpochs(c.fs, c.path, c.entries); err != nil {
		return err
	}
	c.dirty, c.newFrom = false, math.MaxInt64
	return nil
}

// EndOffsetFor answers OffsetForLeaderEpoch (KIP-279): the largest known epoch
// not above the requested one, and the offset where the next epoch begins, or
// logEnd when it is the latest. An epoch below all known ones is answered with
// itself and the start of the first; an epoch above all, or -1, with Undefined.
func (c *Cache) EndOffsetFor(epoch int32, logEnd int64) (int32, int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries.endOffsetFor(epoch, logEnd)
}

// EpochForOffset returns the epoch that wrote offset; false when offset lies
// before the first entry or there is none.
func (c *Cache) EpochForOffset(offset int64) (int32, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries.epochForOffset(offset)
}

// Latest returns the newest entry.
func (c *Cache) Latest() (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries.latest()
}

// LatestEpoch returns the newest epoch, or Undefined.
func (c *Cache) LatestEpoch() int32 {
	if e, ok := c.Latest(); ok {
		return e.Epoch
	}
	return Undefined
}

// Earliest returns the oldest entry.
func (c *Cache) Earliest() (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.entries) == 0 {
		return Entry{}, false
	}
	return c.entries[0], true
}

// Previous returns the newest entry with an epoch below epoch.
func (c *Cache) Previous(epoch int32) (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i := c.entries.ceiling(epoch)
	if i == 0 {
		return Entry{}, false
	}
	return c.entries[i-1], true
}

// Get returns the entry of exactly epoch.
func (c *Cache) Get(epoch int32) (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i := c.entries.ceiling(epoch)
	if i == len(c.entries) || c.entries[i].Epoch != epoch {
		return Entry{}, false
	}
	return c.entries[i], true
}

// Entries returns a copy of all entries, oldest first.
func (c *Cache) Entries() []Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]Entry(nil), c.entries...)
}

// EntriesInRange returns what a log of [startOffset, endOffset) would know.
func (c *Cache) EntriesInRange(startOffset, endOffset int64) []Entry {
	l := list(c.Entries())
	if startOffset >= 0 {
		l.truncateFromStart(startOffset)
	}
	l.truncateFromEnd(endOffset)
	return l
}
