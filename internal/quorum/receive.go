package quorum

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/record"
)

// snapshotChunkBytes is controller.quorum.fetch.snapshot.max.bytes.
const snapshotChunkBytes = 1 << 20

// maxSnapshotBytes bounds a snapshot that another voter offers.
const maxSnapshotBytes = 16 << 30

// Step takes a message of another voter, from the Transport. It waits while
// the inbox is full.
func (n *Node) Step(ctx context.Context, m *raftpb.Message) error {
	return n.deliver(ctx, inMessage{m: m})
}

func (n *Node) deliver(ctx context.Context, in inMessage) error {
	select {
	case n.inbox <- in:
		return nil
	case <-n.done:
		return ErrClosed
	case <-n.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// receive gives one message to raft. Loop only.
func (n *Node) receive(in inMessage) {
	m := in.m
	if m.GetType() == raftpb.MsgSnap && !in.haveSnapshot {
		n.fetchSnapshot(m)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heardMs[m.GetFrom()] = n.opts.NowMs()
	term := n.raft.BasicStatus().GetTerm()
	if err := n.raft.Step(m); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {
		n.log.Debug("raft message refused", "type", m.GetType(), "err", err)
	}
	if now := n.raft.BasicStatus().GetTerm(); now != term {
		clear(n.granted)
	}
	if m.GetType() == raftpb.MsgVoteResp && !m.GetReject() {
		n.granted[m.GetFrom()] = true
	}
}

// send fills entries that raft holds empty and passes messages on.
func (n *Node) send(msgs []*raftpb.Message) error {
	for _, m := range msgs {
		n.mu.Lock()
		to, ok := n.voters.byRaftID(m.GetTo())
		n.mu.Unlock()
		if !ok || n.opts.Transport == nil {
			continue
		}
		m, err := n.fillEntries(m)
		if err != nil {
			return err
		}
		n.opts.Transport.Send(to, m)
		if m.GetType() == raftpb.MsgSnap {
			// The receiver reads the file itself and asks again if that
			// fails; raft need not pause for it.
			n.withRaft(func(r *raft.RawNode) { r.ReportSnapshot(m.GetTo(), raft.SnapshotFinish) })
		}
	}
	return nil
}

// fillEntries replaces empty entries by the batches that were written for
// them, so that every voter stores the same bytes.
func (n *Node) fillEntries(m *raftpb.Message) (*raftpb.Message, error) {
	cloned := false
	for i, e := range m.GetEntries() {
		if len(e.GetData()) > 0 {
			continue
		}
		stored, err := n.meta.entry(e.GetIndex())
		if err != nil {
			return nil, errorf("read entry %d: %w", e.GetIndex(), err)
		}
		if !cloned {
			m, cloned = cloneMessage(m), true
		}
		m.Entries[i] = stored
	}
	return m, nil
}

// cloneMessage copies what fillEntries changes.
func cloneMessage(m *raftpb.Message) *raftpb.Message {
	return &raftpb.Message{
		Type: m.Type, To: m.To, From: m.From, Term: m.Term, LogTerm: m.LogTerm, Index: m.Index,
		Entries: slices.Clone(m.GetEntries()), Commit: m.Commit, Vote: m.Vote, Snapshot: m.Snapshot,
		Reject: m.Reject, RejectHint: m.RejectHint, Context: m.Context, Responses: m.Responses,
	}
}

// fetchSnapshot downloads the file that a MsgSnap names, then gives the
// message to raft. One download at a time; raft sends the message again.
func (n *Node) fetchSnapshot(m *raftpb.Message) {
	id, err := parseSnapshotID(m.GetSnapshot().GetData())
	n.mu.Lock()
	from, ok := n.voters.byRaftID(m.GetFrom())
	n.mu.Unlock()
	if err != nil || !ok || n.opts.Transport == nil || !n.snaps.writeMu.TryLock() {
		return
	}
	n.fetches.Add(1)
	go func() {
		defer n.fetches.Done()
		defer n.snaps.writeMu.Unlock()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-n.stop:
				cancel()
			case <-ctx.Done():
			}
		}()
		p := point{m.GetSnapshot().GetMetadata().GetIndex(), id.Offset, id.Epoch}
		if err := n.download(ctx, from, p); err != nil {
			n.log.Warn("fetching a metadata snapshot failed", "snapshot", id.name(), "from", from.NodeID, "err", err)
			return
		}
		if err := n.deliver(ctx, inMessage{m, true}); err != nil {
			n.log.Debug("snapshot message dropped", "err", err)
		}
	}()
}

func (n *Node) download(ctx context.Context, from Voter, p point) (err error) {
	id := SnapshotID{p.end, p.epoch}
	if n.snaps.has(id) {
		return nil
	}
	part := filepath.Join(n.dir, id.name()+partSuffix)
	f, err := n.fs.Create(part)
	if err != nil {
		return errorf("create snapshot: %w", err)
	}
	total := int64(1)
	for pos := int64(0); pos < total && err == nil; {
		var data []byte
		data, total, err = n.opts.Transport.FetchSnapshot(ctx, from, id, pos, snapshotChunkBytes)
		if err == nil && (len(data) == 0 || total > maxSnapshotBytes || pos+int64(len(data)) > total) {
			err = errorf("answer of %d bytes at position %d of %d", len(data), pos, total)
		}
		if err == nil {
			_, err = f.WriteAt(data, pos)
			pos += int64(len(data))
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = n.verifyPart(part, id)
	}
	if err == nil {
		err = n.snaps.add(p, part)
	}
	if err != nil {
		return errors.Join(err, n.dropPart(part))
	}
	return nil
}

func (n *Node) verifyPart(part string, id SnapshotID) error {
	r, err := openSnapshot(n.fs, part, id)
	if err != nil {
		return err
	}
	return errors.Join(r.verify(), r.close())
}

// batchBounds reads the bounds of the first batch of b; false when it is cut.
func batchBounds(b []byte) (entryMeta, bool) {
	batch, err := record.Parse(b)
	if err != nil {
		return entryMeta{}, false
	}
	return metaOf(batch), true
}
