package groupservice

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/coordinator/runtime"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/types"
)

// expireBatch bounds the tombstones of one pass over one shard.
const expireBatch = 10_000

// Options of New.
type Options struct {
	Log   runtime.Log // the replica manager
	Group group.Config
	// Partitions is how many partitions __consumer_offsets has now
	// (offsets.topic.num.partitions once it exists); 0 while there is no topic.
	Partitions func() int
	NowMs      func() int64 // the wall clock
	// GroupConfig resolves the settings of one group. Default: Group.Consumer.Of.
	GroupConfig func(im *image.Image, group string) consumer.GroupConfig
	// ConsumerProtocolOff refuses KIP-848 (group.coordinator.rebalance.protocols).
	ConsumerProtocolOff bool
	// Session bounds of the classic protocol, group.min.session.timeout.ms and
	// group.max.session.timeout.ms. Default 6000 and 1800000.
	MinSessionMs, MaxSessionMs int64
	// ExpireEveryMs is offsets.retention.check.interval.ms. Default 600000.
	ExpireEveryMs int64
	// LingerMs is group.coordinator.append.linger.ms; below 0 is adaptive.
	LingerMs int
	// CommitTimeout is offsets.commit.timeout.ms. Default 5 s.
	CommitTimeout time.Duration
	Logger        *slog.Logger
}

// Service is the group coordinator of one broker. Safe for concurrent use.
type Service struct {
	opts    Options
	runtime *runtime.Runtime[*group.Shard]
	topics  atomic.Pointer[topics]
	known   chan struct{} // closed when the cluster's topics are known, by first
	first   sync.Once
	configs groupConfigs
	started time.Time
	// stopping ends with the service; halt ends it.
	stopping context.Context
	halt     context.CancelFunc
	wg       sync.WaitGroup
	// resolving has a token for each look at regular expressions under way.
	resolving chan struct{}
	mu        sync.Mutex // orders what begins in the background and Close
}

// New returns a running service without shards; they come with OnElected.
func New(o Options) *Service {
	if o.NowMs == nil {
		o.NowMs = func() int64 { return time.Now().UnixMilli() }
	}
	if o.ExpireEveryMs == 0 {
		o.ExpireEveryMs = 600_000
	}
	if o.MaxSessionMs == 0 {
		o.MinSessionMs, o.MaxSessionMs = 6000, 1_800_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{opts: o, started: time.Now(), resolving: make(chan struct{}, maxResolving), known: make(chan struct{})}
	s.stopping, s.halt = context.WithCancel(context.Background())
	s.topics.Store(&topics{im: image.Empty()})
	if o.GroupConfig != nil {
		s.configs.of = o.GroupConfig
		o.Group.Consumer.Of = func(id string) consumer.GroupConfig { return s.configs.get(s.topics.Load().im, id) }
	}
	o.Group.Classic.Observe, o.Group.Consumer.Observe = s.observe, s.observe
	o.Group.Consumer.Resolve = s.resolve
	o.Group.Metadata = func() consumer.Metadata { return s.topics.Load() }
	s.runtime = runtime.New(runtime.Options[*group.Shard]{
		Topic: types.ConsumerOffsetsTopic, Log: o.Log, NowMs: o.NowMs, TickMs: s.tickMs, LingerMs: o.LingerMs, WriteTimeout: o.CommitTimeout,
		Logger: o.Logger,
		NewShard: func(types.TopicPartition) *group.Shard {
			s.awaitTopics() // what grew while nobody led the shard shows when it is loaded
			return group.NewShard(o.Group)
		},
	})
	s.wg.Go(s.expireLoop)
	return s
}

// tickMs is the clock of sessions and timeouts: it only goes forward.
func (s *Service) tickMs() int64 { return time.Since(s.started).Milliseconds() }

func (s *Service) now() coordinator.Now {
	return coordinator.Now{WallMs: s.opts.NowMs(), TickMs: s.tickMs()}
}

// OnElected implements replica.LeadershipListener.
func (s *Service) OnElected(tp types.TopicPartition, leaderEpoch int32) {
	s.runtime.OnElected(tp, leaderEpoch)
}

// OnResigned implements replica.LeadershipListener.
func (s *Service) OnResigned(tp types.TopicPartition) { s.runtime.OnResigned(tp) }

// Close ends the background work and drops the shards.
func (s *Service) Close() {
	s.mu.Lock()
	s.halt()
	s.mu.Unlock()
	s.runtime.Close()
	s.wg.Wait()
}

// background runs f unless the service ends; Close waits for it.
func (s *Service) background(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Err() == nil {
		s.wg.Go(f)
	}
}

// PartitionFor says which of n partitions of __consumer_offsets holds a group.
func (s *Service) PartitionFor(group string, n int) int32 { return runtime.PartitionFor(group, n) }

func (s *Service) shardOf(group string) (types.TopicPartition, error) {
	n := s.opts.Partitions()
	if n == 0 {
		return types.TopicPartition{}, kerrors.CoordinatorNotAvailable
	}
	return types.TopicPartition{Topic: types.ConsumerOffsetsTopic, Partition: runtime.PartitionFor(group, n)}, nil
}

// OnTopicsDeleted drops the offsets of topics that a delta deleted, on every
// loaded shard, in the background. A shard that is not loaded does it after its
// next load only through expiry, as in Apache Kafka.
func (s *Service) OnTopicsDeleted(d *image.Delta) {
	var gone []types.TopicIDPartition
	for t := range d.DeletedTopics() {
		gone = append(gone, types.TopicIDPartition{TopicID: t.ID, Topic: t.Name})
	}
	if len(gone) == 0 {
		return
	}
	s.onAll("drop offsets of deleted topics", func(g *group.Shard) coordinator.Result[int] { return g.OnTopicsDeleted(gone) })
}

// Expire drops offsets past their retention on every loaded shard.
func (s *Service) Expire() {
	s.onAll("expire offsets", func(g *group.Shard) coordinator.Result[int] { return g.Expire(s.now(), expireBatch) })
}

func (s *Service) expireLoop() {
	t := time.NewTicker(time.Duration(s.opts.ExpireEveryMs) * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-t.C:
			s.Expire()
		}
	}
}

