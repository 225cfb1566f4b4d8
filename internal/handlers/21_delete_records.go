package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DeleteRecords (21), versions 0 to 2. Offset -1 means the high watermark; the
// answer comes when the low watermark over alive replicas reaches the offset.
func (b *Broker) deleteRecords(ctx context.Context, _ *network.Request, req *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	in := replica.DeleteRecordsInput{TimeoutMs: req.TimeoutMillis}
	at := map[types.TopicPartition]int{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			part := replica.DeleteRecordsPartition{TP: types.TopicPartition{Topic: t.Topic, Partition: p.Partition}, Offset: p.Offset}
			if i, twice := at[part.TP]; twice {
				in.Partitions[i] = part // the last one counts
				continue
			}
			at[part.TP] = len(in.Partitions)
			in.Partitions = append(in.Partitions, part)
		}
	}
	done := make(chan []replica.DeleteRecordsResult, 1)
	b.d.Replicas.DeleteRecords(&in, func(res []replica.DeleteRecordsResult) { done <- res })
	var results []replica.DeleteRecordsResult
	select {
	case results = <-done:
	case <-ctx.Done():
		return nil
	}
	resp := kmsg.NewPtrDeleteRecordsResponse()
	topics := byTopic[kmsg.DeleteRecordsResponseTopic]{}
	for _, res := range results {
		op := kmsg.NewDeleteRecordsResponseTopicPartition()
		op.Partition, op.ErrorCode, op.LowWatermark = res.TP.Partition, int16(res.Code), res.LowWatermark
		out := topics.at(&resp.Topics, res.TP.Topic)
		out.Topic = res.TP.Topic
		out.Partitions = append(out.Partitions, op)
	}
	return resp
}
