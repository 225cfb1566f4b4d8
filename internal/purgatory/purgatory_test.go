package purgatory

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probe is an Operation that waits until *level reaches want and checks the
// rules that the purgatory promises.
type probe struct {
	t        testing.TB
	level    *atomic.Int64
	want     int64
	asking   atomic.Bool
	finished atomic.Int32
	why      atomic.Int32
	at       time.Time
	onFinish func()
}

func (p *probe) Ready() bool {
	if !p.asking.CompareAndSwap(false, true) {
		p.t.Error("two goroutines in Ready at once")
	}
	defer p.asking.Store(false)
	if p.finished.Load() != 0 {
		p.t.Error("Ready after Finish")
	}
	return p.level.Load() >= p.want
}

func (p *probe) Finish(why Reason) {
	p.why.Store(int32(why))
	p.at = time.Now()
	if p.finished.Add(1) != 1 {
		p.t.Error("finished twice")
	}
	if p.onFinish != nil {
		p.onFinish()
	}
}

func (p *probe) wantDone(why Reason) {
	p.t.Helper()
	if p.finished.Load() != 1 || Reason(p.why.Load()) != why {
		p.t.Errorf("finished %d times, %v; want once, %v", p.finished.Load(), Reason(p.why.Load()), why)
	}
}

// empty fails unless nothing at all is left.
func empty[K comparable](t testing.TB, p *Purgatory[K]) {
	t.Helper()
	p.timer.mu.Lock()
	timed := len(p.timer.heap)
	p.timer.mu.Unlock()
	linked := int64(0)
	for i := range p.shards {
		linked += p.shards[i].linked.Load()
	}
	if linked != 0 {
		t.Errorf("%d watchers are counted that are not there", linked)
	}
	if p.Waiting() != 0 || p.Watched() != 0 || timed != 0 {
		t.Errorf("left behind: %d waiting, %d keys watched, %d in the timer", p.Waiting(), p.Watched(), timed)
	}
}

func TestReadyAtOnce(t *testing.T) {
	p := New[string](Options{})
	var level atomic.Int64
	op := &probe{t: t, level: &level}
	if !p.TryCompleteOrWatch(op, time.Hour, "a") {
		t.Error("not finished")
	}
	op.wantDone(Completed)
	late := &probe{t: t, level: &level, want: 1}
	if !p.TryCompleteOrWatch(late, 0, "a") {
		t.Error("no timeout: not finished")
	}
	late.wantDone(TimedOut)
	empty(t, p)
}

func TestCompleteByKey(t *testing.T) {
	p := New[string](Options{})
	var level atomic.Int64
	one := &probe{t: t, level: &level, want: 1}
	two := &probe{t: t, level: &level, want: 2}
	p.TryCompleteOrWatch(one, time.Hour, "a", "b")
	p.TryCompleteOrWatch(two, time.Hour, "b", "c")
	if n := p.Complete("b"); n != 0 || p.Waiting() != 2 || p.Watched() != 3 {
		t.Errorf("nothing is ready: %d finished, %d waiting, %d watched", n, p.Waiting(), p.Watched())
	}
	level.Store(1)
	if n := p.Complete("c"); n != 0 {
		t.Errorf("finished %d by a key it does not watch", n)
	}
	if n := p.Complete("b"); n != 1 {
		t.Errorf("finished %d, want 1", n)
	}
	one.wantDone(Completed)
	if p.Watched() != 2 {
		t.Errorf("%d keys watched after one left", p.Watched())
	}
	p.Close()
	two.wantDone(Closed)
	after := &probe{t: t, level: &level, want: 9}
	p.TryCompleteOrWatch(after, time.Hour, "a")
	after.wantDone(Closed)
	empty(t, p)
}

func TestOverflow(t *testing.T) {
	p := New[int](Options{MaxOperations: 2})
	var level atomic.Int64
	ops := make([]*probe, 3)
	for i := range ops {
		ops[i] = &probe{t: t, level: &level, want: 1}
		p.TryCompleteOrWatch(ops[i], time.Hour, i)
	}
	ops[2].wantDone(Overflow)
	p.Close()
	ops[0].wantDone(Closed)
	empty(t, p)
}

func TestDeadlinesOnFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New[int](Options{})
		var level atomic.Int64
		start := time.Now()
		const n = 200
		ops := make([]*probe, n)
		for i := range ops {
			ops[i] = &probe{t: t, level: &level, want: 1}
			p.TryCompleteOrWatch(ops[i], time.Duration(i*7%n+1)*time.Second, i%5)
		}
		time.Sleep(n*time.Second + time.Millisecond)
		synctest.Wait()
		for i, op := range ops {
			op.wantDone(TimedOut)
			if got, want := op.at.Sub(start), time.Duration(i*7%n+1)*time.Second; got != want {
				t.Errorf("op %d timed out after %v, want %v", i, got, want)
			}
		}
		empty(t, p)
	})
}

// TestModel runs random operations against a slow model on fake time.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [4]int {
			return [4]int{
				rapid.IntRange(0, 3).Draw(t, "what"), rapid.IntRange(0, 3).Draw(t, "key"),
				rapid.IntRange(0, 3).Draw(t, "key2"), rapid.IntRange(0, 8).Draw(t, "n"),
			}
		}), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) { runModel(t, steps) })
	})
}

type modelOp struct {
	*probe
	keys     [2]int
	deadline time.Time
	want     Reason
	over     bool
}

