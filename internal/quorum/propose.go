package quorum

import (
	"context"
	"errors"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// NextOffset is the base offset that the next proposal would get, and the
// epoch it would get it in. ErrNotLeader unless this node leads.
func (n *Node) NextOffset() (offset int64, epoch int32, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.leadingLocked(); err != nil {
		return 0, 0, err
	}
	return n.nextOffset, n.epoch, nil
}

func (n *Node) leadingLocked() error {
	if n.failed != nil {
		return n.failed
	}
	if !n.leading {
		return ErrNotLeader
	}
	return nil
}

// Propose appends records on the leader and returns the offset of the first
// one; record i gets base+i. It does not wait: the records are committed when
// a listener is given them, or lost when leadership is. With atomic they go
// into one batch or ErrTooLarge is returned; otherwise they are split into as
// many batches as needed. No records is an error.
func (n *Node) Propose(records []recordschema.MetadataRecord, atomic bool) (baseOffset int64, err error) {
	return n.propose(-1, records, atomic)
}

// ProposeAt is Propose for records that were computed for that base offset
// (a broker epoch is one): ErrOffsetMoved when it is not the next one.
func (n *Node) ProposeAt(offset int64, records []recordschema.MetadataRecord) error {
	_, err := n.propose(offset, records, false)
	return err
}

func (n *Node) propose(offset int64, records []recordschema.MetadataRecord, atomic bool) (base int64, err error) {
	if len(records) == 0 {
		return 0, errorf("no records to propose")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.leadingLocked(); err != nil {
		return 0, err
	}
	if offset >= 0 && offset != n.nextOffset {
		return 0, ErrOffsetMoved
	}
	base = n.nextOffset
	batches, err := encodeRecords(records, base, n.epoch, n.opts.NowMs(), atomic)
	if err != nil {
		return 0, err
	}
	ents := make([]*raftpb.Entry, len(batches))
	for i, b := range batches {
		ents[i] = &raftpb.Entry{Data: b.batch}
	}
	from := n.id
	err = n.protect(func() error {
		return n.raft.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &from, Entries: ents})
	})
	switch {
	case errors.Is(err, raft.ErrProposalDropped):
		if st := n.raft.BasicStatus(); st.RaftState != raft.StateLeader {
			return 0, ErrNotLeader
		}
		return 0, ErrBusy
	case err != nil:
		n.failed = err // raft is in no state to go on
		n.wakeLoop()
		return 0, err
	}
	n.nextOffset += int64(len(records))
	n.wakeLoop()
	return base, nil
}

// Probe proves that a write commits: on the leader it commits a NoOpRecord, on
// others it waits for the high watermark to move (the leader writes at least
// every metadata.max.idle.interval.ms). It fails with ctx.
func (n *Node) Probe(ctx context.Context) error {
	target := n.hw.Load() + 1
	for {
		base, err := n.Propose([]recordschema.MetadataRecord{&recordschema.NoOpRecord{}}, true)
		switch {
		case err == nil:
			target = base + 1
		case !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrBusy):
			return err
		}
		proposed := err == nil
		err = n.wait(ctx, func() bool {
			return n.hw.Load() >= target || errors.Is(err, ErrNotLeader) && n.isLeading()
		})
		if err != nil || proposed || n.hw.Load() >= target {
			return err
		}
	}
}

func (n *Node) isLeading() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leading
}

// wait returns when cond holds, the node failed or ctx ended.
func (n *Node) wait(ctx context.Context, cond func() bool) error {
	for {
		n.mu.Lock()
		changed, failed := n.changed, n.failed
		n.mu.Unlock()
		if cond() {
			return nil
		}
		if failed != nil {
			return failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
