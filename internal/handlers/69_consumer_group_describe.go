package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// ConsumerGroupDescribe (69), versions 0 and 1; v1 says which protocol a member
// speaks. It knows groups of KIP-848 only, as DescribeGroups knows classic ones.
func (b *Broker) consumerGroupDescribe(ctx context.Context, _ *network.Request, req *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	for _, id := range req.Groups {
		d := b.d.Groups.DescribeConsumerGroup(ctx, id)
		d.AuthorizedOperations = noAuthorizedOperations
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}
