package commit

import (
	"errors"
	"sync"
	"time"
)

// ErrClosed is what OnFailed and Flush get after Close.
var ErrClosed = errors.New("the commit loop is closed")

// DefaultParallel is how many files of one folder are synced at once: enough
// for a journal to merge them, few enough for a disk to answer the rest.
const DefaultParallel = 16

// Flushable is a log as the loop sees it. It must be a pointer: the loop keeps
// it as a map key.
type Flushable interface {
	// FlushUpTo returns the offset that the next Sync makes durable (exclusive).
	// It is called immediately before Sync.
	FlushUpTo() int64
	// WriteOut starts to write what a Sync now would write, without waiting for it.
	WriteOut()
	// Sync makes everything below FlushUpTo durable, older files first.
	Sync() error
	// OnDurable says that everything below offset, which the last Sync was for,
	// is on disk. It follows every sync, at the latest after the next one. The
	// offset goes back only where FlushUpTo did: after a truncation. It may call
	// the loop, but must not wait for it.
	OnDurable(offset int64)
	// OnFailed says that nothing will be made durable any more. It must not
	// call Request or Defer again.
	OnFailed(err error)
}

// Observer hears of each sync. Calls come from several goroutines.
type Observer interface {
	// Synced reports one sync: how long it took, how many requests it served,
	// and its error.
	Synced(took time.Duration, requests int, err error)
}

// Options set up a Loop.
type Options struct {
	// Parallel bounds the syncs under way at once; 0 means DefaultParallel.
	Parallel int
	// DirtyDelay is the longest that Defer may put a sync off; 0 means 1 s.
	DirtyDelay time.Duration
	// DirtyBytes is how much deferred data may wait before all of it is
	// synced; 0 means 64 MiB.
	DirtyBytes int64
	// OnOffline hears the first error, once, before any OnFailed. May be nil.
	OnOffline func(error)
	// Observer may be nil.
	Observer Observer
}

// Loop is the commit loop of one folder.
type Loop struct {
	o Options

	mu         sync.Mutex
	idle       *sync.Cond // workers reached zero
	slots      map[Flushable]*slot
	queue      []*slot // slots waiting for a worker
	workers    int
	dirtyBytes int64       // of all deferred slots
	timer      *time.Timer // set while a slot is deferred
	timerAt    time.Time
	failed     error // first error, or ErrClosed
	// offlineTold is set once OnOffline returned: OnFailed comes after it.
	offlineTold bool
	stats       Stats
}

// slot is a log with something to sync or to report.
type slot struct {
	f        Flushable
	queued   bool
	syncing  bool
	since    time.Time // start of the sync under way
	requests int       // since the last sync began
	waiters  []chan error

	deferred   bool
	deadline   time.Time
	dirtyBytes int64

	notifying bool  // a worker is calling back
	durable   int64 // of the last sync
	news      bool  // not reported yet
	failTold  bool
}

// Stats is a snapshot of the loop, for metrics and stall detection.
type Stats struct {
	Syncs      int64 // finished without error
	Requests   int64
	Queued     int           // logs waiting for a worker
	Syncing    int           // logs being synced
	DirtyBytes int64         // deferred and not yet synced
	OldestSync time.Duration // age of the oldest sync under way
}

// New returns an idle loop.
func New(o Options) *Loop {
	if o.Parallel <= 0 {
		o.Parallel = DefaultParallel
	}
	if o.DirtyDelay <= 0 {
		o.DirtyDelay = time.Second
	}
	if o.DirtyBytes <= 0 {
		o.DirtyBytes = 64 << 20
	}
	l := &Loop{o: o, slots: map[Flushable]*slot{}}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// Request asks for f to be synced as soon as possible. It returns at once;
// OnDurable or OnFailed follows on another goroutine.
func (l *Loop) Request(f Flushable) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.request(f, nil)
}

