package lifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

func TestRegisterControllerTriesUntilItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		refusals := 2
		f.setAnswer(func(kmsg.Request) kmsg.Response {
			r := kmsg.NewPtrControllerRegistrationResponse()
			if refusals--; refusals >= 0 {
				r.ErrorCode = int16(kerrors.UnknownControllerID)
			}
			return r
		})
		c := f.channel()
		defer c.Close()
		o := ControllerOptions{
			Channel: c, NodeID: 4, IncarnationID: types.UUID{9},
			Endpoints: []types.Endpoint{{Listener: "CONTROLLER", Host: "h", Port: 9093}},
			Features:  []FeatureRange{{"metadata.version", 7, 30}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := RegisterController(ctx, o); err == nil {
			t.Fatal("registered without a controller")
		}
		c.SetController("a:1")
		if err := RegisterController(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		sent := f.requests()
		last := sent[len(sent)-1].(*kmsg.ControllerRegistrationRequest)
		if len(sent) != 3 || last.ControllerID != 4 || last.Listeners[0].Port != 9093 || last.Features[0].MaxSupportedVersion != 30 {
			t.Fatalf("%d requests, last %+v", len(sent), last)
		}
	})
}
