package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DescribeTopicPartitions (75), version 0 (KIP-966): topics sorted by name, at
// most max.request.partition.size.limit partitions an answer, and a cursor for
// the rest. It is the API that shows eligible leader replicas.
func (b *Broker) describeTopicPartitions(_ context.Context, r *network.Request, req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	im, listener := b.d.Image(), r.Conn.Listener()
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	names, all := describedTopics(im, req)
	if c := req.Cursor; c != nil && (c.Partition < 0 || !all && !slices.Contains(names, c.Topic)) {
		return refuseCursor(req)
	}
	left := max(1, min(int(req.ResponsePartitionLimit), b.d.Config.Network.MaxRequestPartitionSizeLimit))
	for _, name := range names {
		if left <= 0 { // the cursor may name a topic that does not exist
			resp.NextCursor = cursorAt(name, 0)
			break
		}
		first := 0
		if c := req.Cursor; c != nil && c.Topic == name {
			first = int(c.Partition)
		}
		topic, ok := im.Topics.ByName(name)
		if !ok {
			if !all {
				resp.Topics = append(resp.Topics, missingDescribedTopic(name))
			}
			continue
		}
		last := min(len(topic.Partitions), first+left)
		resp.Topics = append(resp.Topics, describedTopic(im, topic, listener, min(first, last), last))
		left -= max(0, last-first)
		if last < len(topic.Partitions) {
			resp.NextCursor = cursorAt(name, last)
			break
		}
	}
	return resp
}

// refuseCursor answers a request whose cursor is no place in what it asks for.
func refuseCursor(req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for _, t := range req.Topics {
		out := kmsg.NewDescribeTopicPartitionsResponseTopic()
		out.Topic, out.ErrorCode, out.AuthorizedOperations = ptr(t.Topic), int16(kerrors.InvalidRequest), noOperations
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func cursorAt(topic string, partition int) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(partition)
	return &c
}

// describedTopics returns the names to answer for, sorted, from the cursor on.
func describedTopics(im *image.Image, req *kmsg.DescribeTopicPartitionsRequest) (names []string, all bool) {
	from := ""
	if req.Cursor != nil {
		from = req.Cursor.Topic
	}
	if len(req.Topics) == 0 {
		for t := range im.Topics.From(from) {
			names = append(names, t.Name)
		}
		return names, true
	}
	for _, t := range req.Topics {
		if t.Topic >= from {
			names = append(names, t.Topic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), false
}

func missingDescribedTopic(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.AuthorizedOperations, t.IsInternal = &name, topicOperations, types.IsInternalTopic(name)
	t.ErrorCode = int16(kerrors.UnknownTopicOrPartition)
	if !types.ValidTopicName(name) {
		t.ErrorCode = int16(kerrors.InvalidTopicException)
	}
	return t
}

func describedTopic(im *image.Image, topic *image.Topic, listener string, first, last int) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.TopicID, t.IsInternal = ptr(topic.Name), topic.ID, types.IsInternalTopic(topic.Name)
	t.AuthorizedOperations = topicOperations
	for i := first; i < last; i++ {
		p := topic.Partitions[i]
		out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		out.Partition, out.LeaderID, out.LeaderEpoch = int32(i), p.Leader, p.LeaderEpoch
		out.Replicas, out.ISR = p.Replicas, p.ISR
		out.EligibleLeaderReplicas, out.LastKnownELR = emptyNotNil(p.ELR), emptyNotNil(p.LastKnownELR)
		out.OfflineReplicas = offline(im, p, listener)
		if out.ErrorCode = leaderError(im, p, listener, 6); out.ErrorCode != 0 {
			out.LeaderID = -1
		}
		t.Partitions = append(t.Partitions, out)
	}
	return t
}

// emptyNotNil keeps a list from being sent as null.
func emptyNotNil(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}
