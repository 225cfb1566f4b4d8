package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/index"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// File name suffixes (LogFileUtils.java).
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
	TxnIndexSuffix  = ".txnindex"
	DeletedSuffix   = ".deleted"
	CleanedSuffix   = ".cleaned"
	SwapSuffix      = ".swap"
)

// Kinds of files a segment has, as filecache.Namer knows them.
const (
	kindLog uint8 = iota
	kindIndex
	kindTime
	kindTxn
)

var suffixes = [...]string{LogSuffix, IndexSuffix, TimeIndexSuffix, TxnIndexSuffix}

// ErrCorrupt marks bytes of a .log that cannot be batches.
var ErrCorrupt = errors.New("corrupt segment")

// FileName returns the name of a segment's file: the base offset in 20 digits
// and a suffix.
func FileName(base int64, suffix string) string {
	s := strconv.FormatInt(base, 10)
	return strings.Repeat("0", max(0, 20-len(s))) + s + suffix
}

// ParseName splits a file name into base offset and suffix; false when it is
// not a segment's.
func ParseName(name string) (base int64, suffix string, ok bool) {
	num, rest, found := strings.Cut(name, ".")
	if !found || len(num) != 20 {
		return 0, "", false
	}
	base, err := strconv.ParseInt(num, 10, 64)
	if err != nil || base < 0 {
		return 0, "", false
	}
	return base, "." + rest, true
}

// Folder is the partition's folder; it may be renamed under its segments.
type Folder struct{ path atomic.Pointer[string] }

// NewFolder returns a folder at path.
func NewFolder(path string) *Folder {
	f := &Folder{}
	f.Set(path)
	return f
}

// Path returns where the folder is now.
func (f *Folder) Path() string { return *f.path.Load() }

// Set says that the folder was renamed.
func (f *Folder) Set(path string) { f.path.Store(&path) }

// Options are what the segments of a log share.
type Options struct {
	Cache  *filecache.Cache
	Folder *Folder
	Logger *slog.Logger
	// IndexIntervalBytes and IndexBytes are index.interval.bytes and
	// segment.index.bytes.
	IndexIntervalBytes int
	IndexBytes         int
	// JitterMs is what this segment's segment.ms is shortened by.
	JitterMs int64
	// NowMs is when the segment was created or opened.
	NowMs int64
	// NoFiles says that the folder has no file of this segment, so that Create
	// need not look for one.
	NoFiles bool
}

// Segment is one segment. Safe for concurrent use but for what the package
// comment says.
type Segment struct {
	base     int64
	folder   *Folder
	cache    *filecache.Cache
	logger   *slog.Logger
	interval int64
	jitterMs int64

	size    atomic.Int64
	ready   atomic.Bool // indexes loaded
	deleted atomic.Bool // renamed to .deleted
	sealed  atomic.Bool // rolled: nothing is appended any more

	log     filecache.Slot
	mu      sync.RWMutex
	offsets index.Offset
	times   index.Time
	txns    index.Txn

	createdMs  int64
	firstTs    int64 // largest timestamp of the first batch; noFirst unknown
	maxTs      index.TimeEntry
	maxKnown   bool
	next       int64 // offset behind the last batch; valid once ready
	sinceEntry int64 // bytes since the last index entry
	torn       bool  // bytes behind size may be in the file
	pin        *filecache.Handle
	ahead      reservation // of whoever calls Sync, one at a time
	indexDirty bool        // sealed indexes were not synced
	txnDirty   bool        // the transaction index was not synced
	recent     []boundary
	recentAt   int
}

// boundary says where a batch starts.
type boundary struct{ offset, pos int64 }

const (
	recentLen = 32
	noFirst   = math.MinInt64
)

func newSegment(base int64, o Options) *Segment {
	s := &Segment{
		base: base, folder: o.Folder, cache: o.Cache, logger: o.Logger,
		interval: int64(o.IndexIntervalBytes), jitterMs: o.JitterMs, createdMs: o.NowMs,
		firstTs: noFirst, maxTs: index.TimeEntry{TimestampMs: -1, Offset: base},
	}
	s.log.Init(o.Cache, s, kindLog)
	s.offsets.Init(o.Cache, s, kindIndex, base, o.IndexBytes)
	s.times.Init(o.Cache, s, kindTime, base, o.IndexBytes)
	s.txns.Init(o.Cache, s, kindTxn, base)
	return s
}

// Create makes an empty segment on disk, of its .log alone: an index gets its
// file with its first entries, or when a segment with records is sealed or
// trimmed (Kafka, which makes them at once, makes missing ones anew at a start:
// LogLoader, LogSegment.sanityCheck). On error nothing is left behind. The caller
// syncs the folder.
func Create(base int64, o Options) (*Segment, error) {
	s := newSegment(base, o)
	if err := s.create(o.NoFiles); err != nil {
		s.closeSlots()
		return nil, fmt.Errorf("create segment %s: %w", s.FilePath(kindLog), errors.Join(err, s.removeFiles()))
	}
	return s, nil
}

