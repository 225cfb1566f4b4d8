package replica

import (
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Partition is one replica on this broker: the core that decides, the log that
// stores, and the locks that keep them in step.
type Partition struct {
	tp types.TopicIDPartition
	m  *Manager

	// leadership is held shared while something is appended or read as of a
	// leader epoch, and exclusively while that epoch changes.
	leadership sync.RWMutex

	mu   sync.Mutex // guards core and cfg
	core *partition.Core
	cfg  config.TopicConfig

	view atomic.Pointer[view]
	// listener hears of the high watermark: the coordinator of this partition.
	listener atomic.Pointer[HighWatermarkListener]
	// tailReaders counts parked fetches that read to the log end (followers and
	// debugging consumers): only for them an append by itself is news.
	tailReaders atomic.Int32
	queued      atomic.Bool // in the waker's queue
}

// view is what the hot path needs of the core, published after every change.
type view struct {
	log            *log.Log // nil when the folder failed before the log was there
	role           partition.Role
	leader         int32
	leaderEpoch    int32
	partitionEpoch int32
	reign          int32
	epochStart     int64
	strict         bool
	offline        bool // the folder failed
	deleted        bool
	underMinISR    bool // committed ISR too small: refuse acks=all
	ackable        bool // maximal ISR large enough to acknowledge acks=all
	solo           bool // no other replica: the leader alone decides
}

func newPartition(m *Manager, tp types.TopicIDPartition, cfg config.TopicConfig, highWatermark int64) *Partition {
	p := &Partition{tp: tp, m: m, cfg: cfg}
	p.core = partition.New(p.coreConfig(cfg), highWatermark)
	p.view.Store(&view{leader: partition.NoLeader, leaderEpoch: -1, epochStart: partition.UnknownOffset})
	return p
}

func (p *Partition) coreConfig(cfg config.TopicConfig) partition.Config {
	return partition.Config{
		NodeID: p.m.opts.NodeID, LagTimeMaxMs: p.m.opts.LagTimeMaxMs, MinISR: max(cfg.MinInsyncReplicas, 1),
		Strict: cfg.Durability == config.Strict, Brokers: p.m.broker,
	}
}

func logEnds(l *log.Log) partition.LogEnds {
	return partition.LogEnds{Start: l.LogStartOffset(), End: l.LogEndOffset(), Durable: l.DurableEndOffset()}
}

// publish makes the core's state visible to the hot path; p.mu is held.
func (p *Partition) publish(l *log.Log, offline, deleted bool) {
	c := p.core
	p.view.Store(&view{
		log: l, role: c.Role(), leader: c.Leader(), leaderEpoch: c.LeaderEpoch(), partitionEpoch: c.PartitionEpoch(),
		reign: c.Reign(), epochStart: c.EpochStart(), strict: p.cfg.Durability == config.Strict, offline: offline, deleted: deleted,
		underMinISR: c.UnderMinISR(), ackable: len(c.MaximalISR()) >= c.EffectiveMinISR(), solo: len(c.Replicas()) <= 1,
	})
}

// republish is publish with the log and the fault state as they are.
func (p *Partition) republish() {
	v := p.view.Load()
	p.publish(v.log, v.offline, v.deleted)
}

// settle carries out effects; p.mu is held. It reports whether the high
// watermark moved. The proposal, if any, is for the caller to send once no lock
// is held.
func (p *Partition) settle(l *log.Log, fx partition.Effects) bool {
	if !fx.Advanced || l == nil {
		return false
	}
	hw := l.SetHighWatermark(fx.HighWatermark)
	if lis := p.listener.Load(); lis != nil {
		(*lis).OnHighWatermark(p.tp.TopicPartition(), hw)
	}
	return true
}

// step runs one input of the core and acts on its effects. Operations that wait
// are completed by the waker, not here.
func (p *Partition) step(input func(c *partition.Core, nowMs int64) partition.Effects) partition.Effects {
	now := p.m.opts.NowMs()
	p.mu.Lock()
	before := len(p.core.MaximalISR())
	fx := input(p.core, now)
	v := p.view.Load()
	advanced := p.settle(v.log, fx)
	if fx.Alter != nil || len(p.core.MaximalISR()) != before {
		p.republish()
	}
	p.mu.Unlock()
	if advanced {
		p.m.waker.wake(p)
	}
	if fx.Alter != nil {
		p.m.propose(p, *fx.Alter, fx.Retry)
	}
	return fx
}

// appended notes a new log end after a leader append.
func (p *Partition) appended(l *log.Log) {
	end := l.LogEndOffset()
	p.step(func(c *partition.Core, now int64) partition.Effects { return c.LocalAppended(now, end) })
	if p.tailReaders.Load() > 0 {
		p.m.waker.wake(p)
	}
}

// durable notes that the log is safe below end; called by the commit loop.
func (p *Partition) durable(end int64) {
	p.step(func(c *partition.Core, now int64) partition.Effects { return c.LocalDurable(now, end) })
	p.m.waker.wake(p) // acks=1 waits for durability, not for the high watermark
}

// check says whether the replica may serve at all.
func (v *view) check() kerrors.Code {
	switch {
	case v.deleted:
		return kerrors.UnknownTopicOrPartition
	case v.offline || v.log == nil:
		return kerrors.KafkaStorageError
	}
	return kerrors.None
}

// leading says whether the replica may serve as leader for someone who believes
// in epoch (-1: anything). The order is Kafka's: the epoch first, so that a
// stale client learns that it is stale.
func (v *view) leading(epoch int32) kerrors.Code {
	if c := v.check(); c != kerrors.None {
		return c
	}
	if c := partition.CheckEpoch(epoch, v.leaderEpoch); c != kerrors.None {
		return c
	}
	if v.role != partition.RoleLeader {
		return kerrors.NotLeaderOrFollower
	}
	return kerrors.None
}

// readable is leading for readers that a follower may serve as well (KIP-392).
func (v *view) readable(epoch int32, leaderOnly bool) kerrors.Code {
	if leaderOnly || v.role == partition.RoleLeader {
		return v.leading(epoch)
	}
	if c := v.check(); c != kerrors.None {
		return c
	}
	if c := partition.CheckEpoch(epoch, v.leaderEpoch); c != kerrors.None {
		return c
	}
	if v.role == partition.RoleNone {
		return kerrors.NotLeaderOrFollower
	}
	return kerrors.None
}

// hint is the leader as this broker knows it.
func (v *view) hint() *LeaderHint { return &LeaderHint{LeaderID: v.leader, LeaderEpoch: v.leaderEpoch} }
