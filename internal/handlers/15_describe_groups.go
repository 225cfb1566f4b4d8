package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// noAuthorizedOperations says that they were not asked for, or not worked out.
const noAuthorizedOperations int32 = -1 << 31

// groupOperations are all operations of a group, as bits, without an authorizer.
const groupOperations int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// DescribeGroups (15), versions 0 to 6. It knows groups of the classic protocol
// only: another is Dead, and from v6 on GROUP_ID_NOT_FOUND (KIP-1043).
func (b *Broker) describeGroups(ctx context.Context, r *network.Request, req *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	for _, id := range req.Groups {
		d := b.d.Groups.DescribeGroup(ctx, id, r.Header.Version)
		d.AuthorizedOperations = noAuthorizedOperations
		if req.IncludeAuthorizedOperations && d.ErrorCode == 0 {
			d.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, d)
	}
	return resp
}
