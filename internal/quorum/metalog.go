package quorum

import (
	"fmt"
	"math"
	"sort"
	"sync"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/record"
)

const (
	// scanBytes is the read size when batches are scanned.
	scanBytes = 1 << 20
	// tailBytes and tailEntries bound the newest entries kept in memory, so
	// that raft gets what was just written without reading it back.
	tailBytes   = 1 << 20
	tailEntries = 512
)

// point is a place in the log: the raft index of a batch, the offset after its
// last record, and its epoch.
type point struct {
	index uint64
	end   int64
	epoch int32
}

// entryMeta describes one batch that follows base.
type entryMeta struct {
	end   int64 // offset after the last record
	epoch int32
	size  int32
}

// metaLog maps raft entries to batches of the store and back, and is raft's
// Storage.
//
// Invariants: entries are the batches that follow base, without gaps; their
// ends and epochs do not decrease; the last end is the store's end offset.
// tail holds the newest entries whole and ends with the last entry.
type metaLog struct {
	store batchStore

	mu        sync.Mutex
	base      point
	snapshot  point // newest snapshot; base.index <= snapshot.index
	entries   []entryMeta
	tail      []*raftpb.Entry
	tailBytes int
	hardState *raftpb.HardState
	confState *raftpb.ConfState
}

// openMetaLog scans what follows base. onControl is called for every control
// batch, to learn the voters.
func openMetaLog(store batchStore, base point, onControl func(record.Batch) error) (*metaLog, error) {
	l := &metaLog{store: store, base: base, snapshot: base, confState: &raftpb.ConfState{}}
	offset := base.end
	for offset < store.EndOffset() {
		data, err := store.Read(offset, scanBytes)
		if err != nil {
			return nil, fmt.Errorf("quorum: scan the log at offset %d: %w", offset, err)
		}
		next := offset
		for b, err := range record.Batches(data) {
			if err != nil {
				return nil, fmt.Errorf("quorum: scan the log at offset %d: %w", next, err)
			}
			if b.BaseOffset() != next {
				return nil, fmt.Errorf("quorum: batch at offset %d where %d is expected", b.BaseOffset(), next)
			}
			l.entries = append(l.entries, metaOf(b))
			next = b.NextOffset()
			if !b.IsControl() {
				continue
			}
			if err := onControl(b); err != nil {
				return nil, err
			}
		}
		if next == offset {
			return nil, fmt.Errorf("quorum: no batch at offset %d, the log ends at %d", offset, store.EndOffset())
		}
		offset = next
	}
	return l, nil
}

func metaOf(b record.Batch) entryMeta {
	return entryMeta{end: b.NextOffset(), epoch: b.PartitionLeaderEpoch(), size: int32(len(b))}
}

// last is the newest batch.
func (l *metaLog) last() point {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pointAt(l.lastIndexLocked())
}

func (l *metaLog) lastIndexLocked() uint64 { return l.base.index + uint64(len(l.entries)) }

// pointAt needs base.index <= index <= last index.
func (l *metaLog) pointAt(index uint64) point {
	if index == l.base.index {
		return l.base
	}
	e := l.entries[index-l.base.index-1]
	return point{index, e.end, e.epoch}
}

// endOf is the offset after the batch of an index, clamped to what is known.
func (l *metaLog) endOf(index uint64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pointAt(min(max(index, l.base.index), l.lastIndexLocked())).end
}

// boundary finds the batch that ends right before offset.
func (l *metaLog) boundary(offset int64) (point, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset == l.base.end {
		return l.base, true
	}
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].end >= offset })
	if i == len(l.entries) || l.entries[i].end != offset {
		return point{}, false
	}
	return l.pointAt(l.base.index + uint64(i) + 1), true
}

// append writes entries that are whole batches; entries from the index of the
// first one on are replaced. It does not sync.
func (l *metaLog) append(ents []*raftpb.Entry) error {
	first := ents[0].GetIndex()
	l.mu.Lock()
	lastIndex := l.lastIndexLocked()
	ok := first > l.base.index && first <= lastIndex+1
	var prev point
	if ok {
		prev = l.pointAt(first - 1)
	}
	l.mu.Unlock()
	if !ok {
		return fmt.Errorf("quorum: entry %d does not follow the log [%d, %d]", first, l.base.index, lastIndex)
	}
	if first <= lastIndex {
		if err := l.store.TruncateTo(prev.end); err != nil {
			return err
		}
		l.cut(first)
	}
	data, metas, err := joinEntries(ents, prev)
	if err != nil {
		return err
	}
	if err := l.store.Append(data); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, metas...)
	l.extendTail(ents)
	return nil
}

// joinEntries checks that entries are batches that continue the log at prev.
func joinEntries(ents []*raftpb.Entry, prev point) ([]byte, []entryMeta, error) {
	metas := make([]entryMeta, 0, len(ents))
	var data []byte
	for _, e := range ents {
		b, err := record.Parse(e.GetData())
		if err == nil && len(b) != len(e.GetData()) {
			err = record.ErrCorrupt
		}
		if err == nil {
			err = b.Verify()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("quorum: entry %d is not one batch: %w", e.GetIndex(), err)
		}
		if b.BaseOffset() != prev.end || uint64(b.PartitionLeaderEpoch()) != e.GetTerm() {
			return nil, nil, fmt.Errorf("quorum: entry %d (term %d) holds the batch at offset %d, epoch %d; offset %d is next",
				e.GetIndex(), e.GetTerm(), b.BaseOffset(), b.PartitionLeaderEpoch(), prev.end)
		}
		m := metaOf(b)
		metas = append(metas, m)
		prev = point{e.GetIndex(), m.end, m.epoch}
		if len(ents) == 1 {
			return b, metas, nil
		}
		data = append(data, b...)
	}
	return data, metas, nil
}

