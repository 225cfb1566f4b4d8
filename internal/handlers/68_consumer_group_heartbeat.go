package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// ConsumerGroupHeartbeat (68), versions 0 and 1 (KIP-848).
//
// Version notes: v1 the client makes the member id; subscriptions by regular
// expression (RE2).
func (b *Broker) consumerGroupHeartbeat(ctx context.Context, r *network.Request, req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	return b.d.Groups.ConsumerHeartbeat(ctx, req, r.Header.ClientID, "/"+r.Conn.RemoteHost())
}
