package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DescribeProducers (61), version 0 (KIP-664): the producers that a partition's
// leader remembers.
func (b *Broker) describeProducers(_ context.Context, _ *network.Request, req *kmsg.DescribeProducersRequest) *kmsg.DescribeProducersResponse {
	var in []types.TopicPartition
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			in = append(in, types.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	results := b.d.Replicas.DescribeProducers(in)
	resp := kmsg.NewPtrDescribeProducersResponse()
	for _, t := range req.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = t.Topic
		for range t.Partitions {
			res := results[0]
			results = results[1:]
			op := kmsg.NewDescribeProducersResponseTopicPartition()
			if !types.ValidTopicName(t.Topic) {
				res.Code, res.Message = kerrors.InvalidTopicException, kerrors.InvalidTopicException.Description()
			}
			op.Partition, op.ErrorCode = res.TP.Partition, int16(res.Code)
			if res.Message != "" {
				op.ErrorMessage = ptr(res.Message)
			}
			for _, s := range res.Producers {
				ap := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				ap.ProducerID, ap.ProducerEpoch, ap.LastSequence = s.ProducerID, s.ProducerEpoch, s.LastSequence
				ap.LastTimestamp, ap.CoordinatorEpoch = s.LastTimestampMs, s.CoordinatorEpoch
				ap.CurrentTxnStartOffset = s.CurrentTxnStartOffset
				op.ActiveProducers = append(op.ActiveProducers, ap)
			}
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
