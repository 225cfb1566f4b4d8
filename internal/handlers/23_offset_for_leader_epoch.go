package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/types"
)

// OffsetForLeaderEpoch (23), versions 2 to 4 (KIP-101, KIP-279, KIP-320): the
// end of the largest epoch that is not above the asked one; unknown is (-1, -1)
// without an error.
func (b *Broker) offsetForLeaderEpoch(_ context.Context, _ *network.Request, req *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	var in []replica.EpochEndInput
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			in = append(in, replica.EpochEndInput{
				TP:                 types.TopicPartition{Topic: t.Topic, Partition: p.Partition},
				CurrentLeaderEpoch: p.CurrentLeaderEpoch,
				LeaderEpoch:        p.LeaderEpoch,
			})
		}
	}
	results := b.d.Replicas.OffsetsForLeaderEpoch(in)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		for range t.Partitions {
			op := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			op.Partition, op.ErrorCode = results[0].TP.Partition, int16(results[0].Code)
			op.LeaderEpoch, op.EndOffset = results[0].LeaderEpoch, results[0].EndOffset
			out.Partitions = append(out.Partitions, op)
			results = results[1:]
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
