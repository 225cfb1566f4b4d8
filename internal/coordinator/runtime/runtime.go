package runtime

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// Shard is a coordinator core. Calls are serialized.
type Shard interface {
	// Replay applies the record at offset; producerID is -1 outside transactions.
	Replay(offset, producerID int64, key, value []byte) error
	// ReplayEndTransaction applies a transaction marker.
	ReplayEndTransaction(offset, producerID int64, commit bool) error
	// Commit says that everything below offset is committed.
	Commit(offset int64)
	// Revert undoes everything at or above offset, which is not committed.
	Revert(offset int64)
}

// Timed is a shard that acts by itself. Its timers are soft state, which it
// makes when it is loaded.
type Timed interface {
	Shard
	// Loaded is called once, when the whole log is applied.
	Loaded(now coordinator.Now) coordinator.Output
	// NextTimer returns a time (Now.TickMs) before which no timer is due.
	NextTimer() (tickMs int64, ok bool)
	// FireTimer acts on one timer that is due; false when there is none.
	FireTimer(now coordinator.Now) (coordinator.Output, bool)
	// Unload gives up everything that is parked; the effects get an error.
	Unload() []coordinator.Effect
}

// Log is the partitions that shards live in; replica.Manager is it.
type Log interface {
	Tail(tp types.TopicPartition) (replica.Tail, error)
	ReadTail(tp types.TopicPartition, offset, upper int64, maxBytes int) (wire.Payload, error)
	AppendCoordinator(in replica.CoordinatorAppend) (firstOffset, lastOffset int64, err error)
	// Listen sets the high watermark listener (nil: none) and returns the high
	// watermark; false when this broker does not lead tp.
	Listen(tp types.TopicPartition, l replica.HighWatermarkListener) (int64, bool)
}

// Options of New.
type Options[S Shard] struct {
	// Topic is the internal topic whose partitions are the shards.
	Topic string
	Log   Log
	// NewShard returns an empty core for a partition.
	NewShard func(tp types.TopicPartition) S
	// NowMs is the wall clock, for record timestamps. Default: the system's.
	NowMs func() int64
	// TickMs is a clock that nobody sets, for timers. Default: the time since
	// the start, from the system's monotonic clock.
	TickMs func() int64
	// LingerMs waits for more requests before a batch is appended; -1 appends
	// as soon as no request is queued (group.coordinator.append.linger.ms).
	LingerMs int
	// WriteTimeout is how long a response may wait for the high watermark
	// (offsets.commit.timeout.ms). Default 5 s.
	WriteTimeout time.Duration
	// Loaders is how many shards load at once. Default 4.
	Loaders int
	// LoadBufferBytes is read at once while loading (offsets.load.buffer.size).
	// Default 5 MiB.
	LoadBufferBytes int
	// MaxQueued bounds the requests that wait for one shard's turn, and those
	// that wait for its commits. Default 10000 each.
	MaxQueued int
	Logger    *slog.Logger
}

