package group

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// noOffset is what a partition without a commit answers, without an error.
const noOffset int64 = -1

// FetchOffsets answers OffsetFetch for one group (the shape of v8+; older
// versions ask for one group and take its topics). A nil req.Topics asks for
// everything the group has, an empty one for nothing. Topic names must be set;
// where ids are set too, an offset committed under another id is not given.
// committed is the shard's committed offset: what is above it is not seen.
// A member of a consumer group must be in its epoch (KIP-848).
// With requireStable the newest state is read instead, and a partition with an
// undecided transaction answers UNSTABLE_OFFSET_COMMIT.
func (s *Shard) FetchOffsets(req *kmsg.OffsetFetchRequestGroup, committed int64, requireStable bool) kmsg.OffsetFetchResponseGroup {
	asOf := committed
	if requireStable {
		asOf = latest
	}
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = req.Group
	g, _ := s.group(req.Group, asOf)
	if c := s.consumerGroup(req.Group, asOf); c != nil {
		if resp.ErrorCode = int16(c.CheckFetch(req.MemberID, req.MemberEpoch, asOf)); resp.ErrorCode != 0 {
			return resp
		}
	}
	if req.Topics == nil {
		resp.Topics = g.fetchAll(asOf, requireStable)
		return resp
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			tp := types.TopicPartition{Topic: t.Topic, Partition: p}
			rt.Partitions = append(rt.Partitions, g.fetch(tp, t.TopicID, asOf, requireStable))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (g *groupState) fetch(tp types.TopicPartition, id types.UUID, asOf int64, requireStable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = tp.Partition, noOffset, -1, new(string)
	if g == nil {
		return p
	}
	if requireStable {
		if _, open := g.open.Get(tp, asOf); open {
			p.ErrorCode = int16(kerrors.UnstableOffsetCommit)
			return p
		}
	}
	o, ok := g.offsets.Get(tp, asOf)
	if !ok || (!o.TopicID.IsZero() && !id.IsZero() && o.TopicID != id) {
		return p
	}
	p.Offset, p.LeaderEpoch, *p.Metadata = o.Offset, o.LeaderEpoch, o.Metadata
	return p
}

// fetchAll lists what the group has, sorted so that answers are stable.
func (g *groupState) fetchAll(asOf int64, requireStable bool) []kmsg.OffsetFetchResponseGroupTopic {
	if g == nil {
		return nil
	}
	var tps []types.TopicPartition
	for tp := range g.offsets.All(asOf) {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, comparePartitions)
	var topics []kmsg.OffsetFetchResponseGroupTopic
	for _, tp := range tps {
		if n := len(topics); n == 0 || topics[n-1].Topic != tp.Topic {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = tp.Topic
			topics = append(topics, t)
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, g.fetch(tp, types.ZeroUUID, asOf, requireStable))
	}
	return topics
}

func comparePartitions(a, b types.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
