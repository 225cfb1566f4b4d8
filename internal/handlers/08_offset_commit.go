package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Offsets is the group coordinator as far as committed offsets go.
type Offsets interface {
	// PartitionFor says which of n partitions of the offsets topic holds a group.
	PartitionFor(group string, n int) int32
	// Commit stores offsets; topic names are set whatever the version.
	Commit(ctx context.Context, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse
	// Fetch reads one group's offsets; topic names are set whatever the version.
	Fetch(ctx context.Context, req *kmsg.OffsetFetchRequestGroup, requireStable bool) kmsg.OffsetFetchResponseGroup
}

// OffsetCommit (8), versions 2 to 10.
//
// Version notes: v2-4 carry a retention time; v9 members of KIP-848; v10 topic
// ids. Offsets of topics that do not exist are refused one by one, the others
// are stored.
func (b *Broker) offsetCommit(ctx context.Context, r *network.Request, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	im, byID := b.d.Image(), r.Header.Version >= 10
	resp, topics := kmsg.NewPtrOffsetCommitResponse(), byTopic[kmsg.OffsetCommitResponseTopic]{}
	add := func(name string, id types.UUID, partition int32, c int16) {
		key := name
		if byID {
			key = id.String()
		}
		out := topics.at(&resp.Topics, key)
		out.Topic, out.TopicID = name, id
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.Partition, p.ErrorCode = partition, c
		out.Partitions = append(out.Partitions, p)
	}
	known := *req
	known.Topics = nil
	for _, t := range req.Topics {
		topic, err := resolveTopic(im, byID, t.Topic, t.TopicID)
		kept := kmsg.NewOffsetCommitRequestTopic()
		for _, p := range t.Partitions {
			switch {
			case err != nil:
				add(t.Topic, t.TopicID, p.Partition, code(err))
			case p.Partition < 0 || int(p.Partition) >= len(topic.Partitions):
				add(t.Topic, t.TopicID, p.Partition, int16(kerrors.UnknownTopicOrPartition))
			default:
				kept.Partitions = append(kept.Partitions, p)
			}
		}
		if len(kept.Partitions) > 0 {
			kept.Topic, kept.TopicID = topic.Name, topic.ID
			known.Topics = append(known.Topics, kept)
		}
	}
	if len(known.Topics) == 0 && len(req.Topics) > 0 {
		return resp
	}
	for _, t := range b.d.Offsets.Commit(ctx, &known).Topics {
		topic, _ := im.Topics.ByName(t.Topic) // the coordinator answers for what it was given
		for _, p := range t.Partitions {
			if byID {
				add("", topic.ID, p.Partition, p.ErrorCode)
			} else {
				add(t.Topic, types.UUID{}, p.Partition, p.ErrorCode)
			}
		}
	}
	return resp
}

// OffsetFetch (9), versions 1 to 10.
//
// Version notes: v2 null topics mean all; v7 require stable; v8 many groups
// (KIP-709); v9 members of KIP-848; v10 topic ids. A partition without a commit
// has offset -1, empty metadata and no error.
func (b *Broker) offsetFetch(ctx context.Context, r *network.Request, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if r.Header.Version >= 8 {
		for i := range req.Groups {
			resp.Groups = append(resp.Groups, b.fetchOffsets(ctx, r.Header.Version, &req.Groups[i], req.RequireStable))
		}
		return resp
	}
	g := b.fetchOffsets(ctx, r.Header.Version, groupOfOldFetch(r.Header.Version, req), req.RequireStable)
	fillOldFetch(resp, r.Header.Version, req, g)
	return resp
}

// fetchOffsets reads one group, answering for topic ids that are unknown here.
func (b *Broker) fetchOffsets(ctx context.Context, version int16, g *kmsg.OffsetFetchRequestGroup, requireStable bool) kmsg.OffsetFetchResponseGroup {
	im := b.d.Image()
	if version < 10 {
		return b.d.Offsets.Fetch(ctx, g, requireStable)
	}
	known := *g
	var unknown []kmsg.OffsetFetchResponseGroupTopic
	if g.Topics != nil {
		known.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range g.Topics {
		topic, ok := im.Topics.ByID(t.TopicID)
		if ok {
			t.Topic = topic.Name
			known.Topics = append(known.Topics, t)
			continue
		}
		out := kmsg.NewOffsetFetchResponseGroupTopic()
		out.TopicID = t.TopicID
		for _, p := range t.Partitions {
			op := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			op.Partition, op.Offset, op.LeaderEpoch, op.Metadata = p, -1, -1, ptr("")
			op.ErrorCode = int16(kerrors.UnknownTopicID)
			out.Partitions = append(out.Partitions, op)
		}
		unknown = append(unknown, out)
	}
	resp := b.d.Offsets.Fetch(ctx, &known, requireStable)
	resp.Topics = append(withTopicIDs(im, resp.Topics), unknown...)
	return resp
}

// withTopicIDs fills the ids of an answer and drops topics that are gone: by id
// they cannot be named any more.
func withTopicIDs(im *image.Image, topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	out := topics[:0]
	for _, t := range topics {
		if topic, ok := im.Topics.ByName(t.Topic); ok {
			t.TopicID = topic.ID
			out = append(out, t)
		}
	}
	return out
}

// groupOfOldFetch turns a request of versions 1 to 7 into the newer form.
func groupOfOldFetch(version int16, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = req.Group, -1
	if req.Topics != nil || version < 2 {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	return &g
}

// fillOldFetch puts a group's answer into the form of versions 1 to 7. Version 1
// has no error for the group, so every partition carries it.
func fillOldFetch(resp *kmsg.OffsetFetchResponse, version int16, req *kmsg.OffsetFetchRequest, g kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = g.ErrorCode
	if version < 2 && g.ErrorCode != 0 {
		for _, t := range req.Topics {
			out := kmsg.NewOffsetFetchResponseTopic()
			out.Topic = t.Topic
			for _, p := range t.Partitions {
				op := kmsg.NewOffsetFetchResponseTopicPartition()
				op.Partition, op.Offset, op.Metadata, op.ErrorCode = p, -1, ptr(""), g.ErrorCode
				out.Partitions = append(out.Partitions, op)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return
	}
	for _, t := range g.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			op := kmsg.NewOffsetFetchResponseTopicPartition()
			op.Partition, op.Offset, op.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			op.Metadata, op.ErrorCode = p.Metadata, p.ErrorCode
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
}