// cut forgets the entries from index on.
func (l *metaLog) cut(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = l.entries[:index-l.base.index-1]
	for n := len(l.tail); n > 0 && l.tail[n-1].GetIndex() >= index; n-- {
		l.tailBytes -= len(l.tail[n-1].GetData())
		l.tail = l.tail[:n-1]
	}
}

func (l *metaLog) extendTail(ents []*raftpb.Entry) {
	for _, e := range ents {
		l.tail = append(l.tail, e)
		l.tailBytes += len(e.GetData())
	}
	drop := 0
	for len(l.tail)-drop > 1 && (l.tailBytes > tailBytes || len(l.tail)-drop > tailEntries) {
		l.tailBytes -= len(l.tail[drop].GetData())
		l.tail[drop] = nil
		drop++
	}
	if drop > 0 {
		l.tail = append(make([]*raftpb.Entry, 0, len(l.tail)-drop+64), l.tail[drop:]...)
	}
}

// reset makes the log start after a snapshot that is ahead of it.
func (l *metaLog) reset(p point) error {
	if err := l.store.ResetTo(p.end); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base, l.snapshot = p, p
	l.entries, l.tail, l.tailBytes = nil, nil, 0
	return nil
}

// compact records a newer snapshot and forgets the batches up to keepFrom,
// which is at most the snapshot. The store keeps them until retention ends.
func (l *metaLog) compact(snapshot, keepFrom point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if snapshot.index > l.snapshot.index {
		l.snapshot = snapshot
	}
	if keepFrom.index <= l.base.index {
		return
	}
	l.entries = append([]entryMeta(nil), l.entries[keepFrom.index-l.base.index:]...)
	l.base = keepFrom
}

// InitialState implements raft.Storage.
func (l *metaLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hardState, l.confState, nil
}

// FirstIndex implements raft.Storage.
func (l *metaLog) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base.index + 1, nil
}

// LastIndex implements raft.Storage.
func (l *metaLog) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastIndexLocked(), nil
}

// Term implements raft.Storage.
func (l *metaLog) Term(index uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index < l.base.index {
		return 0, raft.ErrCompacted
	}
	if index > l.lastIndexLocked() {
		return 0, raft.ErrUnavailable
	}
	return uint64(l.pointAt(index).epoch), nil
}

// Entries implements raft.Storage. Old entries are read from disk.
func (l *metaLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	l.mu.Lock()
	if lo <= l.base.index {
		l.mu.Unlock()
		return nil, raft.ErrCompacted
	}
	if hi > l.lastIndexLocked()+1 {
		l.mu.Unlock()
		return nil, raft.ErrUnavailable
	}
	if len(l.tail) > 0 && lo >= l.tail[0].GetIndex() {
		at := lo - l.tail[0].GetIndex()
		out := limitEntries(l.tail[at:at+hi-lo], maxSize)
		l.mu.Unlock()
		return out, nil
	}
	from := l.pointAt(lo - 1)
	l.mu.Unlock()
	return l.readEntries(from, hi, maxSize)
}

// limitEntries copies a prefix of at most maxSize bytes, but one entry at least.
func limitEntries(ents []*raftpb.Entry, maxSize uint64) []*raftpb.Entry {
	var size uint64
	for i, e := range ents {
		size += uint64(len(e.GetData()))
		if i > 0 && size > maxSize {
			ents = ents[:i]
			break
		}
	}
	return append([]*raftpb.Entry(nil), ents...)
}

func (l *metaLog) readEntries(from point, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	var out []*raftpb.Entry
	var size uint64
	index, offset := from.index+1, from.end
	for index < hi {
		data, err := l.store.Read(offset, int(min(maxSize, scanBytes)))
		if err != nil {
			return nil, err
		}
		if len(data) == 0 {
			return nil, fmt.Errorf("quorum: nothing at offset %d (entry %d)", offset, index)
		}
		for b, err := range record.Batches(data) {
			if err != nil {
				return nil, fmt.Errorf("quorum: entry %d at offset %d: %w", index, offset, err)
			}
			size += uint64(len(b))
			if index >= hi || len(out) > 0 && size > maxSize {
				return out, nil
			}
			i, term := index, uint64(b.PartitionLeaderEpoch())
			out = append(out, &raftpb.Entry{Index: &i, Term: &term, Data: b})
			index, offset = index+1, b.NextOffset()
		}
	}
	return out, nil
}

// entry returns one whole entry.
func (l *metaLog) entry(index uint64) (*raftpb.Entry, error) {
	ents, err := l.Entries(index, index+1, math.MaxUint64)
	if err != nil {
		return nil, err
	}
	return ents[0], nil
}

// Snapshot implements raft.Storage. The data only names the file; a receiver
// reads it by FetchSnapshot.
func (l *metaLog) Snapshot() (*raftpb.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, term := l.snapshot.index, uint64(l.snapshot.epoch)
	return &raftpb.Snapshot{
		Data: appendSnapshotID(nil, SnapshotID{l.snapshot.end, l.snapshot.epoch}),
		Metadata: &raftpb.SnapshotMetadata{
			ConfState: l.confState, Index: &index, Term: &term,
		},
	}, nil
}

var _ raft.Storage = (*metaLog)(nil)
