package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/epochcache"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

const (
	indexIntervalBytes = 4096
	// indexBytes bounds an index file: entries for 512 MiB of log. Kafka
	// preallocates 10 MiB; readers do not care.
	indexBytes = 1 << 20
	// partitionMetadataFile holds the topic id (PartitionMetadataFile).
	partitionMetadataFile = "partition.metadata"
)

// segmentStore is a batchStore over the segments of storage/segment: the same
// files as every partition, without producers, time retention and the commit
// loop, which the metadata log has no use for.
//
// writeMu keeps what changes the list of segments or their ends apart; mu
// guards the list itself and is a leaf.
type segmentStore struct {
	fs     vfs.FS
	dir    string
	opts   Options
	cache  *filecache.Cache
	folder *segment.Folder
	epochs *epochcache.Cache
	logger *slog.Logger

	writeMu sync.Mutex
	mu      sync.RWMutex
	segs    []*segment.Segment // never empty, the last one is active
	start   atomic.Int64
	end     atomic.Int64
}

var _ batchStore = (*segmentStore)(nil)

// errSync marks a failed sync inside an append: even one for lack of space must
// not be tried again.
var errSync = errors.New("sync failed")

// openStore opens the log. What lies below recoveryPoint is known to be whole;
// from there on every batch is checked and the log cut behind the last good
// one. Everything is durable on return. A log that is not there begins at
// recoveryPoint.
func openStore(o Options, dir string, recoveryPoint int64) (batchStore, error) {
	s := &segmentStore{
		fs: o.FS, dir: dir, opts: o, logger: o.Logger,
		cache: filecache.New(o.FS, 0), folder: segment.NewFolder(dir),
	}
	if err := s.writePartitionMetadata(); err != nil {
		return nil, err
	}
	var err error
	if s.epochs, err = epochcache.New(o.FS, filepath.Join(dir, checkpoint.LeaderEpochFile)); err != nil {
		s.logger.Warn("rebuilding the leader epoch checkpoint of the metadata log", "err", err)
		if s.epochs, err = s.freshEpochs(); err != nil {
			return nil, err
		}
	}
	bases, err := s.listSegments()
	if err != nil {
		return nil, err
	}
	if len(bases) == 0 {
		err = s.beginAt(recoveryPoint)
	} else {
		err = s.load(bases, recoveryPoint)
	}
	if err != nil {
		s.closeFiles()
		return nil, fmt.Errorf("quorum: open the metadata log: %w", err)
	}
	return s, nil
}

func (s *segmentStore) freshEpochs() (*epochcache.Cache, error) {
	path := filepath.Join(s.dir, checkpoint.LeaderEpochFile)
	if err := s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errorf("remove %s: %w", path, err)
	}
	c, err := epochcache.New(s.fs, path)
	if err != nil {
		return nil, errorf("%w", err)
	}
	return c, nil
}

func (s *segmentStore) writePartitionMetadata() error {
	path := filepath.Join(s.dir, partitionMetadataFile)
	if _, err := s.fs.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return checkpoint.WriteFile(s.fs, path, []byte("version: 0\ntopic_id: "+types.MetadataTopicID.String()))
}

// listSegments returns the base offsets of the segments in order and removes
// what an interrupted deletion left.
func (s *segmentStore) listSegments() ([]int64, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, errorf("list %s: %w", s.dir, err)
	}
	var bases []int64
	for _, n := range names {
		base, suffix, ok := segment.ParseName(n)
		switch {
		case !ok:
		case suffix == segment.LogSuffix:
			bases = append(bases, base)
		case strings.HasSuffix(suffix, segment.DeletedSuffix):
			if err := s.fs.Remove(filepath.Join(s.dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, errorf("remove leftover: %w", err)
			}
		}
	}
	slices.Sort(bases)
	return bases, nil
}

func (s *segmentStore) segmentOptions() segment.Options {
	return segment.Options{
		Cache: s.cache, Folder: s.folder, Logger: s.logger,
		IndexIntervalBytes: indexIntervalBytes, IndexBytes: indexBytes, NowMs: s.opts.NowMs(),
	}
}

// load opens the segments and recovers those that reach beyond the recovery
// point. A segment that does not follow the one before is dropped with all
// behind it: it was written before a truncation or after a hole.
func (s *segmentStore) load(bases []int64, recoveryPoint int64) error {
	s.start.Store(bases[0])
	end := bases[0]
	for i, base := range bases {
		last := i == len(bases)-1
		if base != end {
			s.logger.Warn("dropping metadata log segments behind a gap", "expected", end, "found", base, "segments", len(bases)-i)
			if err := s.dropFiles(bases[i:]); err != nil {
				return err
			}
			break
		}
		if !last && bases[i+1] <= recoveryPoint {
			size, err := s.fileSize(base)
			if err != nil {
				return err
			}
			s.segs = append(s.segs, segment.Open(base, size, true, s.segmentOptions()))
			end = bases[i+1]
			continue
		}
		next, err := s.recoverSegment(base, recoveryPoint)
		if err != nil {
			return err
		}
		end = next
	}
	s.end.Store(end)
	if _, err := s.epochs.TruncateFromEnd(end); err != nil {
		return err
	}
	s.epochs.TruncateFromStart(s.start.Load())
	if err := s.epochs.Flush(); err != nil {
		return err
	}
	s.active().Unseal()
	return s.fs.SyncDir(s.dir)
}