// runModel: what 0 raises the level and completes a key, 1 lets time pass, 2 and
// 3 add an operation. Watchers of other keys must not notice a raised level.
func runModel(t *testing.T, steps [][4]int) {
	p := New[int](Options{})
	var level atomic.Int64
	var ops []*modelOp
	settle := func(over func(*modelOp) (Reason, bool)) {
		synctest.Wait()
		for _, op := range ops {
			if why, ok := over(op); ok && !op.over {
				op.over, op.want = true, why
			}
			if got := op.finished.Load() == 1; got != op.over {
				t.Fatalf("op for %d on %v: finished %v, model says %v", op.probe.want, op.keys, got, op.over)
			} else if got && Reason(op.why.Load()) != op.want {
				t.Fatalf("finished %v, model says %v", Reason(op.why.Load()), op.want)
			}
		}
	}
	for _, s := range steps {
		switch s[0] {
		case 0:
			level.Add(int64(s[3]))
			if p.MayWatch(s[1]) {
				p.Complete(s[1])
			}
			settle(func(o *modelOp) (Reason, bool) {
				return Completed, (o.keys[0] == s[1] || o.keys[1] == s[1]) && level.Load() >= o.probe.want
			})
		case 1:
			time.Sleep(time.Duration(s[3]) * time.Second)
			settle(func(o *modelOp) (Reason, bool) { return TimedOut, !time.Now().Before(o.deadline) })
		default:
			wait := time.Duration(s[3]) * time.Second
			op := &modelOp{
				probe: &probe{t: t, level: &level, want: level.Load() + int64(s[1]-1)},
				keys:  [2]int{s[1], s[2]}, deadline: time.Now().Add(wait),
			}
			ops = append(ops, op)
			p.TryCompleteOrWatch(op.probe, wait, s[1], s[2])
			settle(func(o *modelOp) (Reason, bool) {
				if o == op && level.Load() >= o.probe.want {
					return Completed, true
				}
				return TimedOut, !time.Now().Before(o.deadline)
			})
		}
	}
	p.Close()
	settle(func(*modelOp) (Reason, bool) { return Closed, true })
	empty(t, p)
}

// TestStress races everything and checks that each operation finishes once, and
// that no level that was announced by Complete is missed.
func TestStress(t *testing.T) {
	p := New[int](Options{})
	const keys, workers, each = 8, 8, 400
	levels := make([]atomic.Int64, keys)
	var timedOut, completed, open atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range each {
				k := r.IntN(keys)
				op := &probe{t: t, level: &levels[k], want: levels[k].Load() + r.Int64N(3)}
				open.Add(1)
				op.onFinish = func() {
					open.Add(-1)
					if Reason(op.why.Load()) == TimedOut {
						timedOut.Add(1)
					} else {
						completed.Add(1)
					}
					if op.want%7 == 0 {
						p.Complete(int(op.want) % keys) // it may call back
					}
				}
				p.TryCompleteOrWatch(op, time.Duration(r.IntN(3000))*time.Microsecond, k, (k+1)%keys)
				k = r.IntN(keys)
				levels[k].Add(1)
				if p.MayWatch(k) {
					p.Complete(k)
				}
			}
		})
	}
	wg.Wait()
	for k := range levels { // no wakeup was lost: one last look finishes nothing new that was ready
		levels[k].Add(10)
		p.Complete(k)
	}
	// The timer may be at the last one: it has left the heap, and is not told yet.
	for range 10_000 {
		if open.Load() == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d operations never finished", n)
	}
	if n := timedOut.Load() + completed.Load(); n != workers*each {
		t.Errorf("%d operations finished, want %d", n, workers*each)
	}
	p.Close()
	empty(t, p)
}

// TestNoLostWakeup: one goroutine raises a level and completes, another parks;
// whatever the interleaving, the operation must not wait for its deadline.
func TestNoLostWakeup(t *testing.T) {
	p := New[int](Options{})
	for range 2000 {
		var level atomic.Int64
		done := make(chan struct{})
		op := &probe{t: t, level: &level, want: 1, onFinish: func() { close(done) }}
		go func() {
			level.Store(1)
			if p.MayWatch(1) {
				p.Complete(1)
			}
		}()
		p.TryCompleteOrWatch(op, time.Minute, 1)
		<-done
		op.wantDone(Completed)
	}
	empty(t, p)
}

type panicky struct{ where string }

func (p panicky) Ready() bool {
	if p.where == "ready" {
		panic("boom")
	}
	return true
}

func (p panicky) Finish(Reason) {
	if p.where == "finish" {
		panic("boom")
	}
}

func TestPanicsAreContained(t *testing.T) {
	var n int
	p := New[int](Options{OnPanic: func(any) { n++ }})
	p.TryCompleteOrWatch(panicky{"ready"}, time.Hour, 1)
	p.TryCompleteOrWatch(panicky{"finish"}, time.Hour, 1)
	if n != 2 {
		t.Errorf("%d panics told, want 2", n)
	}
	empty(t, p)
}

type waits struct{ ready bool }

func (w *waits) Ready() bool   { return w.ready }
func (w *waits) Finish(Reason) {}

// BenchmarkParkAndComplete is the life of a Fetch that waits for bytes, with
// other fetches parked beside it.
func BenchmarkParkAndComplete(b *testing.B) {
	for _, parked := range []int{0, 10_000} {
		b.Run(fmt.Sprint("parked=", parked), func(b *testing.B) {
			p := New[int](Options{})
			defer p.Close()
			for i := range parked {
				p.TryCompleteOrWatch(&waits{}, time.Hour, i+1)
			}
			b.ReportAllocs()
			for b.Loop() {
				w := &waits{}
				p.TryCompleteOrWatch(w, 30*time.Second, 0)
				w.ready = true
				p.Complete(0)
			}
		})
	}
}
