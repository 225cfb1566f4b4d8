package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// Groups is the group coordinator as far as members go. JoinGroup and SyncGroup
// answer when the other members are ready, from any goroutine; topic names in
// the other requests are set whatever the version.
type Groups interface {
	JoinGroup(req *kmsg.JoinGroupRequest, clientID, clientHost string, done func(*kmsg.JoinGroupResponse))
	SyncGroup(req *kmsg.SyncGroupRequest, done func(*kmsg.SyncGroupResponse))
	Heartbeat(ctx context.Context, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse
	LeaveGroup(ctx context.Context, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse
	ConsumerHeartbeat(ctx context.Context, req *kmsg.ConsumerGroupHeartbeatRequest, clientID, clientHost string) *kmsg.ConsumerGroupHeartbeatResponse

	GroupAdmin
}

// GroupAdmin is the group coordinator's side for admins.
type GroupAdmin interface {
	DescribeGroup(ctx context.Context, id string, version int16) kmsg.DescribeGroupsResponseGroup
	DescribeConsumerGroup(ctx context.Context, id string) kmsg.ConsumerGroupDescribeResponseGroup
	ListGroups(ctx context.Context, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse
	DeleteGroup(ctx context.Context, id string) error
	DeleteOffsets(ctx context.Context, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse
}

// JoinGroup (11), versions 0 to 9.
//
// Version notes: v1 rebalance timeout (before, the session timeout is both); v4
// a member without id is given one and has to join again (KIP-394); v5 static
// members (KIP-345); v7 protocol type in the answer; v8 reason (KIP-800); v9 the
// leader may be told to keep the assignment (KIP-814).
//
// The answer waits for the other members. Later requests of the connection are
// handled meanwhile; their answers wait behind this one.
func (b *Broker) joinGroup(_ context.Context, r *network.Request, req *kmsg.JoinGroupRequest) {
	b.d.Groups.JoinGroup(req, r.Header.ClientID, "/"+r.Conn.RemoteHost(), func(resp *kmsg.JoinGroupResponse) { r.Respond(resp) })
}
