package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/network"
)

// Heartbeat (12), versions 0 to 4. REBALANCE_IN_PROGRESS renews the session, too.
func (b *Broker) heartbeat(ctx context.Context, _ *network.Request, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	return b.d.Groups.Heartbeat(ctx, req)
}
