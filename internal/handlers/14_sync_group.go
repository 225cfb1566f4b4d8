package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
)

// SyncGroup (14), versions 0 to 5; v5 names the protocol, which must be the
// group's (KIP-559). The answer waits for the leader's assignment, as that of
// JoinGroup waits for the other members.
func (b *Broker) syncGroup(_ context.Context, r *network.Request, req *kmsg.SyncGroupRequest) {
	if r.Header.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.MemberAssignment = int16(kerrors.InconsistentGroupProtocol), []byte{}
		r.Respond(resp)
		return
	}
	b.d.Groups.SyncGroup(req, func(resp *kmsg.SyncGroupResponse) { r.Respond(resp) })
}
