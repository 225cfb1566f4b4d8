package quorum

import (
	"errors"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// noSpaceRetry is the wait between two tries while the disk is full.
const noSpaceRetry = 200 * time.Millisecond

// processReady does what raft asks for until it asks for nothing: persist,
// then send, then apply. There is one fsync of the log per Ready.
func (n *Node) processReady() error {
	for {
		rd, st, ok, err := n.ready()
		if err != nil || !ok {
			return err
		}
		if err := n.handleReady(rd, st); err != nil {
			return err
		}
		n.withRaft(func(r *raft.RawNode) { r.Advance(rd) })
	}
}

func (n *Node) ready() (rd raft.Ready, st raft.BasicStatus, ok bool, err error) {
	n.withRaft(func(r *raft.RawNode) {
		if err = n.failed; err != nil || !r.HasReady() {
			return
		}
		rd, st, ok = r.Ready(), r.BasicStatus(), true
	})
	return rd, st, ok, err
}

// withRaft runs f under mu, which is given back even when raft panics.
func (n *Node) withRaft(f func(*raft.RawNode)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.raft)
}

func (n *Node) handleReady(rd raft.Ready, st raft.BasicStatus) error {
	n.noteLeadershipLoss(st)
	if !raft.IsEmptyHardState(rd.HardState) || rd.SoftState != nil {
		if err := n.persistHardState(st.HardState, st); err != nil {
			return err
		}
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := n.applySnapshot(rd.Snapshot); err != nil {
			return err
		}
	}
	if len(rd.Entries) > 0 {
		if err := n.persistEntries(rd.Entries, st); err != nil {
			return err
		}
	}
	if err := n.send(rd.Messages); err != nil {
		return err
	}
	return n.commit(rd.CommittedEntries, st)
}

// persistHardState writes quorum-state when term, vote or leader changed since
// it was written; what is committed is not kept. raft has no use for the
// leader there, but a Kafka node on this folder does: without it, it would
// lead the same epoch a second time. The only voter wins whatever it stands
// for, so it writes itself down with its vote and saves a second write.
func (n *Node) persistHardState(hs *raftpb.HardState, st raft.BasicStatus) error {
	n.mu.Lock()
	voters := n.voters
	n.mu.Unlock()
	lead := st.Lead
	if len(voters.voters) == 1 && hs.GetVote() == n.id {
		lead = n.id
	}
	leader := int32(-1)
	if v, ok := voters.byRaftID(lead); ok {
		leader = v.NodeID
	}
	n.meta.mu.Lock()
	old := n.meta.hardState
	n.meta.mu.Unlock()
	sameTerm := old != nil && old.GetTerm() == hs.GetTerm()
	if sameTerm && leader < 0 {
		leader = n.savedLeader // an epoch has one leader, lost from sight or not
	}
	if hs.GetTerm() == 0 || sameTerm && old.GetVote() == hs.GetVote() && leader == n.savedLeader {
		return nil
	}
	err := n.untilSpace("quorum-state", func() error { return saveHardState(n.fs, n.dir, hs, leader, &voters) })
	if err != nil {
		return errorf("persist quorum-state: %w", err)
	}
	n.savedLeader = leader
	n.meta.mu.Lock()
	n.meta.hardState = hs
	n.meta.mu.Unlock()
	return nil
}

// untilSpace runs a write again for as long as the disk is full. Until it
// succeeds nothing is sent, acknowledged or committed. Only a write is tried
// again, never a sync: what f wrote before it failed was cut off or is skipped
// by the next try.
func (n *Node) untilSpace(what string, f func() error) error {
	for tries := 0; ; tries++ {
		err := f()
		if !vfs.IsNoSpace(err) || errors.Is(err, errSync) {
			if err == nil && tries > 0 {
				n.log.Info("there is space again for the metadata", "file", what)
			}
			return err
		}
		if tries == 0 {
			n.log.Error("the disk is full: metadata cannot be written until there is space", "file", what, "err", err)
		}
		t := time.NewTimer(noSpaceRetry)
		select {
		case <-t.C:
		case <-n.stop:
			t.Stop()
			return ErrClosed
		}
	}
}

func (n *Node) persistEntries(ents []*raftpb.Entry, st raft.BasicStatus) error {
	ents, err := n.materialize(ents, st)
	if err != nil {
		return err
	}
	if err := n.untilSpace("metadata log", func() error { return n.meta.append(ents) }); err != nil {
		return errorf("append to the metadata log: %w", err)
	}
	start := time.Now()
	if err := n.meta.store.Sync(); err != nil {
		return errorf("fsync the metadata log: %w", err)
	}
	if n.opts.OnSync != nil {
		n.opts.OnSync(time.Since(start))
	}
	if err := n.learnVoters(ents); err != nil {
		return err
	}
	n.durableEnd.Store(n.meta.store.EndOffset())
	n.mu.Lock()
	n.broadcastLocked()
	n.mu.Unlock()
	return nil
}

