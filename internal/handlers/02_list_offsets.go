package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/types"
)

// ListOffsets (2), versions 1 to 11.
//
// Version notes: v2 isolation level; v4 leader epochs; v7 max timestamp
// (KIP-734); v8 earliest local, v9 latest tiered (KIP-405); v10 timeout; v11
// earliest pending upload. A partition asked twice is INVALID_REQUEST.
func (b *Broker) listOffsets(_ context.Context, r *network.Request, req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	in := replica.ListOffsetsInput{
		ReplicaID: req.ReplicaID, ReadCommitted: req.IsolationLevel == 1, Version: r.Header.Version,
	}
	count := map[types.TopicPartition]int{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			count[types.TopicPartition{Topic: t.Topic, Partition: p.Partition}]++
		}
	}
	resp := kmsg.NewPtrListOffsetsResponse()
	topics := byTopic[kmsg.ListOffsetsResponseTopic]{}
	add := func(tp types.TopicPartition, op kmsg.ListOffsetsResponseTopicPartition) {
		op.Partition = tp.Partition
		out := topics.at(&resp.Topics, tp.Topic)
		out.Topic = tp.Topic
		out.Partitions = append(out.Partitions, op)
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			tp := types.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			switch count[tp] {
			case 0: // answered
			case 1:
				in.Partitions = append(in.Partitions, replica.ListOffsetsPartition{
					TP: tp, CurrentLeaderEpoch: p.CurrentLeaderEpoch, Timestamp: p.Timestamp,
				})
			default:
				count[tp] = 0
				op := kmsg.NewListOffsetsResponseTopicPartition()
				op.ErrorCode = int16(kerrors.InvalidRequest)
				add(tp, op)
			}
		}
	}
	for i, res := range b.d.Replicas.ListOffsets(&in) {
		op := kmsg.NewListOffsetsResponseTopicPartition()
		op.ErrorCode = int16(res.Code)
		op.Timestamp, op.Offset, op.LeaderEpoch = res.Timestamp, res.Offset, res.LeaderEpoch
		add(in.Partitions[i].TP, op)
	}
	return resp
}
