package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

const (
	// DefaultHeartbeatIntervalMs is broker.heartbeat.interval.ms.
	DefaultHeartbeatIntervalMs = 2000
	// registerRetryMs is the wait after a refused registration, for example
	// while the session of the incarnation before still lives.
	registerRetryMs = 200
	// shutdownPollMs is the wait for the second answer in a controlled
	// shutdown, which mostly ends it.
	shutdownPollMs = 50
)

// FeatureRange is what this broker supports of a feature.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// BrokerOptions of NewBroker.
type BrokerOptions struct {
	Channel       Sender
	ClusterID     string
	NodeID        int32
	IncarnationID types.UUID // new for every start of the process
	Endpoints     []types.Endpoint
	Rack          *string
	LogDirs       []types.UUID // online directories
	Features      []FeatureRange
	// PreviousBrokerEpoch is the epoch that a clean stop left (logdir's
	// clean-shutdown file); -1 after any other stop.
	PreviousBrokerEpoch int64
	// HeartbeatIntervalMs is broker.heartbeat.interval.ms (2000).
	HeartbeatIntervalMs int
	// MetadataOffset is the last offset of the broker's newest published image.
	MetadataOffset func() int64
	// AwaitMetadata waits until the broker has published an image with offset
	// (loader.AwaitOffset).
	AwaitMetadata func(ctx context.Context, offset int64) error
	Logger        *slog.Logger
}

// Broker registers this broker and keeps its session alive.
type Broker struct {
	opts BrokerOptions
	log  *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{}
	kick   chan struct{} // ends the wait before the next heartbeat
	epoch  atomic.Int64
	fenced atomic.Bool

	registered   chan struct{}
	unfenced     chan struct{}
	released     chan struct{} // the controller lets the broker stop
	unfencedOnce sync.Once

	mu       sync.Mutex
	ready    bool
	caughtUp bool // published an image with our registration
	stopping bool
	offline  []types.UUID
	watches  sync.WaitGroup
}

