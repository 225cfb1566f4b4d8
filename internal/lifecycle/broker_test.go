package lifecycle

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// metadata stands in for the loader.
type metadata struct {
	mu      sync.Mutex
	offset  int64
	changed chan struct{}
}

func newMetadata() *metadata { return &metadata{offset: -1, changed: make(chan struct{})} }

func (m *metadata) set(offset int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offset = offset
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *metadata) get() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offset
}

func (m *metadata) await(ctx context.Context, offset int64) error {
	for {
		m.mu.Lock()
		ok, changed := m.offset >= offset, m.changed
		m.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// brain answers registration and heartbeats as a controller would.
type brain struct {
	mu       sync.Mutex
	refuse   int // registrations to refuse first
	epoch    int64
	release  int // shutdown heartbeats before the broker may stop
	shutdown int
}

func (b *brain) answer(req kmsg.Request) kmsg.Response {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r := req.(type) {
	case *kmsg.BrokerRegistrationRequest:
		resp := kmsg.NewPtrBrokerRegistrationResponse()
		if b.refuse > 0 {
			b.refuse--
			resp.ErrorCode = int16(kerrors.DuplicateBrokerRegistration)
			return resp
		}
		resp.BrokerEpoch = b.epoch
		return resp
	case *kmsg.BrokerHeartbeatRequest:
		resp := kmsg.NewPtrBrokerHeartbeatResponse()
		resp.IsCaughtUp = r.CurrentMetadataOffset >= b.epoch
		resp.IsFenced = r.WantFence || !resp.IsCaughtUp
		if r.WantShutdown {
			b.shutdown++
			resp.ShouldShutdown = b.shutdown > b.release
		}
		return resp
	}
	return nil
}

func newTestBroker(f *fakeController, m *metadata, b *brain) (*Broker, *Channel) {
	f.setAnswer(b.answer)
	c := f.channel()
	return NewBroker(BrokerOptions{
		Channel: c, ClusterID: "c", NodeID: 3, IncarnationID: types.UUID{1}, PreviousBrokerEpoch: 17,
		Endpoints: []types.Endpoint{{Listener: "PLAINTEXT", Host: "h", Port: 9092}},
		LogDirs:   []types.UUID{{2}, {1}}, Features: []FeatureRange{{"metadata.version", 7, 30}},
		MetadataOffset: m.get, AwaitMetadata: m.await,
	}), c
}

func heartbeats(f *fakeController) []*kmsg.BrokerHeartbeatRequest {
	var out []*kmsg.BrokerHeartbeatRequest
	for _, r := range f.requests() {
		if h, ok := r.(*kmsg.BrokerHeartbeatRequest); ok {
			out = append(out, h)
		}
	}
	return out
}

func TestBrokerStartsWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFakeController(t), newMetadata()
		b, c := newTestBroker(f, m, &brain{epoch: 5})
		defer c.Close()
		begin := time.Now()
		b.ReadyToUnfence()
		b.Start()
		defer b.Close()
		c.SetController("a:1")
		<-b.Registered()
		if b.Epoch() != 5 || !b.Fenced() {
			t.Fatalf("epoch %d, fenced %v", b.Epoch(), b.Fenced())
		}
		synctest.Wait()
		m.set(5)
		<-b.Unfenced()
		if waited := time.Since(begin); waited != 0 {
			t.Fatalf("start took %v of waiting", waited)
		}
		reg := f.requests()[0].(*kmsg.BrokerRegistrationRequest)
		if reg.Version != 4 || reg.PreviousBrokerEpoch != 17 || len(reg.LogDirs) != 2 || reg.LogDirs[0] != [16]byte{1} || reg.Listeners[0].Port != 9092 {
			t.Fatalf("registration %+v", reg)
		}
		h := heartbeats(f)
		if first := h[0]; !first.WantFence {
			t.Fatalf("first heartbeat %+v", first)
		}
		if last := h[len(h)-1]; last.WantFence || last.CurrentMetadataOffset != 5 {
			t.Fatalf("last heartbeat %+v", last)
		}
		n := len(h)
		time.Sleep(9*time.Second + 500*time.Millisecond)
		synctest.Wait()
		if got := len(heartbeats(f)) - n; got != 4 {
			t.Fatalf("%d heartbeats in 9.5 s", got)
		}
	})
}

func TestBrokerRetriesRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFakeController(t), newMetadata()
		b, c := newTestBroker(f, m, &brain{epoch: 5, refuse: 3})
		defer c.Close()
		c.SetController("a:1")
		begin := time.Now()
		b.Start()
		defer b.Close()
		<-b.Registered()
		if waited := time.Since(begin); waited != 3*registerRetryMs*time.Millisecond {
			t.Fatalf("registered after %v", waited)
		}
	})
}

func TestBrokerReportsFailedDirsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFakeController(t), newMetadata()
		b, c := newTestBroker(f, m, &brain{epoch: 5})
		defer c.Close()
		c.SetController("a:1")
		m.set(5)
		b.ReadyToUnfence()
		b.Start()
		defer b.Close()
		<-b.Unfenced()
		synctest.Wait()
		begin := time.Now()
		b.DirOffline(types.UUID{2})
		synctest.Wait()
		h := heartbeats(f)
		last := h[len(h)-1]
		if len(last.OfflineLogDirs) != 1 || last.OfflineLogDirs[0] != [16]byte{2} || time.Since(begin) != 0 {
			t.Fatalf("heartbeat %+v after %v", last, time.Since(begin))
		}
	})
}

func TestControlledShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFakeController(t), newMetadata()
		b, c := newTestBroker(f, m, &brain{epoch: 5, release: 1})
		defer c.Close()
		c.SetController("a:1")
		m.set(5)
		b.ReadyToUnfence()
		b.Start()
		<-b.Unfenced()
		synctest.Wait()
		begin := time.Now()
		if err := b.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited != shutdownPollMs*time.Millisecond {
			t.Fatalf("released after %v", waited)
		}
		b.Close()
		if err := b.Shutdown(t.Context()); err != nil {
			t.Fatalf("a second shutdown: %v", err)
		}
	})
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, m := newFakeController(t), newMetadata()
		b, c := newTestBroker(f, m, &brain{epoch: 5, release: 1 << 30})
		defer c.Close()
		if err := b.Shutdown(t.Context()); err != nil {
			t.Fatalf("never registered: %v", err)
		}
		c.SetController("a:1")
		b.Start()
		defer b.Close()
		<-b.Registered()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err == nil {
			t.Fatal("released")
		}
	})
}
