package quorum

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// snapshots knows the snapshot files of the folder. mu guards the fields;
// writeMu keeps two writers of files apart and is taken first.
type snapshots struct {
	fs  vfs.FS
	dir string

	writeMu sync.Mutex
	mu      sync.Mutex
	ids     []SnapshotID // in order, the bootstrap one included
	indexes map[SnapshotID]uint64
}

// openSnapshots lists the folder. A newest snapshot that is damaged is set
// aside: the log reaches back to the one before it.
func openSnapshots(fsys vfs.FS, dir string, log *slog.Logger) (*snapshots, error) {
	ids, err := listSnapshots(fsys, dir)
	if err != nil {
		return nil, err
	}
	s := &snapshots{fs: fsys, dir: dir, ids: ids}
	if s.indexes, err = readRaftIndexes(fsys, dir); err != nil {
		log.Warn("rebuilding the raft index checkpoint", "file", filepath.Join(dir, raftIndexFile), "err", err)
		s.indexes = map[SnapshotID]uint64{}
	}
	for len(s.ids) > 0 {
		id := s.ids[len(s.ids)-1]
		err := s.check(id)
		if err == nil {
			break
		}
		if !errors.Is(err, record.ErrCorrupt) && !errors.Is(err, record.ErrShort) {
			return nil, err
		}
		log.Error("snapshot is damaged, using the one before", "snapshot", id.name(), "err", err)
		if err := fsys.Rename(s.path(id), filepath.Join(dir, id.name()+corruptSuffix)); err != nil {
			return nil, errorf("set a damaged snapshot aside: %w", err)
		}
		s.ids = s.ids[:len(s.ids)-1]
	}
	return s, nil
}

func (s *snapshots) check(id SnapshotID) error {
	r, err := s.open(id)
	if err != nil {
		return err
	}
	return errors.Join(r.verify(), r.close())
}

func (s *snapshots) path(id SnapshotID) string {
	return filepath.Join(s.dir, id.name()+snapshotSuffix)
}

func (s *snapshots) open(id SnapshotID) (*SnapshotReader, error) {
	return openSnapshot(s.fs, s.path(id), id)
}

// newest is the newest snapshot with state; zero when there is none.
func (s *snapshots) newest() SnapshotID {
	id, _ := s.newestAny()
	return id
}

func (s *snapshots) newestAny() (SnapshotID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) == 0 {
		return SnapshotID{}, false
	}
	return s.ids[len(s.ids)-1], true
}

func (s *snapshots) has(id SnapshotID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.ids, id)
}

func (s *snapshots) list() []SnapshotID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

// add records the raft index of a snapshot durably, then installs its file.
func (s *snapshots) add(p point, part string) error {
	id := SnapshotID{p.end, p.epoch}
	s.mu.Lock()
	indexes := map[SnapshotID]uint64{id: p.index}
	for _, known := range s.ids {
		if i, ok := s.indexes[known]; ok {
			indexes[known] = i
		}
	}
	s.mu.Unlock()
	if err := writeRaftIndexes(s.fs, s.dir, indexes); err != nil {
		return errorf("%w", err)
	}
	if err := installSnapshot(s.fs, part, s.path(id)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes = indexes
	if !slices.Contains(s.ids, id) {
		s.ids = append(s.ids, id)
		slices.SortFunc(s.ids, SnapshotID.compare)
	}
	return nil
}

// dropBefore removes the files of snapshots older than id.
func (s *snapshots) dropBefore(id SnapshotID) error {
	s.mu.Lock()
	var old []SnapshotID
	s.ids = slices.DeleteFunc(s.ids, func(x SnapshotID) bool {
		if x.compare(id) < 0 {
			old = append(old, x)
			return true
		}
		return false
	})
	s.mu.Unlock()
	for _, x := range old {
		if err := s.fs.Remove(s.path(x)); err != nil {
			return errorf("remove snapshot: %w", err)
		}
	}
	return nil
}

// TakeSnapshot writes the image as a snapshot of the log up to and including
// im.Offset, which must be committed and the end of a batch, then deletes what
// retention allows. A snapshot that exists is not written again.
func (n *Node) TakeSnapshot(im *image.Image) (SnapshotID, error) {
	n.snaps.writeMu.Lock()
	defer n.snaps.writeMu.Unlock()
	id := SnapshotID{im.Offset + 1, im.Epoch}
	if st := n.Status(); st.Failed != nil {
		return id, st.Failed
	}
	p, err := n.snapshotPoint(id)
	if err != nil || n.snaps.has(id) {
		return id, err
	}
	lastTimestampMs, err := n.timestampAt(p)
	if err != nil {
		return id, err
	}
	n.mu.Lock()
	voters := n.voters
	n.mu.Unlock()
	part := filepath.Join(n.dir, id.name()+partSuffix)
	err = writeSnapshotFile(n.fs, part, id.Epoch, n.opts.NowMs(), snapshotContent{
		lastTimestampMs: lastTimestampMs, voters: &voters,
		records: func(yield func(recordschema.MetadataRecord) bool) { image.WriteRecords(im, yield) },
	})
	older := n.snaps.newest()
	if err == nil {
		err = n.snaps.add(p, part)
	}
	if err != nil {
		return id, errors.Join(err, n.dropPart(part))
	}
	n.compact(p, older, len(voters.voters))
	return id, n.clean()
}

// dropPart removes what a failed write left: it may hold the space that the
// log needs.
func (n *Node) dropPart(part string) error {
	if err := n.fs.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errorf("remove a partial snapshot: %w", err)
	}
	return nil
}

