package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

func allocated(start int64) kmsg.Response {
	r := kmsg.NewPtrAllocateProducerIDsResponse()
	r.ProducerIDStart, r.ProducerIDLen = start, 1000
	return r
}

func allocateRequest(broker int32) kmsg.Request {
	r := kmsg.NewPtrAllocateProducerIDsRequest()
	r.BrokerID = broker
	return r
}

func TestChannelWaitsForAController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		f.setAnswer(func(kmsg.Request) kmsg.Response { return allocated(0) })
		c := f.channel()
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Send(ctx, allocateRequest(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without a controller: %v", err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Send(t.Context(), allocateRequest(1))
			done <- err
		}()
		synctest.Wait()
		before := time.Now()
		c.SetController("a:1")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(before); waited != 0 {
			t.Fatalf("the request waited %v after the controller was known", waited)
		}
	})
}

func TestChannelFollowsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		c := f.channel()
		defer c.Close()
		// The first node is not the controller any more; then the address moves.
		var calls atomic.Int32
		f.setAnswer(func(kmsg.Request) kmsg.Response {
			if n := calls.Add(1); n == 1 {
				r := kmsg.NewPtrAllocateProducerIDsResponse()
				r.ErrorCode = int16(kerrors.NotController)
				return r
			}
			return allocated(7)
		})
		c.SetController("a:1")
		go func() {
			synctest.Wait()
			c.SetController("b:1")
		}()
		r, err := c.Send(t.Context(), allocateRequest(1))
		if err != nil || r.(*kmsg.AllocateProducerIDsResponse).ProducerIDStart != 7 {
			t.Fatalf("%+v, %v", r, err)
		}
		if want := []string{"a:1", "b:1"}; !slices.Equal(f.addrs, want) {
			t.Fatalf("dialled %v", f.addrs)
		}
	})
}

func TestChannelSurvivesCutConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		c := f.channel()
		defer c.Close()
		var calls atomic.Int32
		f.setAnswer(func(kmsg.Request) kmsg.Response {
			if n := calls.Add(1); n <= 3 {
				return nil // cut
			}
			return allocated(7)
		})
		c.SetController("a:1")
		if _, err := c.Send(t.Context(), allocateRequest(1)); err != nil {
			t.Fatal(err)
		}
		f.setDown(true)
		go func() {
			time.Sleep(3 * time.Second)
			f.setDown(false)
		}()
		if _, err := c.Send(t.Context(), allocateRequest(1)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestChannelPipelinesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		f.setAnswer(func(req kmsg.Request) kmsg.Response {
			return allocated(int64(req.(*kmsg.AllocateProducerIDsRequest).BrokerID))
		})
		c := f.channel()
		defer c.Close()
		c.SetController("a:1")
		type got struct {
			want int32
			resp kmsg.Response
			err  error
		}
		results := make(chan got)
		for i := range int32(50) {
			go func() {
				r, err := c.Send(t.Context(), allocateRequest(i))
				results <- got{i, r, err}
			}()
		}
		for range 50 {
			g := <-results
			if g.err != nil || g.resp.(*kmsg.AllocateProducerIDsResponse).ProducerIDStart != int64(g.want) {
				t.Fatalf("request %d got %+v, %v", g.want, g.resp, g.err)
			}
		}
		if len(f.addrs) != 1 {
			t.Fatalf("%d connections", len(f.addrs))
		}
	})
}

func TestChannelNegotiatesVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		f.max[63] = 1
		delete(f.max, 67)
		f.setAnswer(func(req kmsg.Request) kmsg.Response { return kmsg.NewPtrBrokerHeartbeatResponse() })
		c := f.channel()
		defer c.Close()
		c.SetController("a:1")
		if _, err := c.Send(t.Context(), allocateRequest(1)); kerrors.CodeOf(err) != kerrors.UnsupportedVersion {
			t.Fatalf("an RPC that the controller lacks: %v", err)
		}
		req := kmsg.NewPtrBrokerHeartbeatRequest()
		if _, err := c.Send(t.Context(), req); err != nil || req.Version != 1 {
			t.Fatalf("version %d, %v", req.Version, err)
		}
		req.Version = 0
		if _, err := c.Forward(t.Context(), req); err != nil || req.Version != 0 {
			t.Fatalf("a forwarded request went out with version %d, %v", req.Version, err)
		}
		req.Version = 2
		if _, err := c.Forward(t.Context(), req); kerrors.CodeOf(err) != kerrors.UnsupportedVersion {
			t.Fatalf("a forwarded version that the controller lacks: %v", err)
		}
	})
}

func TestChannelBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		c := NewChannel(ChannelOptions{Dial: f.dial, MaxQueued: 1})
		done := make(chan error, 1)
		go func() {
			_, err := c.Send(t.Context(), allocateRequest(1))
			done <- err
		}()
		synctest.Wait()
		if _, err := c.Send(t.Context(), allocateRequest(1)); kerrors.CodeOf(err) != kerrors.RequestTimedOut {
			t.Fatalf("one too many: %v", err)
		}
		c.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Fatalf("at close: %v", err)
		}
	})
}

// TestChannelRequestTimeout has a controller that never answers: the
// connection is given up and the request tried again.
func TestChannelRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeController(t)
		hang := make(chan struct{})
		var calls atomic.Int32
		f.setAnswer(func(kmsg.Request) kmsg.Response {
			if n := calls.Add(1); n == 1 {
				<-hang
				return nil
			}
			return allocated(1)
		})
		c := NewChannel(ChannelOptions{Dial: f.dial, RequestTimeoutMs: 500})
		defer c.Close()
		defer close(hang)
		c.SetController("a:1")
		if _, err := c.Send(t.Context(), allocateRequest(1)); err != nil {
			t.Fatal(err)
		}
		if len(f.addrs) != 2 {
			t.Fatalf("%d connections", len(f.addrs))
		}
	})
}
