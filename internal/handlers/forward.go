package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
)

// forwardTimeout bounds how long a broker looks for an active controller on
// behalf of a client (ForwardingManager uses request.timeout.ms).
const forwardTimeout = 30 * time.Second

// forward sends a request to the active controller and returns its answer, once
// this broker's own metadata has caught up with what the controller did: a
// client that was told "created" must not be told "unknown topic" next.
func (b *Broker) forward(ctx context.Context, r *network.Request, req kmsg.Request) kmsg.Response {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	req.SetVersion(r.Header.Version)
	before := b.d.Image()
	resp, err := b.d.Controller.Forward(ctx, req)
	if err != nil {
		b.d.Logger.Warn("the active controller did not answer a forwarded request",
			"api", kmsg.NameForKey(r.Header.Key), "client", r.Header.ClientID, "error", err)
		return errorResponse(req, kerrors.RequestTimedOut)
	}
	b.settle(ctx, before, req, resp)
	return resp
}

// settle waits until the newest image here shows what a response announces.
// Topics are looked up by name: old versions of the answers have no ids.
func (b *Broker) settle(ctx context.Context, before *image.Image, req kmsg.Request, resp kmsg.Response) {
	switch resp := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		if create, ok := req.(*kmsg.CreateTopicsRequest); ok && create.ValidateOnly {
			return
		}
		for _, t := range resp.Topics {
			if t.ErrorCode == 0 {
				b.awaitImage(ctx, func() bool { _, ok := b.d.Image().Topics.ByName(t.Topic); return ok })
			}
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range resp.Topics {
			if t.ErrorCode != 0 || t.Topic == nil {
				continue
			}
			if old, ok := before.Topics.ByName(*t.Topic); ok {
				b.awaitImage(ctx, func() bool { _, ok := b.d.Image().Topics.ByID(old.ID); return !ok })
			}
		}
	}
}

// settleTimeout bounds settle: an answer that is true is not held back for long.
const settleTimeout = time.Second

func (b *Broker) awaitImage(ctx context.Context, ready func() bool) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for !ready() && ctx.Err() == nil {
		if b.d.AwaitMetadata(ctx, b.d.Image().Offset+1) != nil {
			return
		}
	}
}
