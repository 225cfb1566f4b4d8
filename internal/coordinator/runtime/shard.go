package runtime

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// maxFollowUps bounds how often one turn of a shard writes what its own commits
// asked for.
const maxFollowUps = 8

type state int8

const (
	loading state = iota
	active
	failed // could not load: NOT_COORDINATOR until the next election
	closed
)

// shard is one partition's coordinator. Fields below "owned" belong to the
// goroutine that has running set (the loader has it while it loads).
type shard[S Shard] struct {
	r     *Runtime[S]
	tp    types.TopicPartition
	epoch int32

	mu      sync.Mutex
	state   state
	queue   []event[S]
	running bool

	// highWatermark is what the log reported last; the owner acts on it.
	highWatermark atomic.Int64
	parkedCount   atomic.Int32

	// owned
	core      S
	timed     Timed // core, when it has timers
	dead      bool  // the core is given up: it may not write any more
	next      int64 // offset of the next record
	committed int64 // high watermark that the core knows
	maxBatch  int
	broken    bool // the log holds something else than the shard thinks
	batch     *batch
	parked    []parkedWrite // in offset order
	timer     *time.Timer   // for the next deadline, linger or timer of the core
	wake      time.Time     // when timer is to go off; zero: not needed
}

// event is a request, or a nil do for a look at watermarks and deadlines.
type event[S Shard] struct {
	do   func(*shard[S])
	fail func(error)
}

// parkedWrite is a response that waits until required is committed.
type parkedWrite struct {
	required int64
	deadline time.Time
	done     func(error)
}

func newShard[S Shard](r *Runtime[S], tp types.TopicPartition, epoch int32) *shard[S] {
	return &shard[S]{r: r, tp: tp, epoch: epoch, state: loading, running: true}
}

func (s *shard[S]) isActive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == active
}

// submit queues a request, or refuses it at once.
func (s *shard[S]) submit(e event[S]) {
	if err := s.enqueue(e); err != nil {
		e.fail(err)
	}
}

func (s *shard[S]) enqueue(e event[S]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == loading:
		return kerrors.CoordinatorLoadInProgress
	case s.state != active:
		return kerrors.NotCoordinator
	case len(s.queue) >= s.r.opts.MaxQueued || int(s.parkedCount.Load()) >= s.r.opts.MaxQueued:
		// Retriable without looking for another coordinator.
		return kerrors.New(kerrors.CoordinatorLoadInProgress, "too many requests wait for this coordinator")
	}
	s.queue = append(s.queue, e)
	s.startLocked()
	return nil
}

// startLocked gives the shard a goroutine unless it has one.
func (s *shard[S]) startLocked() {
	if !s.running {
		s.running = true
		go s.run()
	}
}

// poke makes the shard look at watermarks and deadlines.
func (s *shard[S]) poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == active {
		s.queue = append(s.queue, event[S]{})
		s.startLocked()
	}
}

// OnHighWatermark implements replica.HighWatermarkListener.
func (s *shard[S]) OnHighWatermark(_ types.TopicPartition, offset int64) {
	s.highWatermark.Store(offset)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == active && !s.running { // a running one looks before it stops
		s.running = true
		go s.run()
	}
}

// run works until nothing is queued.
func (s *shard[S]) run() {
	for {
		s.mu.Lock()
		events := s.queue
		s.queue = nil
		if len(events) == 0 && s.highWatermark.Load() <= s.committed && s.state == active {
			// Nothing to do: the next event or watermark starts a goroutine again.
			s.running = false
			s.mu.Unlock()
			return
		}
		st := s.state
		s.mu.Unlock()
		if st != active {
			s.drop(events, kerrors.NotCoordinator)
			return
		}
		if !s.work(events) {
			return
		}
	}
}

// work handles events; false says that the shard is being loaded again.
func (s *shard[S]) work(events []event[S]) (ok bool) {
	at := 0
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		// The core's state cannot be trusted any more. Only this shard starts over.
		s.r.opts.Logger.Error("coordinator shard panicked, loading it again", "partition", s.tp.String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if at < len(events) && events[at].fail != nil {
			events[at].fail(kerrors.UnknownServerError)
			events[at].fail = nil
		}
		s.restart(events[min(at+1, len(events)):])
		ok = false
	}()
	s.wake = time.Time{}
	s.advance()
	for ; at < len(events); at++ {
		if events[at].do != nil {
			events[at].do(s)
		}
	}
	s.fireTimers()
	// What is committed at once may ask for more; the rest comes by the timer.
	for range maxFollowUps {
		s.lingerOrFlush()
		s.advance()
		s.expire()
		if s.batch == nil || s.broken || !s.wake.IsZero() {
			break
		}
	}
	s.armTimer()
	if s.broken || s.highWatermark.Load() > s.next {
		s.r.opts.Logger.Error("coordinator partition has records of somebody else, loading it again", "partition", s.tp.String(), "next", s.next)
		s.restart(nil)
		return false
	}
	return true
}

