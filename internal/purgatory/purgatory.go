package purgatory

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Reason says why an operation finished.
type Reason int8

const (
	// Completed means that Ready answered true.
	Completed Reason = iota
	// TimedOut means that the deadline passed first.
	TimedOut
	// Overflow means that MaxOperations were waiting already. Treat it as a
	// deadline that passed at once.
	Overflow
	// Closed means that the purgatory was closed.
	Closed
	// Failed means that Ready panicked and Options.OnPanic was told.
	Failed
)

// String names the reason.
func (r Reason) String() string {
	return [...]string{"completed", "timed_out", "overflow", "closed", "failed"}[r]
}

// Operation waits in a purgatory. Use one value for one wait.
type Operation interface {
	// Ready reports whether the operation can finish with success now. It may
	// keep notes in the operation, must not block, and must not call the
	// purgatory. It is never called by two goroutines at once.
	Ready() bool
	// Finish ends the operation; it is called exactly once, by whichever
	// goroutine found the reason. It must not block. It may call the purgatory.
	Finish(why Reason)
}

// DefaultMaxOperations bounds the operations that wait at once.
const DefaultMaxOperations = 200_000

// shards of the watch lists. More than the cores that ever run here, so that
// partitions rarely meet on a lock.
const shards = 64

// Options of New. The zero value is usable.
type Options struct {
	// MaxOperations bounds the operations that wait at once; 0 means
	// DefaultMaxOperations.
	MaxOperations int
	// OnPanic, if set, is told of a panic in Ready, after which the operation
	// finishes with Failed, or in Finish. If nil, the panic goes on.
	OnPanic func(recovered any)
}

// Purgatory holds operations that watch keys of type K. Safe for concurrent use.
type Purgatory[K comparable] struct {
	opts    Options
	seed    maphash.Seed
	shards  [shards]shard[K]
	timer   timerHeap[K]
	waiting atomic.Int64
	closed  atomic.Bool
}

// New returns an empty purgatory.
func New[K comparable](o Options) *Purgatory[K] {
	if o.MaxOperations <= 0 {
		o.MaxOperations = DefaultMaxOperations
	}
	p := &Purgatory[K]{opts: o, seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].lists = map[K]*watcher[K]{}
	}
	p.timer.init(func(e *entry[K]) { p.end(e, TimedOut) })
	return p
}

// TryCompleteOrWatch finishes op at once if it is ready, else parks it until a
// key of keys is completed or timeout passes (timeout <= 0: at once, after one
// look). It reports whether op was finished by the time it returned.
func (p *Purgatory[K]) TryCompleteOrWatch(op Operation, timeout time.Duration, keys ...K) bool {
	e := &entry[K]{op: op, heapIndex: -1}
	if p.check(e) {
		return true
	}
	if timeout <= 0 {
		p.end(e, TimedOut)
		return true
	}
	if p.waiting.Add(1) > int64(p.opts.MaxOperations) {
		p.waiting.Add(-1)
		p.end(e, Overflow)
		return true
	}
	e.parked.Store(true)
	e.deadline = p.timer.now() + timeout
	if len(keys) <= len(e.one) {
		e.watches = e.one[:len(keys)]
	} else {
		e.watches = make([]watcher[K], len(keys))
	}
	for i, k := range keys {
		e.watches[i] = watcher[K]{entry: e, key: k}
	}
	for i := range e.watches {
		w := &e.watches[i]
		p.shard(w.key).link(w)
	}
	// What happened before the watches were in place is seen here (Kafka's
	// DelayedOperationPurgatory looks twice for the same reason).
	if p.check(e) {
		return true
	}
	p.timer.add(e)
	if p.closed.Load() {
		p.end(e, Closed)
	}
	if e.done() { // finished before the timer knew it: take it out again
		p.forget(e)
		return true
	}
	return false
}

// Complete asks every operation that watches key whether it is ready, finishes
// those that are, and returns how many it finished.
func (p *Purgatory[K]) Complete(key K) int {
	var few [8]*entry[K]
	n := 0
	for _, e := range p.shard(key).snapshot(key, few[:0]) {
		if p.check(e) {
			n++
		}
	}
	return n
}

// MayWatch reports whether an operation may be watching key. False is certain,
// and Complete is then needless, for a change that was made (and published by an
// atomic) before the call: an operation that comes later looks at it itself,
// after its watches are in place.
func (p *Purgatory[K]) MayWatch(key K) bool { return p.shard(key).linked.Load() > 0 }

// Waiting is the number of parked operations.
func (p *Purgatory[K]) Waiting() int { return int(p.waiting.Load()) }

// Watched is the number of keys that at least one operation watches.
func (p *Purgatory[K]) Watched() int {
	n := 0
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		n += len(s.lists)
		s.mu.Unlock()
	}
	return n
}

// Close finishes every parked operation with Closed; those that come later are
// looked at once and finish so too.
func (p *Purgatory[K]) Close() {
	p.closed.Store(true)
	for _, e := range p.timer.drain() {
		p.end(e, Closed)
	}
}

// check asks e whether it is ready, unless another goroutine is asking: then that
// one asks again. It reports whether this call finished e.
func (p *Purgatory[K]) check(e *entry[K]) bool {
	if !e.beginCheck() {
		return false
	}
	for {
		ready, failed := p.ready(e)
		if ready || failed {
			e.state.Store(stateDone)
			why := Completed
			if failed {
				why = Failed
			}
			p.finish(e, why)
			return true
		}
		switch next, why := e.endCheck(); next {
		case checkEnded:
			p.finish(e, why)
			return true
		case checkIdle:
			return false
		}
	}
}

// end finishes e for a reason other than Ready, once no check runs.
func (p *Purgatory[K]) end(e *entry[K], why Reason) {
	if e.beginEnd(why) {
		p.finish(e, why)
	}
}

// finish takes e off everything and tells the operation. Exactly one caller
// reaches it: the one that moved the state to done.
func (p *Purgatory[K]) finish(e *entry[K], why Reason) {
	if e.parked.Swap(false) {
		p.forget(e)
		p.waiting.Add(-1)
	}
	p.tell(e, why)
}

// ready is op.Ready; failed says that it panicked.
func (p *Purgatory[K]) ready(e *entry[K]) (ready, failed bool) {
	if p.opts.OnPanic != nil {
		defer func() {
			if r := recover(); r != nil {
				p.opts.OnPanic(r)
				ready, failed = false, true
			}
		}()
	}
	return e.op.Ready(), false
}

func (p *Purgatory[K]) tell(e *entry[K], why Reason) {
	if p.opts.OnPanic != nil {
		defer func() {
			if r := recover(); r != nil {
				p.opts.OnPanic(r)
			}
		}()
	}
	e.op.Finish(why)
}

// forget removes e from the timer and from every watch list; it may run twice.
func (p *Purgatory[K]) forget(e *entry[K]) {
	p.timer.remove(e)
	for i := range e.watches {
		w := &e.watches[i]
		p.shard(w.key).unlink(w)
	}
}

func (p *Purgatory[K]) shard(key K) *shard[K] {
	return &p.shards[maphash.Comparable(p.seed, key)%shards]
}
