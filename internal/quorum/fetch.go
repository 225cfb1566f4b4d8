package quorum

import (
	"context"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// maxFetchBytes bounds one answer of ReadLog.
const maxFetchBytes = 8 << 20

// ReadLog serves Fetch of the metadata log on the leader
// (KafkaRaftClient.validateFetchOffsetAndEpoch). Errors carry
// NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
// INVALID_REQUEST or KAFKA_STORAGE_ERROR; the result then holds the leader all
// the same.
func (n *Node) ReadLog(in FetchInput) (FetchResult, error) {
	out := n.fetchState()
	if err := n.checkFetch(in, out); err != nil {
		return out, err
	}
	if !n.validate(in, &out) || in.FetchOffset >= out.LogEndOffset {
		return out, nil
	}
	data, err := n.meta.store.Read(in.FetchOffset, min(max(in.MaxBytes, 1), maxFetchBytes))
	if err != nil {
		return out, kerrors.Wrap(kerrors.KafkaStorageError, err, "read the metadata log at offset %d", in.FetchOffset)
	}
	out.Records = upTo(data, out.LogEndOffset)
	return out, nil
}

func (n *Node) fetchState() FetchResult {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := FetchResult{LeaderID: -1, LeaderEpoch: n.epoch, HighWatermark: n.hw.Load(), LogEndOffset: n.durableEnd.Load()}
	if v, ok := n.voters.byRaftID(n.leader); ok {
		out.LeaderID = v.NodeID
	}
	out.LogStartOffset = n.meta.store.StartOffset()
	return out
}

func (n *Node) checkFetch(in FetchInput, st FetchResult) error {
	n.mu.Lock()
	err := n.leadingLocked()
	n.mu.Unlock()
	switch {
	case in.FetchOffset < 0 || in.LastFetchedEpoch < -1:
		return kerrors.New(kerrors.InvalidRequest, "fetch offset %d, last fetched epoch %d", in.FetchOffset, in.LastFetchedEpoch)
	case in.CurrentLeaderEpoch >= 0 && in.CurrentLeaderEpoch < st.LeaderEpoch:
		return kerrors.FencedLeaderEpoch
	case in.CurrentLeaderEpoch > st.LeaderEpoch:
		return kerrors.UnknownLeaderEpoch
	case err != nil:
		return kerrors.Wrap(kerrors.NotLeaderOrFollower, err, "metadata log")
	}
	return nil
}

// validate decides whether the fetcher's log is a prefix of this one; if not,
// out says where to cut or which snapshot to load (RaftLog.validateOffsetAndEpoch
// and KafkaRaftClient.tryCompleteFetchRequest). A fetcher that gives no epoch is
// believed as long as its offset exists.
func (n *Node) validate(in FetchInput, out *FetchResult) bool {
	snapshots := n.snaps.list()
	if len(snapshots) == 0 { // a folder of kraft.version 0 before its first one
		snapshots = []SnapshotID{{}}
	}
	earliest, latest := snapshots[0], snapshots[len(snapshots)-1]
	epoch := in.LastFetchedEpoch
	switch {
	case in.FetchOffset == 0 && !latest.isBootstrap(), in.FetchOffset < out.LogStartOffset:
		out.Snapshot = &latest
		return false
	case in.FetchOffset == 0 && out.LogStartOffset == 0, epoch < 0:
		return true
	case in.FetchOffset == out.LogStartOffset && epoch != earliest.Epoch, epoch < earliest.Epoch:
		out.Snapshot = &latest
		return false
	}
	end := n.endOfEpoch(epoch, earliest)
	if end.Epoch != epoch || end.EndOffset < in.FetchOffset {
		out.Diverging = &end
		return false
	}
	return true
}

// endOfEpoch is the largest epoch not above epoch and where it ends
// (KafkaRaftLog.endOffsetForEpoch).
func (n *Node) endOfEpoch(epoch int32, earliest SnapshotID) EpochEnd {
	e, end := n.meta.store.EndOffsetForEpoch(epoch)
	switch {
	case e < 0:
		last := n.meta.last()
		return EpochEnd{Epoch: last.epoch, EndOffset: last.end}
	case end == earliest.Offset && e == epoch:
		return EpochEnd{Epoch: earliest.Epoch, EndOffset: earliest.Offset}
	}
	return EpochEnd{Epoch: e, EndOffset: end}
}

// upTo drops batches that end beyond the durable end of the log.
func upTo(data []byte, end int64) []byte {
	pos := 0
	for pos < len(data) {
		m, ok := batchBounds(data[pos:])
		if !ok || m.end > end {
			break
		}
		pos += int(m.size)
	}
	return data[:pos]
}

// AwaitChange waits until the log has durable data at offset or the high
// watermark is beyond highWatermark (what a parked Fetch of the log waits
// for), the leader or epoch changed, the node stopped, or ctx ended.
func (n *Node) AwaitChange(ctx context.Context, offset, highWatermark int64) {
	n.mu.Lock()
	leader, epoch := n.leader, n.epoch
	n.mu.Unlock()
	_ = n.wait(ctx, func() bool { // the caller looks again whatever ended the wait
		if n.durableEnd.Load() > offset || n.hw.Load() > highWatermark {
			return true
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.leader != leader || n.epoch != epoch
	})
}

// Status serves DescribeQuorum and metrics.
func (n *Node) Status() Status {
	f := n.fetchState()
	st := Status{
		LeaderID: f.LeaderID, LeaderEpoch: f.LeaderEpoch, HighWatermark: f.HighWatermark,
		LogStartOffset: f.LogStartOffset, LogEndOffset: f.LogEndOffset, Snapshot: n.snaps.newest(),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	st.IsLeader, st.Failed = n.leading, n.failed
	st.Voters = append(st.Voters, n.voters.voters...)
	if !n.leading {
		return st
	}
	nowMs := n.opts.NowMs()
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		v, ok := n.voters.byRaftID(id)
		if !ok {
			return
		}
		row := ReplicaState{NodeID: v.NodeID, DirectoryID: v.DirectoryID, LogEndOffset: -1, LastFetchTimeMs: -1, LastCaughtUpTimeMs: -1}
		if id == n.id {
			row.LogEndOffset, row.LastFetchTimeMs, row.LastCaughtUpTimeMs = f.LogEndOffset, nowMs, nowMs
		} else {
			row.LogEndOffset = n.meta.endOf(pr.Match)
			if t, ok := n.heardMs[id]; ok {
				row.LastFetchTimeMs = t
				if row.LogEndOffset >= f.LogEndOffset {
					row.LastCaughtUpTimeMs = t
				}
			}
		}
		st.VoterStates = append(st.VoterStates, row)
	})
	return st
}
