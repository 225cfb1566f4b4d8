package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// ListGroups (16), versions 0 to 5; v4 filters by state (KIP-518), v5 by type
// (KIP-848). Each broker lists the groups that it coordinates.
func (b *Broker) listGroups(ctx context.Context, _ *network.Request, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	return b.d.Groups.ListGroups(ctx, req)
}