func (s *Segment) create(noFiles bool) error {
	h, err := s.log.Acquire(true)
	if err != nil {
		return err
	}
	defer h.Release()
	if !noFiles {
		if err := s.clear(h); err != nil {
			return err
		}
	}
	s.offsets.Create()
	s.times.Create()
	s.txns.Create()
	s.maxKnown, s.next = true, s.base
	s.ready.Store(true)
	return nil
}

// clear takes away what an older segment of that name left.
func (s *Segment) clear(log *filecache.Handle) error {
	if err := log.Truncate(0); err != nil {
		return err
	}
	for _, kind := range []uint8{kindIndex, kindTime, kindTxn} {
		if err := s.cache.FS().Remove(s.FilePath(kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Open returns a segment that is on disk with sizeBytes of whole batches. It
// reads nothing.
func Open(base, sizeBytes int64, sealed bool, o Options) *Segment {
	s := newSegment(base, o)
	s.size.Store(sizeBytes)
	s.sealed.Store(sealed)
	return s
}

// FilePath implements filecache.Namer.
func (s *Segment) FilePath(kind uint8) string {
	suffix := suffixes[kind]
	if s.deleted.Load() {
		suffix += DeletedSuffix
	}
	return filepath.Join(s.folder.Path(), FileName(s.base, suffix))
}

// BaseOffset is the offset in the segment's file names.
func (s *Segment) BaseOffset() int64 { return s.base }

// Size is the number of bytes of whole batches in the .log.
func (s *Segment) Size() int64 { return s.size.Load() }

// Sealed reports whether the segment was rolled.
func (s *Segment) Sealed() bool { return s.sealed.Load() }

// Fits reports whether an offset can be stored in this segment.
func (s *Segment) Fits(offset int64) bool { return offset >= s.base && offset-s.base <= math.MaxInt32 }

// IndexFull reports whether an index has no room for another entry.
func (s *Segment) IndexFull() bool {
	if !s.ready.Load() && s.ensure() != nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.offsets.Full() || s.times.Full()
}

// WaitedForRollMs is the age that segment.ms is compared with: from the first
// batch's timestamp to that of the batch to come, or from creation to now when
// the first batch has none (LogSegment.timeWaitedForRoll).
func (s *Segment) WaitedForRollMs(nowMs, messageTs int64) (int64, error) {
	first, err := s.firstTimestamp()
	if err != nil {
		return 0, err
	}
	if first >= 0 {
		return messageTs - first, nil
	}
	return nowMs - s.createdMs, nil
}

// JitterMs is what segment.ms is shortened by.
func (s *Segment) JitterMs() int64 { return s.jitterMs }

func (s *Segment) firstTimestamp() (int64, error) {
	s.mu.RLock()
	ts := s.firstTs
	s.mu.RUnlock()
	if ts != noFirst || s.Size() == 0 {
		return max(ts, -1), nil
	}
	h, err := s.log.Acquire(false)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	w := newWalker(h, s.Size())
	defer w.close()
	b, err := w.header(0)
	if err != nil {
		return 0, s.corrupt(0, err)
	}
	s.mu.Lock()
	s.firstTs = b.MaxTimestamp()
	s.mu.Unlock()
	return b.MaxTimestamp(), nil
}

func (s *Segment) corrupt(pos int64, err error) error {
	if errors.Is(err, errNotBatch) {
		return fmt.Errorf("%w: %s at position %d: %w", ErrCorrupt, s.FilePath(kindLog), pos, err)
	}
	return err
}

// Seal finishes the segment when it is rolled: the last time entry is added, the
// indexes are written and trimmed, and the next Sync covers them. An index that cannot be written
// for lack of space is left short; it is rebuilt at its next use.
func (s *Segment) Seal() error {
	if err := s.trim(true); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed.Store(true)
	s.indexDirty = s.ready.Load()
	s.recent = nil
	return nil
}

// Trim is Seal for a segment that is closed and goes on after a restart: its
// indexes are as Kafka leaves them, but Sync does not wait for them. A segment
// without records needs none.
func (s *Segment) Trim() error { return s.trim(s.Size() > 0) }

func (s *Segment) trim(must bool) error {
	if !s.ready.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.sealLocked(must); err != nil && !vfs.IsNoSpace(err) {
		return err
	}
	return nil
}

// sealLocked writes and trims the indexes; must has both be there. s.mu is held.
func (s *Segment) sealLocked(must bool) error {
	if err := s.maxLocked(); err != nil {
		return err
	}
	if s.maxTs.TimestampMs >= 0 {
		if err := s.times.Append(s.maxTs, true); err != nil {
			return err
		}
	}
	if err := s.offsets.Seal(must); err != nil {
		return err
	}
	return s.times.Seal(must)
}

// FlushIndexes writes the entries that are only in memory, so that a restart
// after a kill finds them. It does not sync.
func (s *Segment) FlushIndexes() error {
	if !s.ready.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted.Load() {
		return nil
	}
	if err := s.offsets.Flush(); err != nil {
		return err
	}
	return s.times.Flush()
}

// Sync makes the .log durable as far as it was written when Sync began, and
// the indexes of a sealed segment. An error must not be retried.
func (s *Segment) Sync() error {
	if s.deleted.Load() {
		return nil
	}
	s.mu.Lock()
	h := s.pin
	s.pin = nil
	indexes := s.indexDirty && s.sealed.Load()
	s.mu.Unlock()
	if h != nil {
		err := h.Sync()
		if err == nil {
			s.reserve(h)
		}
		h.Release()
		if err != nil {
			return fmt.Errorf("sync %s: %w", s.FilePath(kindLog), err)
		}
	}
	if s.sealed.Load() {
		s.Unreserve()
	}
	if indexes {
		return s.syncIndexes()
	}
	_, err := s.SyncAborted()
	return err
}

// WriteOut starts to write what was appended since the last Sync, and does not
// wait for it.
func (s *Segment) WriteOut() {
	s.mu.Lock()
	h := s.pin
	if h != nil {
		h.Retain()
	}
	s.mu.Unlock()
	if h != nil {
		h.WriteOut()
		h.Release()
	}
}

// SyncAborted makes the transaction index durable and reports whether it was
// not. Unlike the other indexes nothing in the log says that an entry is
// missing, so it must be on disk before the recovery point or a producer
// snapshot passes the marker.
func (s *Segment) SyncAborted() (synced bool, err error) {
	s.mu.Lock()
	dirty := s.txnDirty
	s.txnDirty = false
	s.mu.Unlock()
	if !dirty || s.deleted.Load() {
		return false, nil
	}
	if err := s.txns.Sync(); err != nil {
		return false, fmt.Errorf("sync the transaction index of %s: %w", s.FilePath(kindLog), err)
	}
	return true, nil
}

// SyncAll makes the .log durable whether we wrote it or not, and the indexes of
// a sealed segment: after recovery.
func (s *Segment) SyncAll() error {
	h, err := s.log.Acquire(false)
	if err != nil {
		return err
	}
	err = h.Sync()
	h.Release()
	if err != nil {
		return fmt.Errorf("sync %s: %w", s.FilePath(kindLog), err)
	}
	s.mu.Lock()
	if p := s.pin; p != nil {
		s.pin = nil
		p.Release()
	}
	s.mu.Unlock()
	if !s.sealed.Load() {
		// The active segment's other indexes are proven or rebuilt at every start.
		_, err := s.SyncAborted()
		return err
	}
	return s.syncIndexes()
}

func (s *Segment) syncIndexes() error {
	for _, sync := range []func() error{s.offsets.Sync, s.times.Sync, s.txns.Sync} {
		if err := sync(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			if s.deleted.Load() {
				return nil
			}
			return fmt.Errorf("sync indexes of %s: %w", s.FilePath(kindLog), err)
		}
	}
	s.mu.Lock()
	s.indexDirty, s.txnDirty = false, false
	s.mu.Unlock()
	return nil
}

// MarkDeleted renames the files to .deleted; readers that hold a range go on.
// Nobody makes an index file meanwhile, under a name that a new segment may get.
func (s *Segment) MarkDeleted() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted.Load() {
		return nil
	}
	dir := s.folder.Path()
	for _, suffix := range suffixes {
		from := filepath.Join(dir, FileName(s.base, suffix))
		if err := s.cache.FS().Rename(from, from+DeletedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.deleted.Store(true) // the .log is first: from now on we are deleted
	}
	if p := s.pin; p != nil {
		s.pin = nil
		p.Release()
	}
	return nil
}

// Remove closes and removes the files; what is missing already is fine.
func (s *Segment) Remove() error {
	s.Close()
	return s.removeFiles()
}

func (s *Segment) removeFiles() error {
	var errs []error
	for kind := range suffixes {
		if err := s.cache.FS().Remove(s.FilePath(uint8(kind))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close closes the files for good and writes nothing: see Seal.
func (s *Segment) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pin; p != nil {
		s.pin = nil
		p.Release()
	}
	s.closeSlots()
}

func (s *Segment) closeSlots() {
	s.log.Close()
	s.offsets.Close()
	s.times.Close()
	s.txns.Close()
}