func (s *Service) onAll(what string, op func(*group.Shard) coordinator.Result[int]) {
	for _, tp := range s.runtime.Active() {
		runtime.Write(s.runtime, tp, func(g *group.Shard) (coordinator.Result[int], error) { return op(g), nil }, func(n int, err error) {
			if err != nil {
				s.opts.Logger.Warn("cannot "+what, "partition", tp.String(), "err", err)
			} else if n > 0 {
				s.opts.Logger.Info(what, "partition", tp.String(), "offsets", n)
			}
		})
	}
}

func write[T any](ctx context.Context, s *Service, id string, op func(*group.Shard) (coordinator.Result[T], error)) (T, error) {
	tp, err := s.shardOf(id)
	if err != nil {
		var none T
		return none, err
	}
	return wait(ctx, func(done func(T, error)) { runtime.Write(s.runtime, tp, op, done) })
}

// wait turns a callback into a return value; the context bounds it.
func wait[T any](ctx context.Context, start func(done func(T, error))) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	ch := make(chan outcome, 1)
	start(func(v T, err error) { ch <- outcome{v, err} })
	select {
	case o := <-ch:
		return o.v, o.err
	case <-ctx.Done():
		var none T
		return none, kerrors.Wrap(kerrors.CoordinatorNotAvailable, ctx.Err(), "the request was given up")
	}
}

// Samples lists the groups that this broker coordinates, for metrics; shards
// that load are left out.
func (s *Service) Samples(ctx context.Context) []group.Sample {
	var out []group.Sample
	for _, tp := range s.runtime.Active() {
		samples, err := wait(ctx, func(done func([]group.Sample, error)) {
			runtime.Read(s.runtime, tp, func(g *group.Shard, _ int64) ([]group.Sample, error) { return g.Samples(s.now()), nil }, done)
		})
		if err == nil {
			out = append(out, samples...)
		}
	}
	return out
}

// observe writes what happens to groups into the log.
func (s *Service) observe(e coordinator.Event) {
	level := slog.LevelInfo
	if e.Minor {
		level = slog.LevelDebug
	}
	args := []any{"group", e.Group, "epoch", e.Epoch, "members", e.Size}
	if e.Member != "" {
		args = append(args, "member", e.Member)
	}
	s.opts.Logger.Log(context.Background(), level, e.What, args...)
}
