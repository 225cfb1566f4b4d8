package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/tidemark-io/tidemark/internal/record"
)

// recover reads the folder and fills meta, snaps, voters and id.
func (n *Node) recover() (batchStore, error) {
	if _, err := n.fs.Stat(n.dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errorf("%s is missing: the folder %s is not formatted", n.dir, n.opts.Dir)
		}
		return nil, errorf("%w", err)
	}
	snaps, err := openSnapshots(n.fs, n.dir, n.log)
	if err != nil {
		return nil, err
	}
	n.snaps = snaps
	if err := n.readSnapshotVoters(); err != nil {
		return nil, err
	}
	newest := snaps.newest()
	store, err := openStore(n.opts, n.dir, newest.Offset)
	if err != nil {
		return nil, err
	}
	if err := n.recoverLog(store, newest); err != nil {
		return nil, errors.Join(err, store.Close(true))
	}
	return store, nil
}

// readSnapshotVoters takes the voters from the newest snapshot that is whole,
// the bootstrap one included.
func (n *Node) readSnapshotVoters() error {
	id, ok := n.snaps.newestAny()
	if !ok {
		return nil
	}
	r, err := n.snaps.open(id)
	if err != nil {
		return err
	}
	n.voters.apply(r.control, !id.isBootstrap())
	return r.close()
}

func (n *Node) recoverLog(store batchStore, newest SnapshotID) error {
	base, err := n.basePoint(store, newest)
	if err != nil {
		return err
	}
	reaches, err := reachesSnapshot(store, base)
	if err != nil {
		return err
	}
	if !reaches {
		// A snapshot was fetched and the node stopped before the log began
		// anew behind it (KafkaRaftLog.truncateToLatestSnapshot).
		if err := store.ResetTo(base.end); err != nil {
			return err
		}
	}
	n.meta, err = openMetaLog(store, base, func(b record.Batch) error {
		records, err := controlRecords(b)
		if err == nil {
			n.voters.apply(records, true)
		}
		return err
	})
	if err != nil {
		return err
	}
	n.durableEnd.Store(store.EndOffset())
	n.hw.Store(base.end)
	return n.restoreRaftState()
}

// reachesSnapshot reports whether the log holds the batch that the snapshot
// ends with, or begins right behind it.
func reachesSnapshot(store batchStore, base point) (bool, error) {
	switch {
	case store.EndOffset() < base.end:
		return false, nil
	case store.StartOffset() == base.end:
		return true, nil
	}
	data, err := store.Read(base.end-1, 1)
	if err != nil || len(data) == 0 {
		return false, err
	}
	b, err := record.Parse(data)
	if err != nil {
		return false, err
	}
	return b.NextOffset() == base.end && b.PartitionLeaderEpoch() == base.epoch, nil
}

// basePoint is the newest snapshot as a point of the log, with its raft index.
func (n *Node) basePoint(store batchStore, newest SnapshotID) (point, error) {
	if newest == (SnapshotID{}) {
		if store.StartOffset() != 0 {
			return point{}, errorf("the log starts at offset %d and no snapshot covers what was before", store.StartOffset())
		}
		return point{}, nil
	}
	p := point{end: newest.Offset, epoch: newest.Epoch}
	if index, ok := n.snaps.indexes[newest]; ok {
		p.index = index
		return p, nil
	}
	p.index = uint64(newest.Offset)
	if store.StartOffset() == 0 && store.EndOffset() >= newest.Offset {
		count, err := countBatches(store, newest.Offset)
		if err != nil {
			return point{}, err
		}
		p.index = count
	}
	n.log.Warn("raft index of the newest snapshot was not recorded, rebuilt it", "snapshot", newest.name(), "index", p.index)
	n.snaps.indexes[newest] = p.index
	return p, writeRaftIndexes(n.fs, n.dir, n.snaps.indexes)
}

// countBatches is the number of batches below an offset, which is the raft
// index of the last of them in a log that starts at 0.
func countBatches(store batchStore, end int64) (uint64, error) {
	var count uint64
	for offset := int64(0); offset < end; {
		data, err := store.Read(offset, scanBytes)
		if err != nil || len(data) == 0 {
			return 0, fmt.Errorf("quorum: count batches at offset %d: %w", offset, errors.Join(err, record.ErrShort))
		}
		for b, err := range record.Batches(data) {
			if err != nil {
				return 0, fmt.Errorf("quorum: count batches at offset %d: %w", offset, err)
			}
			if offset >= end {
				break
			}
			count++
			offset = b.NextOffset()
		}
	}
	return count, nil
}

func (n *Node) restoreRaftState() error {
	if len(n.voters.voters) == 0 {
		n.voters.voters = n.opts.StaticVoters
	}
	st, err := loadQuorumState(n.fs, n.dir)
	if err != nil {
		return err
	}
	dir := n.opts.DirectoryID
	if n.voters.version == 0 {
		dir = [16]byte{}
	}
	n.id = raftID(n.opts.NodeID, dir)
	if _, ok := n.voters.byRaftID(n.id); !ok {
		return errorf("node %d with directory id %s is not among the voters %v of %s",
			n.opts.NodeID, dir, voterNames(n.voters.voters), filepath.Join(n.dir))
	}
	n.meta.mu.Lock()
	defer n.meta.mu.Unlock()
	n.meta.confState = n.voters.confState()
	last := n.meta.pointAt(n.meta.lastIndexLocked())
	hs := hardState(st, &n.voters, last.epoch, n.meta.base.index)
	n.meta.hardState = hs
	n.savedLeader = -1
	if hs.GetTerm() == uint64(max(st.LeaderEpoch, 0)) {
		n.savedLeader = st.LeaderID
	}
	if hs != nil {
		n.epoch = int32(hs.GetTerm())
	}
	return nil
}

func voterNames(voters []Voter) []string {
	out := make([]string, 0, len(voters))
	for _, v := range voters {
		out = append(out, fmt.Sprintf("%d-%s", v.NodeID, v.DirectoryID))
	}
	return out
}

// loadSnapshot gives the listeners the newest snapshot before anything else.
func (n *Node) loadSnapshot() error {
	id := n.snaps.newest()
	if id.isBootstrap() {
		return nil
	}
	return n.giveSnapshot(id)
}

func (n *Node) giveSnapshot(id SnapshotID) error {
	for _, l := range n.listeners {
		r, err := n.snaps.open(id)
		if err != nil {
			return err
		}
		l.OnSnapshot(r)
		if err := r.close(); err != nil {
			return errorf("close snapshot: %w", err)
		}
	}
	return nil
}
