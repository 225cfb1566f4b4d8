package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// DeleteGroups (42), versions 0 to 2: empty groups of any protocol, with their
// offsets.
func (b *Broker) deleteGroups(ctx context.Context, _ *network.Request, req *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	for _, id := range req.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group, g.ErrorCode = id, code(b.d.Groups.DeleteGroup(ctx, id))
		resp.Groups = append(resp.Groups, g)
	}
	return resp
}