// NewBroker returns a broker that is not yet registered.
func NewBroker(o BrokerOptions) *Broker {
	if o.HeartbeatIntervalMs <= 0 {
		o.HeartbeatIntervalMs = DefaultHeartbeatIntervalMs
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{
		opts: o, log: o.Logger, done: make(chan struct{}), kick: make(chan struct{}, 1),
		registered: make(chan struct{}), unfenced: make(chan struct{}), released: make(chan struct{}),
	}
	b.epoch.Store(-1)
	b.fenced.Store(true)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Start registers at once, retrying until Close. Call it once.
func (b *Broker) Start() { go b.run() }

// Epoch is the broker epoch, -1 before registration.
func (b *Broker) Epoch() int64 { return b.epoch.Load() }

// Fenced reports what the last heartbeat's answer said; true before.
func (b *Broker) Fenced() bool { return b.fenced.Load() }

// Registered is closed when the controller has given an epoch.
func (b *Broker) Registered() <-chan struct{} { return b.registered }

// Unfenced is closed when the controller has unfenced this broker the first time.
func (b *Broker) Unfenced() <-chan struct{} { return b.unfenced }

// ReadyToUnfence says that recovery is done; the broker asks to be unfenced as
// soon as it has also caught up with the metadata log.
func (b *Broker) ReadyToUnfence() {
	b.mu.Lock()
	b.ready = true
	b.mu.Unlock()
	b.kickNow()
}

// DirOffline reports a failed log dir with the next heartbeat, sent at once.
func (b *Broker) DirOffline(id types.UUID) {
	b.mu.Lock()
	if !slices.Contains(b.offline, id) {
		b.offline = append(b.offline, id)
	}
	b.mu.Unlock()
	b.kickNow()
}

// Shutdown asks for a controlled shutdown and returns when the controller
// lets go (its leaderships have moved or cannot), or ctx ends. A broker that
// was never registered returns at once.
func (b *Broker) Shutdown(ctx context.Context) error {
	if b.Epoch() < 0 {
		return nil
	}
	b.mu.Lock()
	b.stopping = true
	b.mu.Unlock()
	b.kickNow()
	select {
	case <-b.released:
		return nil
	case <-b.done:
		select {
		case <-b.released: // it ends the loop too
			return nil
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the heartbeats. Only after Start.
func (b *Broker) Close() {
	b.cancel()
	<-b.done
	b.watches.Wait()
}

func (b *Broker) kickNow() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

func (b *Broker) run() {
	defer close(b.done)
	for !b.register() {
		if !b.pause(registerRetryMs, false) {
			return
		}
	}
	b.watch(b.Epoch(), func() {
		b.mu.Lock()
		b.caughtUp = true
		b.mu.Unlock()
	})
	shutdownAnswers := 0
	for {
		resp, sent := b.heartbeat()
		waitMs := b.opts.HeartbeatIntervalMs
		if resp != nil {
			if b.note(resp, sent) {
				return
			}
			if sent.WantShutdown {
				if shutdownAnswers++; shutdownAnswers == 1 {
					waitMs = min(waitMs, shutdownPollMs)
				}
			}
		}
		if !b.pause(waitMs, true) {
			return
		}
	}
}

// pause waits; a kick ends it early when kickable. False means closed.
func (b *Broker) pause(ms int, kickable bool) bool {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	var kick <-chan struct{}
	if kickable {
		kick = b.kick
	}
	select {
	case <-t.C:
	case <-kick:
	case <-b.ctx.Done():
		return false
	}
	return b.ctx.Err() == nil
}

// watch runs f and sends a heartbeat when the broker has published offset.
func (b *Broker) watch(offset int64, f func()) {
	b.watches.Add(1)
	go func() {
		defer b.watches.Done()
		if err := b.opts.AwaitMetadata(b.ctx, offset); err != nil {
			if b.ctx.Err() == nil {
				b.log.Error("the broker cannot follow the metadata log", "offset", offset, "err", err)
			}
			return
		}
		f()
		b.kickNow()
	}()
}

func (b *Broker) register() bool {
	resp, err := b.opts.Channel.Send(b.ctx, b.registration())
	if err != nil {
		if b.ctx.Err() == nil {
			b.log.Warn("registering the broker failed, trying again", "err", err)
		}
		return false
	}
	r, ok := resp.(*kmsg.BrokerRegistrationResponse)
	if !ok {
		b.log.Error("registering the broker: answer of another kind")
		return false
	}
	if code := kerrors.Code(r.ErrorCode); code != kerrors.None {
		b.log.Warn("the controller refused to register the broker, trying again", "err", code)
		return false
	}
	b.epoch.Store(r.BrokerEpoch)
	b.log.Info("registered", "brokerEpoch", r.BrokerEpoch)
	close(b.registered)
	return true
}

func (b *Broker) registration() *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.BrokerID, req.ClusterID, req.IncarnationID = b.opts.NodeID, b.opts.ClusterID, b.opts.IncarnationID
	req.Rack, req.PreviousBrokerEpoch = b.opts.Rack, b.opts.PreviousBrokerEpoch
	for _, e := range b.opts.Endpoints {
		l := kmsg.NewBrokerRegistrationRequestListener()
		l.Name, l.Host, l.Port, l.SecurityProtocol = e.Listener, e.Host, uint16(e.Port), e.SecurityProtocol
		req.Listeners = append(req.Listeners, l)
	}
	for _, f := range b.opts.Features {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, x)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.opts.LogDirs {
		if !slices.Contains(b.offline, d) {
			req.LogDirs = append(req.LogDirs, d)
		}
	}
	slices.SortFunc(req.LogDirs, func(x, y [16]byte) int { return slices.Compare(x[:], y[:]) })
	return req
}

// heartbeat sends one; the response is nil when it failed.
func (b *Broker) heartbeat() (*kmsg.BrokerHeartbeatResponse, *kmsg.BrokerHeartbeatRequest) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch = b.opts.NodeID, b.Epoch()
	req.CurrentMetadataOffset = b.opts.MetadataOffset()
	b.mu.Lock()
	req.WantFence = !b.ready || !b.caughtUp
	req.WantShutdown = b.stopping
	for _, d := range b.offline {
		req.OfflineLogDirs = append(req.OfflineLogDirs, d)
	}
	b.mu.Unlock()
	// A heartbeat that cannot be delivered is replaced by a newer one.
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Duration(b.opts.HeartbeatIntervalMs)*time.Millisecond)
	defer cancel()
	resp, err := b.opts.Channel.Send(ctx, req)
	if err != nil {
		if !errors.Is(err, ErrClosed) && b.ctx.Err() == nil {
			b.log.Warn("heartbeat to the controller failed", "err", err)
		}
		return nil, req
	}
	r, ok := resp.(*kmsg.BrokerHeartbeatResponse)
	if !ok {
		b.log.Error("heartbeat: answer of another kind")
		return nil, req
	}
	if code := kerrors.Code(r.ErrorCode); code != kerrors.None {
		b.log.Warn("the controller refused the heartbeat", "err", code)
		return nil, req
	}
	return r, req
}

// note takes in an answer; true means that the broker may stop.
func (b *Broker) note(r *kmsg.BrokerHeartbeatResponse, sent *kmsg.BrokerHeartbeatRequest) bool {
	b.fenced.Store(r.IsFenced)
	if !r.IsFenced {
		b.unfencedOnce.Do(func() {
			b.log.Info("unfenced", "brokerEpoch", b.Epoch())
			close(b.unfenced)
		})
	}
	if sent.WantShutdown && r.ShouldShutdown {
		close(b.released)
		return true
	}
	// Fenced for lack of metadata only: ask again when there is more of it.
	if r.IsFenced && !sent.WantFence || sent.WantShutdown {
		b.watch(sent.CurrentMetadataOffset+1, func() {})
	}
	return false
}
