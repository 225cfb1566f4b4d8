package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// Fetch (1), FetchSnapshot (59) and DescribeQuorum (55) of the metadata log, on
// the controller listener: the standard way for a broker, ours or Apache
// Kafka's, to follow it (KIP-595, KIP-630, KIP-853).

// maxMetadataWait bounds the wait of one Fetch of the metadata log.
const maxMetadataWait = 5 * time.Second

func (c *Controller) fetch(ctx context.Context, r *network.Request) {
	req, ok := decodeFetch(apis.Controller, r)
	if !ok {
		return
	}
	if !c.wantsMetadata(r.Header.Version, req) {
		respondFetch(r, &wire.FetchResponse{ErrorCode: int16(kerrors.InvalidRequest)})
		return
	}
	if req.ClusterID != nil && *req.ClusterID != c.d.ClusterID {
		respondFetch(r, &wire.FetchResponse{ErrorCode: int16(kerrors.InconsistentClusterID)})
		return
	}
	go c.answerFetch(ctx, r, req) // it may wait; the connection's next request must not
}

// wantsMetadata checks that a request asks for __cluster_metadata-0 and no more.
func (c *Controller) wantsMetadata(version int16, req *kmsg.FetchRequest) bool {
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != 0 {
		return false
	}
	if version >= 13 {
		return req.Topics[0].TopicID == types.MetadataTopicID
	}
	return req.Topics[0].Topic == types.ClusterMetadataTopic
}

func (c *Controller) answerFetch(ctx context.Context, r *network.Request, req *kmsg.FetchRequest) {
	p := req.Topics[0].Partitions[0]
	in := quorum.FetchInput{
		FetchOffset: p.FetchOffset, LastFetchedEpoch: p.LastFetchedEpoch,
		CurrentLeaderEpoch: p.CurrentLeaderEpoch, MaxBytes: int(req.MaxBytes),
	}
	res, err := c.d.Quorum.ReadLog(in)
	known := p.HighWatermark // v18: what the follower knows; a rise answers the fetch
	if r.Header.Version < 18 {
		known = res.HighWatermark
	}
	if err == nil && res.Records == nil && res.Diverging == nil && res.Snapshot == nil && req.MaxWaitMillis > 0 && known >= res.HighWatermark {
		wait, cancel := context.WithTimeout(ctx, min(maxMetadataWait, time.Duration(req.MaxWaitMillis)*time.Millisecond))
		c.d.Quorum.AwaitChange(wait, p.FetchOffset, res.HighWatermark)
		cancel()
		res, err = c.d.Quorum.ReadLog(in)
	}
	respondFetch(r, metadataFetchResponse(req, res, err))
}

func metadataFetchResponse(req *kmsg.FetchRequest, res quorum.FetchResult, err error) *wire.FetchResponse {
	out := wire.FetchPartition{
		ErrorCode: code(err), HighWatermark: res.HighWatermark, LastStableOffset: res.HighWatermark,
		LogStartOffset: res.LogStartOffset, PreferredReadReplica: -1,
		CurrentLeader: &wire.LeaderIDEpoch{LeaderID: res.LeaderID, LeaderEpoch: res.LeaderEpoch},
	}
	if res.Diverging != nil {
		out.DivergingEpoch = &wire.EpochEnd{Epoch: res.Diverging.Epoch, EndOffset: res.Diverging.EndOffset}
	}
	if res.Snapshot != nil {
		out.SnapshotID = &wire.EpochEnd{Epoch: res.Snapshot.Epoch, EndOffset: res.Snapshot.Offset}
	}
	out.Records.BorrowBytes(res.Records)
	t := req.Topics[0]
	return &wire.FetchResponse{Topics: []wire.FetchTopic{{Topic: t.Topic, TopicID: t.TopicID, Partitions: []wire.FetchPartition{out}}}}
}

func respondFetch(r *network.Request, resp *wire.FetchResponse) {
	var p wire.Payload
	wire.AppendFetchResponse(&p, r.Header, resp)
	r.Code = resp.ErrorCode
	r.RespondPayload(p)
}

func (c *Controller) fetchSnapshot(_ context.Context, _ *network.Request, req *kmsg.FetchSnapshotRequest) kmsg.Response {
	resp := kmsg.NewPtrFetchSnapshotResponse()
	if req.ClusterID != nil && *req.ClusterID != c.d.ClusterID {
		resp.ErrorCode = int16(kerrors.InconsistentClusterID)
		return resp
	}
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Topic != types.ClusterMetadataTopic {
		resp.ErrorCode = int16(kerrors.InvalidRequest)
		return resp
	}
	p := req.Topics[0].Partitions[0]
	id := quorum.SnapshotID{Offset: p.SnapshotID.EndOffset, Epoch: p.SnapshotID.Epoch}
	chunk, err := c.d.Quorum.ReadSnapshot(id, p.Position, int(req.MaxBytes))
	st := c.d.Quorum.Status()
	out := kmsg.NewFetchSnapshotResponseTopicPartition()
	out.ErrorCode, out.Size, out.Position, out.Bytes = code(err), chunk.TotalBytes, p.Position, chunk.Data
	out.SnapshotID.EndOffset, out.SnapshotID.Epoch = id.Offset, id.Epoch
	out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = st.LeaderID, st.LeaderEpoch
	t := kmsg.NewFetchSnapshotResponseTopic()
	t.Topic, t.Partitions = types.ClusterMetadataTopic, append(t.Partitions, out)
	resp.Topics = append(resp.Topics, t)
	return resp
}

func (c *Controller) describeQuorum(_ context.Context, _ *network.Request, req *kmsg.DescribeQuorumRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	st := c.d.Quorum.Status()
	valid := len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1 // else nothing is answered (RaftUtil.hasValidTopicPartition)
	valid = valid && req.Topics[0].Topic == types.ClusterMetadataTopic && req.Topics[0].Partitions[0].Partition == 0
	for _, t := range req.Topics {
		rt := kmsg.NewDescribeQuorumResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewDescribeQuorumResponseTopicPartition()
			rp.Partition = p.Partition
			switch {
			case !valid:
				rp.ErrorCode = int16(kerrors.UnknownTopicOrPartition)
			case !st.IsLeader:
				rp.ErrorCode = int16(kerrors.NotLeaderOrFollower)
			default:
				fillQuorum(&rp, st)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if !valid {
		return resp
	}
	for _, v := range st.Voters {
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID = v.NodeID
		for _, e := range v.Endpoints {
			l := kmsg.NewDescribeQuorumResponseNodeListener()
			l.Name, l.Host, l.Port = e.Listener, e.Host, uint16(e.Port)
			n.Listeners = append(n.Listeners, l)
		}
		resp.Nodes = append(resp.Nodes, n)
	}
	return resp
}

func fillQuorum(p *kmsg.DescribeQuorumResponseTopicPartition, st quorum.Status) {
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = st.LeaderID, st.LeaderEpoch, st.HighWatermark
	for _, v := range st.VoterStates {
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = v.NodeID, v.DirectoryID, v.LogEndOffset
		s.LastFetchTimestamp, s.LastCaughtUpTimestamp = v.LastFetchTimeMs, v.LastCaughtUpTimeMs
		p.CurrentVoters = append(p.CurrentVoters, s)
	}
}
