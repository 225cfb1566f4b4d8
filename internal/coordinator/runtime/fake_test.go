package runtime

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/timeline"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// kv is a small coordinator core: records set and delete keys.
type kv struct {
	reg  *timeline.Registry
	m    *timeline.Map[string, string]
	boom string // a key whose replay panics
}

func newKV() *kv {
	reg := &timeline.Registry{}
	return &kv{reg: reg, m: timeline.NewMap[string, string](reg)}
}

func (s *kv) Replay(offset, _ int64, key, value []byte) error {
	if s.boom != "" && string(key) == s.boom {
		panic("boom")
	}
	if value == nil {
		s.m.Delete(offset, string(key))
		return nil
	}
	s.m.Set(offset, string(key), string(value))
	return nil
}
func (s *kv) ReplayEndTransaction(int64, int64, bool) error { return nil }
func (s *kv) Commit(offset int64)                           { s.reg.Commit(offset) }
func (s *kv) Revert(offset int64)                           { s.reg.Revert(offset) }

func set(k, v string) func(*kv) (coordinator.Result[string], error) {
	return func(*kv) (coordinator.Result[string], error) {
		return coordinator.Result[string]{Records: []coordinator.Record{{Key: []byte(k), Value: []byte(v)}}, Response: "set " + k}, nil
	}
}

// memLog is one partition in memory. Its high watermark follows the log end
// unless held.
type memLog struct {
	mu       sync.Mutex
	batches  [][]byte
	appends  int
	end, hw  int64
	epoch    int32
	leader   bool
	hold     bool
	failNext error
	maxBatch int
	listener replica.HighWatermarkListener
	gate     chan struct{} // when set, an append waits for it
}

func newMemLog() *memLog { return &memLog{leader: true, epoch: 1, maxBatch: 1 << 20} }

func (l *memLog) Tail(types.TopicPartition) (replica.Tail, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leader {
		return replica.Tail{}, kerrors.NotLeaderOrFollower
	}
	return replica.Tail{LogEnd: l.end, HighWatermark: l.hw, LeaderEpoch: l.epoch, MaxBatchBytes: l.maxBatch}, nil
}

func (l *memLog) ReadTail(_ types.TopicPartition, offset, upper int64, _ int) (wire.Payload, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p wire.Payload
	for _, b := range l.batches {
		if batch := record.Batch(b); batch.LastOffset() >= offset && batch.BaseOffset() < upper {
			p.AppendBytes(b)
		}
	}
	return p, nil
}

func (l *memLog) AppendCoordinator(in replica.CoordinatorAppend) (int64, int64, error) {
	if l.gate != nil {
		<-l.gate
	}
	l.mu.Lock()
	if err := l.failNext; err != nil || !l.leader || in.LeaderEpoch != l.epoch {
		l.failNext = nil
		l.mu.Unlock()
		if err == nil {
			err = kerrors.NotLeaderOrFollower
		}
		return -1, -1, err
	}
	first, last := l.appendLocked(in.Batch)
	l.appends++
	hold := l.hold
	l.mu.Unlock()
	if !hold {
		l.release(last + 1)
	}
	return first, last, nil
}

func (l *memLog) appendLocked(b record.Batch) (int64, int64) {
	b.SetBaseOffset(l.end)
	l.batches = append(l.batches, b)
	first := l.end
	l.end = b.NextOffset()
	return first, l.end - 1
}

// release moves the high watermark.
func (l *memLog) release(hw int64) {
	l.mu.Lock()
	l.hw = max(l.hw, hw)
	lis := l.listener
	hw = l.hw
	l.mu.Unlock()
	if lis != nil {
		lis.OnHighWatermark(tp0, hw)
	}
}

func (l *memLog) Listen(_ types.TopicPartition, lis replica.HighWatermarkListener) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener = lis
	return l.hw, l.leader
}

var tp0 = types.TopicPartition{Topic: "coord", Partition: 0}

// bench is a runtime over one memLog.
type rig struct {
	t   *testing.T
	log *memLog
	r   *Runtime[*kv]
}

func newRig(t *testing.T, change func(*Options[*kv])) *rig {
	t.Helper()
	g := &rig{t: t, log: newMemLog()}
	o := Options[*kv]{Topic: tp0.Topic, Log: g.log, LingerMs: -1, NewShard: func(types.TopicPartition) *kv { return newKV() }}
	if change != nil {
		change(&o)
	}
	g.r = New(o)
	t.Cleanup(g.r.Close)
	return g
}

func (g *rig) elect() *rig {
	g.t.Helper()
	g.log.mu.Lock()
	epoch := g.log.epoch
	g.log.mu.Unlock()
	g.r.OnElected(tp0, epoch)
	g.awaitActive()
	return g
}

func (g *rig) awaitActive() {
	g.t.Helper()
	for deadline := time.Now().Add(time.Minute); len(g.r.Active()) == 0; {
		if time.Now().After(deadline) {
			g.t.Fatal("the shard does not become active")
		}
		time.Sleep(time.Millisecond)
	}
}

type result struct {
	v   string
	err error
}

func (g *rig) start(op func(*kv) (coordinator.Result[string], error)) chan result {
	ch := make(chan result, 2)
	Write(g.r, tp0, op, func(v string, err error) { ch <- result{v, err} })
	return ch
}

func (g *rig) wait(ch chan result) result {
	g.t.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(time.Minute):
		g.t.Fatal("a request was never answered")
		return result{}
	}
}

func (g *rig) write(op func(*kv) (coordinator.Result[string], error)) result {
	g.t.Helper()
	return g.wait(g.start(op))
}

// mustSet and wantState try again while the shard loads, as clients do.
func (g *rig) mustSet(k, v string) {
	g.t.Helper()
	for {
		r := g.write(set(k, v))
		if r.err == nil {
			return
		}
		if kerrors.CodeOf(r.err) != kerrors.CoordinatorLoadInProgress {
			g.t.Fatalf("set %s: %v", k, r.err)
		}
		time.Sleep(time.Millisecond)
	}
}

// read lists the committed state.
func (g *rig) read() (string, error) {
	g.t.Helper()
	ch := make(chan result, 2)
	Read(g.r, tp0, func(s *kv, committed int64) (string, error) {
		var parts []string
		for i := range 10 {
			if v, ok := s.m.Get(fmt.Sprint("k", i), committed); ok {
				parts = append(parts, fmt.Sprintf("k%d=%s", i, v))
			}
		}
		return strings.Join(parts, " "), nil
	}, func(v string, err error) { ch <- result{v, err} })
	r := g.wait(ch)
	return r.v, r.err
}

func (g *rig) wantState(want string) {
	g.t.Helper()
	for {
		got, err := g.read()
		if kerrors.CodeOf(err) == kerrors.CoordinatorLoadInProgress {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil || got != want {
			g.t.Fatalf("state %q (%v), want %q", got, err, want)
		}
		return
	}
}
