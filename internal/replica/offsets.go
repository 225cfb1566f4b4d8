package replica

import (
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/types"
)

const (
	// offsetNotAvailableVersion is the first ListOffsets version that may answer
	// OFFSET_NOT_AVAILABLE; older ones get LEADER_NOT_AVAILABLE.
	offsetNotAvailableVersion int16 = 5
	debuggingReplica          int32 = -2
	consumerReplica           int32 = -1
)

// ListOffsets looks offsets up by time or special timestamp. It may read the
// disk. A partition that is asked for twice answers INVALID_REQUEST.
func (m *Manager) ListOffsets(in *ListOffsetsInput) []ListOffsetsResult {
	seen := make(map[types.TopicPartition]int, len(in.Partitions))
	for i := range in.Partitions {
		seen[in.Partitions[i].TP]++
	}
	results := make([]ListOffsetsResult, len(in.Partitions))
	for i := range in.Partitions {
		q, res := &in.Partitions[i], &results[i]
		*res = ListOffsetsResult{TP: q.TP, Timestamp: -1, Offset: -1, LeaderEpoch: -1}
		switch {
		case seen[q.TP] > 1:
			res.Code = kerrors.InvalidRequest
		case q.Timestamp < 0 && in.Version < timestampVersion(q.Timestamp):
			res.Code = kerrors.UnsupportedVersion
		default:
			m.listOffset(in, q, res)
		}
	}
	return results
}

// timestampVersion is the first version that knows a special timestamp.
func timestampVersion(ts int64) int16 {
	switch ts {
	case TimestampLatest, TimestampEarliest:
		return 1
	case TimestampMax:
		return 7
	case TimestampEarliestLocal:
		return 8
	case TimestampLatestTiered:
		return 9
	case TimestampEarliestPendingUpload:
		return 11
	}
	return 1<<15 - 1 // unknown: no version serves it
}

func (m *Manager) listOffset(in *ListOffsetsInput, q *ListOffsetsPartition, res *ListOffsetsResult) {
	p, code := m.lookup(types.TopicIDPartition{Topic: q.TP.Topic, Partition: q.TP.Partition}, kerrors.UnknownTopicOrPartition)
	if code == kerrors.None {
		code = p.listOffset(in, q, res)
	}
	if code == kerrors.OffsetNotAvailable && in.Version < offsetNotAvailableVersion {
		code = kerrors.LeaderNotAvailable
	}
	if res.Code = code; code != kerrors.None {
		res.Timestamp, res.Offset, res.LeaderEpoch = -1, -1, -1
	}
}

// listOffset is Partition.fetchOffsetForTimestamp with what ReplicaManager makes
// of its result.
func (p *Partition) listOffset(in *ListOffsetsInput, q *ListOffsetsPartition, res *ListOffsetsResult) kerrors.Code {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	v := p.view.Load()
	if c := v.readable(q.CurrentLeaderEpoch, in.ReplicaID != debuggingReplica); c != kerrors.None {
		return c
	}
	l := v.log
	client := in.ReplicaID == consumerReplica
	fetchable := l.LogEndOffset()
	if client {
		fetchable = l.HighWatermark()
		if in.ReadCommitted {
			fetchable = l.LastStableOffset()
		}
	}
	// A new leader does not know yet how far its predecessor was committed.
	lagging := client && v.epochStart != partition.UnknownOffset && v.epochStart > l.HighWatermark()
	switch q.Timestamp {
	case TimestampLatest:
		if lagging {
			return kerrors.OffsetNotAvailable
		}
		res.Offset, res.LeaderEpoch = fetchable, v.leaderEpoch
		return kerrors.None
	case TimestampEarliest, TimestampEarliestLocal:
		res.Offset = l.LogStartOffset()
		res.LeaderEpoch = epochAt(l, res.Offset)
		return kerrors.None
	case TimestampLatestTiered, TimestampEarliestPendingUpload:
		return kerrors.None // there is no tiered storage: -1
	}
	return lookupTime(l, q.Timestamp, fetchable, lagging, res)
}

func lookupTime(l *log.Log, ts, fetchable int64, lagging bool, res *ListOffsetsResult) kerrors.Code {
	var found log.TimestampOffset
	var ok bool
	var err error
	if ts == TimestampMax {
		found, ok, err = l.OffsetForMaxTimestamp()
	} else {
		found, ok, err = l.OffsetForTimestamp(ts, fetchable)
	}
	switch {
	case err != nil:
		return kerrors.CodeOf(err)
	case ok && found.Offset < fetchable:
		res.Offset, res.Timestamp, res.LeaderEpoch = found.Offset, found.TimestampMs, found.LeaderEpoch
	case lagging:
		return kerrors.OffsetNotAvailable
	}
	return kerrors.None
}

// OffsetsForLeaderEpoch answers where epochs end (KIP-101, KIP-279, KIP-320):
// the end of the largest epoch that is not above the asked one; -1, -1 without
// an error when there is none.
func (m *Manager) OffsetsForLeaderEpoch(in []EpochEndInput) []EpochEndResult {
	results := make([]EpochEndResult, len(in))
	for i := range in {
		q, res := &in[i], &results[i]
		*res = EpochEndResult{TP: q.TP, LeaderEpoch: -1, EndOffset: -1}
		p, code := m.lookup(types.TopicIDPartition{Topic: q.TP.Topic, Partition: q.TP.Partition}, kerrors.UnknownTopicOrPartition)
		if code == kerrors.None {
			code = p.epochEnd(q, res)
		}
		res.Code = code
	}
	return results
}

func (p *Partition) epochEnd(q *EpochEndInput, res *EpochEndResult) kerrors.Code {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	v := p.view.Load()
	if c := v.leading(q.CurrentLeaderEpoch); c != kerrors.None {
		return c
	}
	res.LeaderEpoch, res.EndOffset = v.log.EndOffsetForEpoch(q.LeaderEpoch)
	return kerrors.None
}

func epochAt(l *log.Log, offset int64) int32 {
	if epoch, ok := l.EpochForOffset(offset); ok {
		return epoch
	}
	return -1
}