func (s *segmentStore) fileSize(base int64) (int64, error) {
	st, err := s.fs.Stat(filepath.Join(s.dir, segment.FileName(base, segment.LogSuffix)))
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (s *segmentStore) recoverSegment(base, recoveryPoint int64) (next int64, err error) {
	seg := segment.Open(base, 0, false, s.segmentOptions())
	s.segs = append(s.segs, seg)
	latest := s.epochs.LatestEpoch()
	r, err := seg.Recover(recoveryPoint, func(b record.Batch) {
		if e := b.PartitionLeaderEpoch(); e > latest {
			s.epochs.AssignNoFlush(e, b.BaseOffset())
			latest = e
		}
	})
	if err != nil {
		return 0, err
	}
	if r.TruncatedBytes > 0 {
		s.logger.Warn("cut the end of the metadata log", "segment", base, "bytes", r.TruncatedBytes, "end", r.NextOffset, "reason", r.Reason)
	}
	// What a killed process wrote may be in the page cache only; from now on
	// it counts as durable.
	return r.NextOffset, seg.SyncAll()
}

func (s *segmentStore) dropFiles(bases []int64) error {
	for _, base := range bases {
		if err := segment.Open(base, 0, true, s.segmentOptions()).Remove(); err != nil {
			return err
		}
	}
	return nil
}

// beginAt makes the log empty, with its first segment at offset.
func (s *segmentStore) beginAt(offset int64) error {
	seg, err := segment.Create(offset, s.segmentOptions())
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.segs = []*segment.Segment{seg}
	s.mu.Unlock()
	s.start.Store(offset)
	s.end.Store(offset)
	if err := seg.SyncAll(); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

func (s *segmentStore) active() *segment.Segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.segs[len(s.segs)-1]
}

func (s *segmentStore) list() []*segment.Segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.segs)
}

// StartOffset implements batchStore.
func (s *segmentStore) StartOffset() int64 { return s.start.Load() }

// EndOffset implements batchStore.
func (s *segmentStore) EndOffset() int64 { return s.end.Load() }

// SizeBytes implements batchStore.
func (s *segmentStore) SizeBytes() int64 {
	var n int64
	for _, seg := range s.list() {
		n += seg.Size()
	}
	return n
}

// EndOffsetForEpoch implements batchStore.
func (s *segmentStore) EndOffsetForEpoch(epoch int32) (int32, int64) {
	return s.epochs.EndOffsetFor(epoch, s.EndOffset())
}

// Append implements batchStore. Batches that an earlier try of the same append
// wrote are skipped.
func (s *segmentStore) Append(batches []byte) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	for b, err := range record.Batches(batches) {
		if err != nil || b.NextOffset() > s.EndOffset() {
			break
		}
		batches = batches[len(b):]
	}
	if err := s.noteEpochs(batches); err != nil {
		return err
	}
	for len(batches) > 0 {
		seg := s.active()
		set, last := s.fitting(seg, batches)
		if len(set) == 0 {
			if err := s.roll(); err != nil {
				return err
			}
			continue
		}
		if err := seg.Append(set); err != nil {
			return err
		}
		s.end.Store(last.NextOffset())
		batches = batches[len(set):]
	}
	return nil
}

// fitting is the longest run of batches that belongs into the segment, and the
// last batch of it; an empty segment takes at least one.
func (s *segmentStore) fitting(seg *segment.Segment, batches []byte) ([]byte, record.Batch) {
	size, n := seg.Size(), 0
	var last record.Batch
	for b, err := range record.Batches(batches) {
		if err != nil {
			break
		}
		full := size+int64(n+len(b)) > s.opts.SegmentBytes || !seg.Fits(b.LastOffset()) ||
			n == 0 && (seg.IndexFull() || s.tooOld(seg, b))
		if full && (size > 0 || n > 0) {
			break
		}
		n, last = n+len(b), b
	}
	return batches[:n], last
}

func (s *segmentStore) tooOld(seg *segment.Segment, b record.Batch) bool {
	if s.opts.SegmentMs <= 0 {
		return false
	}
	ageMs, err := seg.WaitedForRollMs(s.opts.NowMs(), b.MaxTimestamp())
	return err == nil && ageMs > s.opts.SegmentMs
}