// materialize turns the empty entry with which raft starts a term into the
// LeaderChange batch. Only the leader has such entries: it sends them as
// batches (see fillEntries).
func (n *Node) materialize(ents []*raftpb.Entry, st raft.BasicStatus) ([]*raftpb.Entry, error) {
	for i, e := range ents {
		if len(e.GetData()) > 0 {
			continue
		}
		base := n.meta.endOf(ents[0].GetIndex() - 1)
		if i > 0 {
			base = record.Batch(ents[i-1].GetData()).NextOffset()
		}
		b, err := n.leaderChange(base, int32(e.GetTerm()), st)
		if err != nil {
			return nil, err
		}
		index, term := e.GetIndex(), e.GetTerm()
		ents = slices.Clone(ents)
		ents[i] = &raftpb.Entry{Index: &index, Term: &term, Data: b}
	}
	return ents, nil
}

// leaderChange builds the first batch of an epoch
// (LeaderState.appendStartOfEpochControlRecords).
func (n *Node) leaderChange(base int64, epoch int32, st raft.BasicStatus) (record.Batch, error) {
	n.mu.Lock()
	set := n.voters
	granted := make([]Voter, 0, len(set.voters))
	for _, v := range set.voters {
		if v.raftID() == n.id || n.granted[v.raftID()] {
			granted = append(granted, v)
		}
	}
	n.mu.Unlock()
	msg := &recordschema.LeaderChangeMessage{
		LeaderID: n.opts.NodeID,
		Voters:   leaderChangeVoters(set.voters), GrantingVoters: leaderChangeVoters(granted),
	}
	records := []recordschema.ControlRecord{msg}
	if set.version > 0 {
		voters, changed := withEndpoints(set.voters, n.id, n.opts.Endpoints)
		if changed || !set.inLog {
			records = append(records, &recordschema.KRaftVersionRecord{KRaftVersion: set.version}, votersRecord(voters))
		}
	}
	return encodeControl(base, epoch, n.opts.NowMs(), records...)
}

// learnVoters takes over voter sets that were appended: they are in force from
// then on (KIP-853).
func (n *Node) learnVoters(ents []*raftpb.Entry) error {
	for _, e := range ents {
		b := record.Batch(e.GetData())
		if !b.IsControl() {
			continue
		}
		records, err := controlRecords(b)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.voters.apply(records, true)
		n.mu.Unlock()
	}
	return nil
}

// commit gives committed entries to the listeners and moves the high watermark.
func (n *Node) commit(ents []*raftpb.Entry, st raft.BasicStatus) error {
	hw := n.meta.endOf(st.GetCommit())
	if hw > n.hw.Load() {
		n.hw.Store(hw)
		n.mu.Lock()
		n.broadcastLocked()
		n.mu.Unlock()
	}
	c := Committed{HighWatermark: hw}
	started := false // our LeaderChange batch is among them
	for _, e := range ents {
		if e.GetIndex() <= n.applied {
			continue
		}
		b, err := n.batchOf(e)
		if err != nil {
			return err
		}
		d, err := decodeBatch(b)
		if err != nil {
			return err
		}
		c.Batches = append(c.Batches, d)
		n.applied = e.GetIndex()
		started = started || d.Control && st.RaftState == raft.StateLeader && e.GetTerm() == st.GetTerm()
	}
	if len(c.Batches) > 0 {
		for _, l := range n.listeners {
			l.OnCommitted(c)
		}
	}
	n.noteLeader(st, started)
	return nil
}

// batchOf returns the bytes of an entry; those of an empty entry are on disk.
func (n *Node) batchOf(e *raftpb.Entry) (record.Batch, error) {
	if len(e.GetData()) == 0 {
		stored, err := n.meta.entry(e.GetIndex())
		if err != nil {
			return nil, errorf("read entry %d: %w", e.GetIndex(), err)
		}
		e = stored
	}
	return record.Batch(e.GetData()), nil
}

// noteLeadershipLoss tells the listeners before they see anything that a new
// leader wrote: offsets that were promised may have other content now.
func (n *Node) noteLeadershipLoss(st raft.BasicStatus) {
	n.mu.Lock()
	lost := n.leading && (st.RaftState != raft.StateLeader || int32(st.GetTerm()) != n.epoch)
	if lost {
		n.leading = false
	}
	n.mu.Unlock()
	if lost {
		n.noteLeader(st, false)
	}
}

// noteLeader publishes a change of leader or epoch. started says that this
// node's own LeaderChange batch was just delivered: now it may propose.
func (n *Node) noteLeader(st raft.BasicStatus, started bool) {
	n.mu.Lock()
	epoch, lead := int32(st.GetTerm()), st.Lead
	if lead == n.id && !started && !n.leading {
		lead = 0 // not before the epoch has begun
	}
	if epoch == n.epoch && lead == n.leader && !started {
		n.mu.Unlock()
		return
	}
	n.epoch, n.leader = epoch, lead
	out := Leadership{Epoch: epoch, LeaderID: -1}
	if v, ok := n.voters.byRaftID(lead); ok {
		out.LeaderID = v.NodeID
	}
	if started {
		n.leading = true
		n.nextOffset = n.meta.last().end
		out.IsSelf, out.StartOffset = true, n.nextOffset
	}
	n.broadcastLocked()
	n.mu.Unlock()
	for _, l := range n.listeners {
		l.OnLeadership(out)
	}
}
