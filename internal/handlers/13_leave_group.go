package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// LeaveGroup (13), versions 0 to 5; v3 takes a list of members, static ones by
// their instance id (KIP-345); v5 reason (KIP-800).
func (b *Broker) leaveGroup(ctx context.Context, _ *network.Request, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	return b.d.Groups.LeaveGroup(ctx, req)
}
