package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openTimeout bounds the requests of Open.
const openTimeout = 30 * time.Second

// errNotHandling answers calls before Handle.
var errNotHandling = errors.New("consumer: Handle was not called")

// Consumer is one member of a group. Its methods may be called from anywhere
// except, for Drain and Close, from a handler.
type Consumer struct {
	cfg Config
	// prod sends and asks; it is apart from the group's client, so that a
	// quarantine append outlives a partition and an id is sent without a group.
	prod  *kgo.Client
	adm   *kadm.Client
	sends ledger

	loop    atomic.Pointer[loop]
	handled atomic.Bool
	failure atomic.Pointer[error]
	ended   chan struct{}
	endOnce sync.Once
	closing atomic.Bool
}

func open(cfg Config) (*Consumer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Consumer{cfg: cfg, ended: make(chan struct{})}
	c.sends.sink = cfg.Ledger
	opts := append(cfg.dial(),
		kgo.AlwaysRetryEOF(),
		kgo.RecordDeliveryTimeout(cfg.SendTimeout),
		kgo.WithHooks(&c.sends),
	)
	if c.prod, err = kgo.NewClient(opts...); err != nil {
		return nil, fmt.Errorf("consumer: %w", err)
	}
	c.adm = kadm.NewClient(c.prod)
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if err := c.check(ctx); err != nil {
		c.prod.Close()
		return nil, err
	}
	return c, nil
}

// dial is what each client begins with. Clients that outlive Open add
// AlwaysRetryEOF: without it, a broker that stops while a connection is being
// opened is taken for a wrong security setting and a record is given up. The one
// that asks first goes without, so that a wrong setting is named at once.
func (cfg *Config) dial() []kgo.Opt {
	return append(append([]kgo.Opt{}, cfg.Options...), kgo.SeedBrokers(cfg.Brokers...))
}

// check asks the cluster what the configuration needs.
func (c *Consumer) check(ctx context.Context) error {
	probe, err := kgo.NewClient(c.cfg.dial()...)
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	defer probe.Close()
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, probe)
	if err != nil {
		return fmt.Errorf("consumer: ask %v: %w", c.cfg.Brokers, err)
	}
	serves := false
	for _, k := range resp.ApiKeys {
		serves = serves || k.ApiKey == int16(kmsg.ConsumerGroupHeartbeat)
	}
	if c.cfg.Protocol == ProtocolConsumer && !serves {
		return errors.New("consumer: the cluster does not serve the consumer group protocol (KIP-848)")
	}
	return c.ensureQuarantine(ctx)
}

// ensureQuarantine makes the quarantine topic with the cluster's defaults when it
// is missing: a record can only be closed when its quarantine append is
// acknowledged, and finding out at the first bad record is too late.
func (c *Consumer) ensureQuarantine(ctx context.Context) error {
	topic := c.cfg.QuarantineTopic
	if topic == "" {
		return nil
	}
	details, err := c.adm.ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("consumer: look for the quarantine topic %s: %w", topic, err)
	}
	if details.Has(topic) {
		return nil
	}
	if _, err := c.adm.CreateTopic(ctx, -1, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("consumer: create the quarantine topic %s: %w", topic, err)
	}
	return nil
}

func (c *Consumer) handle(h Handler) error {
	if h == nil {
		return errors.New("consumer: the handler is nil")
	}
	if c.closing.Load() {
		return ErrClosed
	}
	if !c.handled.CompareAndSwap(false, true) {
		return errors.New("consumer: Handle was called before")
	}
	l := newLoop(c, h)
	cl, err := kgo.NewClient(l.clientOptions()...)
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	l.cl = cl
	close(l.clientReady)
	c.loop.Store(l)
	go l.run()
	go l.pollForever()
	return nil
}

// clientOptions sets up the group's client: no autocommit, no silent reset, and
// no rebalance callback between a poll and the loop taking in what it returned.
func (l *loop) clientOptions() []kgo.Opt {
	cfg := l.cfg
	opts := append(cfg.dial(),
		kgo.AlwaysRetryEOF(),
		kgo.ConsumerGroup(cfg.Group),
		kgo.ConsumeTopics(cfg.Topics...),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(l.onAssigned),
		kgo.OnPartitionsRevoked(l.onRevoked),
		kgo.OnPartitionsLost(l.onLost),
		kgo.OnOffsetsFetched(l.onFetched),
		kgo.AdjustFetchOffsetsFn(l.adjust),
		kgo.KeepControlRecords(), // so that the position passes transaction markers
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), // adjust decides
		kgo.FetchMaxBytes(cfg.FetchBytes),
		kgo.FetchMaxPartitionBytes(l.sizer.now),
		kgo.FetchMaxWait(cfg.FetchWait),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(cfg.HeartbeatInterval),
		kgo.RebalanceTimeout(cfg.RebalanceTimeout),
	)
	if cfg.Isolation == ReadCommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(cfg.InstanceID))
	}
	switch cfg.Protocol {
	case ProtocolEager:
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case ProtocolConsumer:
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	default:
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	return opts
}

// onLoop runs fn on the loop and waits for it.
func (c *Consumer) onLoop(ctx context.Context, fn func(*loop)) error {
	l := c.loop.Load()
	if l == nil {
		if c.closing.Load() {
			return ErrClosed
		}
		return errNotHandling
	}
	done := make(chan struct{})
	select {
	case l.calls <- func() { fn(l); close(done) }:
	case <-l.dead:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-l.dead:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Consumer) close(ctx context.Context) error {
	if !c.closing.CompareAndSwap(false, true) {
		return c.Wait(ctx)
	}
	if l := c.loop.Load(); l != nil {
		l.leave(ctx)
	}
	c.prod.Close()
	c.endOnce.Do(func() { close(c.ended) })
	return c.Err()
}

// fail ends the consumer with an error: it leaves the group as Close does.
func (c *Consumer) fail(err error) {
	if c.failure.CompareAndSwap(nil, &err) {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*c.cfg.DrainTimeout)
			defer cancel()
			_ = c.close(ctx)
		}()
	}
}
