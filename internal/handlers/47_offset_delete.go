package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
)

// OffsetDelete (47), version 0. Partitions of topics that do not exist are
// refused one by one, those of topics that a member reads too.
func (b *Broker) offsetDelete(ctx context.Context, _ *network.Request, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	if req.Group == "" {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.ErrorCode = int16(kerrors.InvalidGroupID)
		return resp
	}
	im := b.d.Image()
	known := *req
	known.Topics = nil
	var unknown []kmsg.OffsetDeleteResponseTopic
	for _, t := range req.Topics {
		topic, ok := im.Topics.ByName(t.Topic)
		kept := kmsg.OffsetDeleteRequestTopic{Topic: t.Topic}
		missing := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			if ok && p.Partition >= 0 && int(p.Partition) < len(topic.Partitions) {
				kept.Partitions = append(kept.Partitions, p)
				continue
			}
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, int16(kerrors.UnknownTopicOrPartition)
			missing.Partitions = append(missing.Partitions, rp)
		}
		if len(kept.Partitions) > 0 {
			known.Topics = append(known.Topics, kept)
		}
		if len(missing.Partitions) > 0 || len(t.Partitions) == 0 {
			unknown = append(unknown, missing)
		}
	}
	resp := b.d.Groups.DeleteOffsets(ctx, &known)
	if resp.ErrorCode == 0 {
		resp.Topics = append(resp.Topics, unknown...)
	}
	return resp
}