// snapshotPoint checks that a snapshot may be taken there
// (KafkaRaftLog.createNewSnapshot).
func (n *Node) snapshotPoint(id SnapshotID) (point, error) {
	if hw := n.hw.Load(); id.Offset <= 0 || id.Offset > hw {
		return point{}, errorf("no snapshot at offset %d, the high watermark is %d", id.Offset, hw)
	}
	p, ok := n.meta.boundary(id.Offset)
	if !ok {
		return point{}, errorf("no snapshot at offset %d: no batch ends there, or the log does not reach back to it", id.Offset)
	}
	if p.epoch != id.Epoch {
		return point{}, errorf("no snapshot at offset %d: its epoch is %d, not %d", id.Offset, p.epoch, id.Epoch)
	}
	return p, nil
}

// timestampAt is the append time of the last batch in a snapshot.
func (n *Node) timestampAt(p point) (int64, error) {
	data, err := n.meta.store.Read(p.end-1, 1)
	if err != nil || len(data) == 0 {
		return 0, errorf("read the batch before offset %d: %w", p.end, err)
	}
	b, err := record.Parse(data)
	if err != nil {
		return 0, errorf("read the batch before offset %d: %w", p.end, err)
	}
	return b.MaxTimestamp(), nil
}

// compact drops raft's memory of what the snapshot covers. With other voters
// it keeps what follows the snapshot before, for those that are a bit behind.
func (n *Node) compact(p point, older SnapshotID, voters int) {
	keep := p
	if voters > 1 {
		if q, ok := n.meta.boundary(older.Offset); ok {
			keep = q
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meta.compact(p, keep)
}

// forgetBefore makes raft forget what is about to be deleted from the store.
func (n *Node) forgetBefore(offset int64) {
	p, ok := n.meta.boundary(offset)
	if !ok {
		return // forgotten long ago
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meta.compact(p, p)
}

// clean deletes old snapshots and what only they needed of the log: the oldest
// goes while the whole is too large, or it is too old, and one stays
// (KafkaRaftLog.maybeClean).
func (n *Node) clean() error {
	ids := n.snaps.list()
	total := n.meta.store.SizeBytes()
	sizes := make([]int64, len(ids))
	stamps := make([]int64, len(ids))
	for i, id := range ids {
		r, err := n.snaps.open(id)
		if err != nil {
			return err
		}
		sizes[i], stamps[i] = r.SizeBytes, r.LastContainedLogTimestampMs
		total += r.SizeBytes
		if err := r.close(); err != nil {
			return errorf("close snapshot: %w", err)
		}
	}
	for i := 0; i+1 < len(ids); i++ {
		tooLarge := n.opts.RetentionBytes >= 0 && total > n.opts.RetentionBytes
		tooOld := n.opts.RetentionMs >= 0 && n.opts.NowMs()-stamps[i] > n.opts.RetentionMs
		if !tooLarge && !tooOld {
			return nil
		}
		logSize := n.meta.store.SizeBytes()
		n.forgetBefore(ids[i+1].Offset)
		if err := n.meta.store.DeleteBefore(ids[i+1].Offset); err != nil {
			return errorf("delete old metadata segments: %w", err)
		}
		if err := n.snaps.dropBefore(ids[i+1]); err != nil {
			return err
		}
		total -= sizes[i] + logSize - n.meta.store.SizeBytes()
	}
	return nil
}

// applySnapshot starts the log anew behind a snapshot from the leader, whose
// file is here (see receive).
func (n *Node) applySnapshot(s *raftpb.Snapshot) error {
	id, err := parseSnapshotID(s.GetData())
	if err != nil {
		return err
	}
	p := point{s.GetMetadata().GetIndex(), id.Offset, id.Epoch}
	r, err := n.snaps.open(id)
	if err != nil {
		return err
	}
	control := r.control
	if err := r.close(); err != nil {
		return errorf("close snapshot: %w", err)
	}
	if err := n.meta.reset(p); err != nil {
		return errorf("start the log at the snapshot: %w", err)
	}
	n.mu.Lock()
	n.voters.apply(control, true)
	n.broadcastLocked()
	n.mu.Unlock()
	n.durableEnd.Store(p.end)
	n.hw.Store(max(n.hw.Load(), p.end))
	n.applied = p.index
	return n.giveSnapshot(id)
}

// ReadSnapshot serves FetchSnapshot. Errors carry SNAPSHOT_NOT_FOUND,
// POSITION_OUT_OF_RANGE or KAFKA_STORAGE_ERROR.
func (n *Node) ReadSnapshot(id SnapshotID, position int64, maxBytes int) (SnapshotChunk, error) {
	if !n.snaps.has(id) || id.isBootstrap() {
		return SnapshotChunk{}, kerrors.New(kerrors.SnapshotNotFound, "no snapshot %s", id.name())
	}
	f, err := n.fs.Open(n.snaps.path(id))
	if err != nil {
		return SnapshotChunk{}, kerrors.Wrap(kerrors.SnapshotNotFound, err, "snapshot %s", id.name())
	}
	size, err := f.Size()
	if err == nil && (position < 0 || position >= size) {
		return SnapshotChunk{}, errors.Join(
			kerrors.New(kerrors.PositionOutOfRange, "position %d of a snapshot of %d bytes", position, size), f.Close())
	}
	var data []byte
	if err == nil {
		data = make([]byte, min(size-position, int64(max(maxBytes, 1))))
		_, err = f.ReadAt(data, position)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return SnapshotChunk{}, kerrors.Wrap(kerrors.KafkaStorageError, err, "read snapshot %s", id.name())
	}
	return SnapshotChunk{Data: data, TotalBytes: size}, nil
}
