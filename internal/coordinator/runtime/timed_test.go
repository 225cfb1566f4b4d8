package runtime

import (
	"sync"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// clockwork is a kv with timers: each writes the key that it is named after.
type clockwork struct {
	*kv
	timers coordinator.Timers[string]
	parked []coordinator.Effect
	loaded []string // what a load asks to be written
}

func (c *clockwork) Loaded(coordinator.Now) coordinator.Output {
	var out coordinator.Output
	for _, k := range c.loaded {
		out.Records = append(out.Records, coordinator.Record{Key: []byte(k), Value: []byte("loaded")})
	}
	return out
}

func (c *clockwork) NextTimer() (int64, bool) { return c.timers.NextMs() }

func (c *clockwork) FireTimer(now coordinator.Now) (coordinator.Output, bool) {
	key, ok := c.timers.Pop(now.TickMs)
	if !ok {
		return coordinator.Output{}, false
	}
	return coordinator.Output{Records: []coordinator.Record{{Key: []byte(key), Value: []byte("fired")}}}, true
}

func (c *clockwork) Unload() []coordinator.Effect { return c.parked }

// told notes how an effect was delivered, and asks for one record more.
type told struct {
	mu   *sync.Mutex
	errs *[]kerrors.Code
	then string
}

func (e told) Deliver(_ coordinator.Now, err error) coordinator.Output {
	e.mu.Lock()
	defer e.mu.Unlock()
	*e.errs = append(*e.errs, kerrors.CodeOf(err))
	if err != nil || e.then == "" {
		return coordinator.Output{}
	}
	return coordinator.Output{Records: []coordinator.Record{{Key: []byte(e.then), Value: []byte("then")}}}
}

type timedRig struct {
	t    *testing.T
	log  *memLog
	r    *Runtime[*clockwork]
	mu   sync.Mutex
	errs []kerrors.Code
}

func newTimedRig(t *testing.T, loaded ...string) *timedRig {
	t.Helper()
	g := &timedRig{t: t, log: newMemLog()}
	g.r = New(Options[*clockwork]{
		Topic: tp0.Topic, Log: g.log, LingerMs: -1,
		NewShard: func(types.TopicPartition) *clockwork { return &clockwork{kv: newKV(), loaded: loaded} },
	})
	t.Cleanup(g.r.Close)
	g.r.OnElected(tp0, 1)
	g.until("active", func() bool { return len(g.r.Active()) == 1 })
	return g
}

func (g *timedRig) until(what string, ok func() bool) {
	g.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatalf("not %s after 20 s", what)
		}
	}
}

// do runs a step on the shard and waits for its answer.
func (g *timedRig) do(op func(*clockwork) coordinator.Result[struct{}]) error {
	g.t.Helper()
	ch := make(chan error, 1)
	Write(g.r, tp0, func(c *clockwork) (coordinator.Result[struct{}], error) { return op(c), nil }, func(_ struct{}, err error) { ch <- err })
	select {
	case err := <-ch:
		return err
	case <-time.After(time.Minute):
		g.t.Fatal("a step was never answered")
		return nil
	}
}

func (g *timedRig) value(k string) string {
	g.t.Helper()
	ch := make(chan string, 1)
	Read(g.r, tp0, func(c *clockwork, committed int64) (string, error) {
		v, _ := c.m.Get(k, committed)
		return v, nil
	}, func(v string, _ error) { ch <- v })
	return <-ch
}

func (g *timedRig) delivered() []kerrors.Code {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]kerrors.Code(nil), g.errs...)
}

func (g *timedRig) effect(then string) coordinator.Effect {
	return told{mu: &g.mu, errs: &g.errs, then: then}
}

// TestTimersFire: a timer goes off without any request, and what a load asks
// for is written.
func TestTimersFire(t *testing.T) {
	g := newTimedRig(t, "k1")
	g.until("written on load", func() bool { return g.value("k1") == "loaded" })
	if err := g.do(func(c *clockwork) coordinator.Result[struct{}] {
		c.timers.Set("k2", 0)
		c.timers.Set("k3", 1<<40)
		return coordinator.Result[struct{}]{}
	}); err != nil {
		t.Fatal(err)
	}
	g.until("fired", func() bool { return g.value("k2") == "fired" })
	if g.value("k3") != "" {
		t.Fatal("a timer fired before its time")
	}
}

// TestEffectsFollowTheirRecords: an effect comes after its records are
// committed, what it asks for is written too, and it hears of a failure.
func TestEffectsFollowTheirRecords(t *testing.T) {
	g := newTimedRig(t)
	step := func(k, then string) error {
		return g.do(func(*clockwork) coordinator.Result[struct{}] {
			return coordinator.Result[struct{}]{
				Records: []coordinator.Record{{Key: []byte(k), Value: []byte("x")}}, Effects: []coordinator.Effect{g.effect(then)},
			}
		})
	}
	if err := step("k1", "k2"); err != nil {
		t.Fatal(err)
	}
	g.until("continued", func() bool { return g.value("k2") == "then" })
	g.log.mu.Lock()
	g.log.failNext = kerrors.NotEnoughReplicas
	g.log.mu.Unlock()
	if err := step("k3", "k4"); kerrors.CodeOf(err) != kerrors.CoordinatorNotAvailable {
		t.Fatal(err)
	}
	g.until("told", func() bool { return len(g.delivered()) == 2 })
	if got := g.delivered(); got[0] != kerrors.None || got[1] != kerrors.CoordinatorNotAvailable {
		t.Fatalf("delivered %v", got)
	}
	if g.value("k3") != "" || g.value("k4") != "" {
		t.Fatal("a failed step left something")
	}
}

// TestUnloadAnswersWhatIsParked: a shard that moves away gives up what its core
// keeps waiting, once.
func TestUnloadAnswersWhatIsParked(t *testing.T) {
	g := newTimedRig(t)
	if err := g.do(func(c *clockwork) coordinator.Result[struct{}] {
		c.parked = append(c.parked, g.effect("k1"))
		return coordinator.Result[struct{}]{}
	}); err != nil {
		t.Fatal(err)
	}
	g.r.OnResigned(tp0)
	g.until("answered", func() bool { return len(g.delivered()) == 1 })
	if got := g.delivered(); got[0] != kerrors.NotCoordinator {
		t.Fatalf("delivered %v", got)
	}
}