// Flush syncs f and waits: nil means that everything f held at the call is on
// disk. The callbacks of f run as well, maybe after Flush returned.
func (l *Loop) Flush(f Flushable) error {
	done := make(chan error, 1)
	l.mu.Lock()
	if l.failed != nil {
		err := l.failed
		l.mu.Unlock()
		return err
	}
	l.request(f, done)
	l.mu.Unlock()
	return <-done
}

func (l *Loop) request(f Flushable, done chan error) {
	s := l.slotOf(f)
	if l.failed != nil {
		l.spawnTeller(s)
		return
	}
	l.stats.Requests++
	s.requests++
	if done != nil {
		s.waiters = append(s.waiters, done)
	}
	l.enqueue(s)
}

// Defer notes that f has sizeBytes more that need no sync yet: it happens
// after delay (at most DirtyDelay), when DirtyBytes wait in all, or with the
// next Request, whichever comes first.
func (l *Loop) Defer(f Flushable, delay time.Duration, sizeBytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slotOf(f)
	if l.failed != nil {
		l.spawnTeller(s)
		return
	}
	s.dirtyBytes += sizeBytes
	l.dirtyBytes += sizeBytes
	if s.queued {
		return
	}
	deadline := time.Now().Add(min(delay, l.o.DirtyDelay))
	if !s.deferred || deadline.Before(s.deadline) {
		s.deferred, s.deadline = true, deadline
		l.wakeAt(deadline)
	}
	if l.dirtyBytes >= l.o.DirtyBytes {
		l.enqueueDeferred(time.Time{})
	}
}

func (l *Loop) wakeAt(t time.Time) {
	if l.timer != nil && !t.Before(l.timerAt) {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timerAt = t
	l.timer = time.AfterFunc(time.Until(t), l.onTimer)
}

func (l *Loop) onTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return
	}
	l.timer = nil
	l.enqueueDeferred(time.Now())
}

// enqueueDeferred queues the deferred slots that are due (all, when now is
// zero) and sets the timer for the rest.
func (l *Loop) enqueueDeferred(now time.Time) {
	var next time.Time
	for _, s := range l.slots {
		switch {
		case !s.deferred:
		case now.IsZero() || !s.deadline.After(now):
			l.enqueue(s)
		case next.IsZero() || s.deadline.Before(next):
			next = s.deadline
		}
	}
	if !next.IsZero() {
		l.wakeAt(next)
	}
}

func (l *Loop) slotOf(f Flushable) *slot {
	s := l.slots[f]
	if s == nil {
		s = &slot{f: f}
		l.slots[f] = s
	}
	return s
}

// enqueue puts a slot in line for a worker, once; a slot that is being synced
// gets in line when that sync ends.
func (l *Loop) enqueue(s *slot) {
	s.deferred = false
	if s.queued {
		return
	}
	s.queued = true
	if s.syncing {
		return
	}
	l.queue = append(l.queue, s)
	if l.workers < l.o.Parallel {
		l.workers++
		go l.work()
	}
}

// Err returns nil, or why the loop stopped.
func (l *Loop) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Stats returns a snapshot.
func (l *Loop) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.stats
	st.Queued, st.DirtyBytes = len(l.queue), l.dirtyBytes
	var oldest time.Time
	for _, s := range l.slots {
		if s.syncing {
			st.Syncing++
			if oldest.IsZero() || s.since.Before(oldest) {
				oldest = s.since
			}
		}
	}
	if !oldest.IsZero() {
		st.OldestSync = time.Since(oldest)
	}
	return st
}

// Close syncs what was requested or deferred, waits for it and for the
// callbacks, and refuses what comes later. It returns the loop's error if the
// folder failed.
func (l *Loop) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enqueueDeferred(time.Time{})
	for l.workers > 0 {
		l.idle.Wait()
	}
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.failed != nil {
		if errors.Is(l.failed, ErrClosed) {
			return nil
		}
		return l.failed
	}
	l.failed, l.offlineTold = ErrClosed, true
	return nil
}