// roll closes the active segment durably and starts the next one.
func (s *segmentStore) roll() error {
	old := s.active()
	if !old.Sealed() { // else an earlier try ended for lack of space
		if err := old.Seal(); err != nil {
			return err
		}
		if err := old.Sync(); err != nil {
			return fmt.Errorf("%w: %w", errSync, err)
		}
	}
	seg, err := segment.Create(s.EndOffset(), s.segmentOptions())
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.segs = append(s.segs, seg)
	s.mu.Unlock()
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("%w: %w", errSync, err)
	}
	return nil
}

// noteEpochs writes the epoch file before the first batch of an epoch. An
// entry without its batch is dropped by the next start.
func (s *segmentStore) noteEpochs(batches []byte) error {
	latest := s.epochs.LatestEpoch()
	var fresh []epochcache.Entry
	for b, err := range record.Batches(batches) {
		if err != nil {
			return err
		}
		if e := b.PartitionLeaderEpoch(); e > latest {
			fresh = append(fresh, epochcache.Entry{Epoch: e, StartOffset: b.BaseOffset()})
			latest = e
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	_, err := s.epochs.AssignAll(fresh)
	return err
}

// Sync implements batchStore. Older segments were synced when they were rolled.
func (s *segmentStore) Sync() error { return s.active().Sync() }

// Read implements batchStore.
func (s *segmentStore) Read(offset int64, maxBytes int) ([]byte, error) {
	if offset < s.StartOffset() || offset >= s.EndOffset() {
		return nil, nil
	}
	segs := s.list()
	i := len(segs) - 1
	for i > 0 && segs[i].BaseOffset() > offset {
		i--
	}
	for ; i < len(segs); i++ {
		r, ok, err := segs[i].Read(offset, maxBytes, segs[i].Size(), true)
		if err != nil {
			return nil, err
		}
		if !ok || r.File == nil {
			continue
		}
		data := make([]byte, r.Len)
		_, err = r.File.ReadAt(data, r.Pos)
		r.File.Release()
		if err != nil {
			return nil, err
		}
		return wholeBatches(data), nil
	}
	return nil, nil
}

// wholeBatches cuts a partial batch off the end.
func wholeBatches(data []byte) []byte {
	n := 0
	for b, err := range record.Batches(data) {
		if err != nil {
			break
		}
		n += len(b)
	}
	return data[:n]
}

// TruncateTo implements batchStore.
func (s *segmentStore) TruncateTo(offset int64) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if offset >= s.EndOffset() {
		return nil
	}
	if offset < s.StartOffset() {
		return errorf("truncate to offset %d, the log starts at %d", offset, s.StartOffset())
	}
	for segs := s.list(); len(segs) > 1 && segs[len(segs)-1].BaseOffset() >= offset; segs = segs[:len(segs)-1] {
		s.mu.Lock()
		s.segs = slices.Clone(segs[:len(segs)-1])
		s.mu.Unlock()
		if err := segs[len(segs)-1].Remove(); err != nil {
			return err
		}
	}
	seg := s.active()
	if err := seg.TruncateTo(offset); err != nil {
		return err
	}
	seg.Unseal()
	s.end.Store(offset)
	if _, err := s.epochs.TruncateFromEnd(offset); err != nil {
		return err
	}
	if err := seg.Sync(); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

// ResetTo implements batchStore.
func (s *segmentStore) ResetTo(offset int64) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	for _, seg := range s.list() {
		if err := seg.Remove(); err != nil {
			return err
		}
	}
	s.epochs.Clear()
	if err := s.epochs.Flush(); err != nil {
		return err
	}
	return s.beginAt(offset)
}

// DeleteBefore implements batchStore. The active segment stays.
func (s *segmentStore) DeleteBefore(offset int64) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if offset <= s.StartOffset() {
		return nil
	}
	s.start.Store(min(offset, s.EndOffset()))
	for segs := s.list(); len(segs) > 1 && segs[1].BaseOffset() <= offset; segs = segs[1:] {
		s.mu.Lock()
		s.segs = slices.Clone(segs[1:])
		s.mu.Unlock()
		if err := segs[0].MarkDeleted(); err != nil {
			return err
		}
		if err := segs[0].Remove(); err != nil {
			return err
		}
	}
	s.epochs.TruncateFromStart(s.StartOffset())
	return errors.Join(s.epochs.Flush(), s.active().FlushIndexes())
}

// Close implements batchStore.
func (s *segmentStore) Close(abandon bool) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if abandon {
		s.closeFiles()
		return nil
	}
	seg := s.active()
	err := seg.Seal()
	if err == nil {
		err = seg.SyncAll()
	}
	s.closeFiles()
	return err
}

func (s *segmentStore) closeFiles() {
	for _, seg := range s.list() {
		seg.Close()
	}
}