func (o Options[S]) withDefaults() Options[S] {
	if o.NowMs == nil {
		o.NowMs = func() int64 { return time.Now().UnixMilli() }
	}
	if o.TickMs == nil {
		start := time.Now()
		o.TickMs = func() int64 { return time.Since(start).Milliseconds() }
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 5 * time.Second
	}
	if o.Loaders == 0 {
		o.Loaders = 4
	}
	if o.LoadBufferBytes == 0 {
		o.LoadBufferBytes = 5 << 20
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = 10_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Runtime runs the shards of one internal topic. Safe for concurrent use.
type Runtime[S Shard] struct {
	opts    Options[S]
	loading chan struct{} // a token per shard that loads

	listening sync.Mutex // orders who hears of high watermarks; after mu, before shard.mu

	mu     sync.RWMutex
	shards map[int32]*shard[S]
	closed bool
	wg     sync.WaitGroup
}

// New returns a runtime without shards. Register it for leadership changes with
// the replica manager (OnElected, OnResigned).
func New[S Shard](opts Options[S]) *Runtime[S] {
	r := &Runtime[S]{opts: opts.withDefaults(), shards: map[int32]*shard[S]{}}
	r.loading = make(chan struct{}, r.opts.Loaders)
	return r
}

// Write runs op on the shard of tp and calls done exactly once: with op's error
// at once, else with its response when its records are committed. Errors of the
// log are mapped to what a coordinator's client understands. The result's
// effects are delivered after done.
func Write[S Shard, T any](r *Runtime[S], tp types.TopicPartition, op func(S) (coordinator.Result[T], error), done func(T, error)) {
	var none T
	r.submit(tp, func(s *shard[S]) {
		res, err := op(s.core)
		if err != nil {
			done(none, err)
			return
		}
		s.write(res.Records, res.NonAtomic, func(err error) {
			if err != nil {
				done(none, err)
			} else {
				done(res.Response, nil)
			}
			s.deliver(res.Effects, err)
		})
	}, func(err error) { done(none, err) })
}

// Read runs op on the shard of tp with the offset below which the shard's state
// is committed, and calls done exactly once. op must not keep what it reads.
func Read[S Shard, T any](r *Runtime[S], tp types.TopicPartition, op func(core S, committed int64) (T, error), done func(T, error)) {
	r.submit(tp, func(s *shard[S]) {
		done(op(s.core, s.committed))
	}, func(err error) {
		var none T
		done(none, err)
	})
}

func (r *Runtime[S]) submit(tp types.TopicPartition, do func(*shard[S]), fail func(error)) {
	s := r.shard(tp)
	if s == nil {
		fail(kerrors.NotCoordinator)
		return
	}
	s.submit(event[S]{do: do, fail: fail})
}

func (r *Runtime[S]) shard(tp types.TopicPartition) *shard[S] {
	if tp.Topic != r.opts.Topic {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shards[tp.Partition]
}

// Active lists the partitions whose shards are loaded.
func (r *Runtime[S]) Active() []types.TopicPartition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []types.TopicPartition
	for _, s := range r.shards {
		if s.isActive() {
			out = append(out, s.tp)
		}
	}
	return out
}

// Shards lists the partitions that this broker leads, loaded or not, in order.
func (r *Runtime[S]) Shards() []types.TopicPartition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]types.TopicPartition, 0, len(r.shards))
	for _, s := range r.shards {
		out = append(out, s.tp)
	}
	slices.SortFunc(out, func(a, b types.TopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

// OnElected implements replica.LeadershipListener: the shard of tp is loaded in
// the background. A shard that is loaded in an older epoch is loaded again.
func (r *Runtime[S]) OnElected(tp types.TopicPartition, leaderEpoch int32) {
	if tp.Topic != r.opts.Topic {
		return
	}
	answer := func() {}
	r.mu.Lock()
	old := r.shards[tp.Partition]
	if r.closed || (old != nil && old.epoch >= leaderEpoch) {
		r.mu.Unlock()
		return
	}
	if old != nil {
		answer = old.detach(kerrors.NotCoordinator)
	}
	s := newShard(r, tp, leaderEpoch)
	r.shards[tp.Partition] = s
	r.wg.Go(s.load)
	r.mu.Unlock()
	answer()
}

// startLoad loads s in the background unless the runtime is closed.
func (r *Runtime[S]) startLoad(s *shard[S]) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.closed {
		r.wg.Go(s.load)
	}
}

// OnResigned implements replica.LeadershipListener: what waits on the shard is
// answered NOT_COORDINATOR and its state is dropped.
func (r *Runtime[S]) OnResigned(tp types.TopicPartition) {
	if tp.Topic != r.opts.Topic {
		return
	}
	r.mu.Lock()
	s := r.shards[tp.Partition]
	delete(r.shards, tp.Partition)
	answer := func() {}
	if s != nil {
		answer = s.detach(kerrors.NotCoordinator)
	}
	r.mu.Unlock()
	answer()
}

// Close drops all shards; what waits is answered NOT_COORDINATOR.
func (r *Runtime[S]) Close() {
	r.mu.Lock()
	r.closed = true
	var answers []func()
	for _, s := range r.shards {
		answers = append(answers, s.detach(kerrors.NotCoordinator))
	}
	r.shards = map[int32]*shard[S]{}
	r.mu.Unlock()
	for _, answer := range answers {
		answer()
	}
	r.wg.Wait()
}