// advance answers what the high watermark has committed.
func (s *shard[S]) advance() {
	hw := min(s.highWatermark.Load(), s.next)
	if hw <= s.committed {
		return
	}
	s.committed = hw
	s.core.Commit(hw)
	n := 0
	for n < len(s.parked) && s.parked[n].required <= hw {
		s.answerParked(n, nil)
		n++
	}
	s.setParked(s.parked[n:])
}

// answerParked answers once, even if the answer panics.
func (s *shard[S]) answerParked(i int, err error) {
	done := s.parked[i].done
	if s.parked[i].done = nil; done != nil {
		done(err)
	}
}

// expire answers what waited too long. It may still be committed later, as with
// any timed out request.
func (s *shard[S]) expire() {
	now := time.Now()
	n := 0
	for n < len(s.parked) && !now.Before(s.parked[n].deadline) {
		s.answerParked(n, clientError(kerrors.RequestTimedOut))
		n++
	}
	s.setParked(s.parked[n:])
}

func (s *shard[S]) setParked(p []parkedWrite) {
	if len(p) == 0 {
		p = nil
	}
	s.parked = p
	s.parkedCount.Store(int32(len(p)))
}

// now is the time of a step of the core.
func (s *shard[S]) now() coordinator.Now {
	return coordinator.Now{WallMs: s.r.opts.NowMs(), TickMs: s.r.opts.TickMs()}
}

// wakeIn makes the shard look at its state after d at the latest.
func (s *shard[S]) wakeIn(d time.Duration) {
	if at := time.Now().Add(d); s.wake.IsZero() || at.Before(s.wake) {
		s.wake = at
	}
}

// armTimer sets the timer for the next thing to do without a request.
func (s *shard[S]) armTimer() {
	if len(s.parked) > 0 {
		s.wakeIn(time.Until(s.parked[0].deadline))
	}
	if s.batch != nil && s.wake.IsZero() {
		s.wakeIn(0)
	}
	if s.timed != nil {
		if at, ok := s.timed.NextTimer(); ok {
			s.wakeIn(time.Duration(max(0, at-s.r.opts.TickMs())) * time.Millisecond)
		}
	}
	if s.wake.IsZero() {
		return // a timer that still runs finds nothing to do
	}
	d := max(0, time.Until(s.wake))
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.poke)
		return
	}
	s.timer.Reset(d)
}

// detach ends the shard's service; the result answers what waits with err, and
// is to be called without the runtime's lock.
func (s *shard[S]) detach(err error) (answer func()) {
	s.mu.Lock()
	s.state = closed
	idle := !s.running
	s.running = true
	events := s.queue
	s.queue = nil
	s.mu.Unlock()
	s.unlisten()
	return func() {
		if idle {
			s.drop(events, err)
			return
		}
		failAll(events, err) // whoever runs drops the rest when it sees the state
	}
}

// restart throws the state away and loads the shard again. events were queued
// and are refused as during any load; what was parked may be in the log or not.
func (s *shard[S]) restart(events []event[S]) {
	s.broken = false
	s.mu.Lock()
	if s.state == active {
		s.state = loading
	}
	events = append(events, s.queue...)
	s.queue = nil
	s.mu.Unlock()
	failAll(events, kerrors.CoordinatorLoadInProgress)
	s.drop(nil, kerrors.NotCoordinator)
	s.r.startLoad(s)
}

// drop is the end of an owner: everything that waits is answered.
func (s *shard[S]) drop(events []event[S], err error) {
	if s.timer != nil {
		s.timer.Stop()
	}
	failAll(events, err)
	s.dead = true
	s.failBatch(err)
	for i := range s.parked {
		s.answerParked(i, err)
	}
	s.setParked(nil)
	s.unload(err)
	var none S
	s.core, s.timed = none, nil
}

// unload answers what the core has parked. A core that panicked may do it again.
func (s *shard[S]) unload(err error) {
	if s.timed == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.r.opts.Logger.Error("coordinator shard panicked while it was given up", "partition", s.tp.String(), "panic", fmt.Sprint(p))
		}
	}()
	s.deliver(s.timed.Unload(), err)
}

func failAll[S Shard](events []event[S], err error) {
	for _, e := range events {
		if e.fail != nil {
			e.fail(err)
		}
	}
}
