package lifecycle

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// ControllerOptions of RegisterController.
type ControllerOptions struct {
	Channel       Sender
	NodeID        int32
	IncarnationID types.UUID // new for every start of the process
	Endpoints     []types.Endpoint
	Features      []FeatureRange
	Logger        *slog.Logger
}

// RegisterController makes this node's controller known to the active one, so
// that DescribeCluster can list it and features can be raised (KIP-919,
// ControllerRegistrationManager). It tries until it succeeds or ctx ends.
func RegisterController(ctx context.Context, o ControllerOptions) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for {
		err := registerController(ctx, o)
		if err == nil || ctx.Err() != nil {
			return err
		}
		o.Logger.Warn("registering the controller failed, trying again", "err", err)
		t := time.NewTimer(registerRetryMs * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

func registerController(ctx context.Context, o ControllerOptions) error {
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.ControllerID, req.IncarnationID = o.NodeID, o.IncarnationID
	for _, e := range o.Endpoints {
		l := kmsg.NewControllerRegistrationRequestListener()
		l.Name, l.Host, l.Port, l.SecurityProtocol = e.Listener, e.Host, uint16(e.Port), e.SecurityProtocol
		req.Listeners = append(req.Listeners, l)
	}
	for _, f := range o.Features {
		x := kmsg.NewControllerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, x)
	}
	resp, err := o.Channel.Send(ctx, req)
	if err != nil {
		return err
	}
	r, ok := resp.(*kmsg.ControllerRegistrationResponse)
	if !ok {
		return kerrors.New(kerrors.UnknownServerError, "answer of another kind")
	}
	if code := kerrors.Code(r.ErrorCode); code != kerrors.None {
		return code
	}
	return nil
}
