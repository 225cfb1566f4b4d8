package commit

import (
	"maps"
	"runtime"
	"slices"
	"time"
)

// work takes slots off the queue until there is none.
func (l *Loop) work() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && l.failed == nil {
		s := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.syncSlot(s)
	}
	if len(l.queue) == 0 {
		l.queue = nil
	}
	l.workers--
	if l.workers == 0 {
		l.idle.Broadcast()
	}
}

// syncSlot syncs one log and reports it. It is entered and left with the lock
// held, and releases it for the sync and the callbacks.
func (l *Loop) syncSlot(s *slot) {
	s.queued, s.syncing, s.since = false, true, time.Now()
	requests, waiters := s.requests, s.waiters
	s.requests, s.waiters = 0, nil
	l.dirtyBytes -= s.dirtyBytes
	s.dirtyBytes = 0
	start := s.since
	l.mu.Unlock()

	// Let every append that can run now get into this sync, and every other log's
	// data into the journal's next commit. With nobody else it costs nothing;
	// without it, an append that waits for a page under writeback can find each
	// sync to serve just the one before it.
	s.f.WriteOut()
	runtime.Gosched()
	upTo := s.f.FlushUpTo()
	err := s.f.Sync()
	if l.o.Observer != nil {
		l.o.Observer.Synced(time.Since(start), requests, err)
	}

	l.mu.Lock()
	s.syncing = false
	if err != nil && l.failed == nil {
		l.fail(err)
	}
	if l.failed != nil {
		err = l.failed
	} else {
		l.stats.Syncs++
		s.durable, s.news = upTo, true
		l.requeue(s)
	}
	for _, w := range waiters {
		w <- err
	}
	l.tell(s)
}

// requeue lines a slot up again if it was asked for during its sync. Its next
// sync may begin while the callback of this one still runs.
func (l *Loop) requeue(s *slot) {
	if s.queued {
		s.queued = false
		l.enqueue(s)
	}
}

// tell calls OnDurable, or OnFailed once, until the slot has nothing new to
// say, and then forgets an idle slot. Only one goroutine at a time tells for a
// slot; another one leaves its news to it.
func (l *Loop) tell(s *slot) {
	if s.notifying {
		return
	}
	s.notifying = true
	for {
		switch {
		case l.offlineTold && !s.failTold:
			err := l.failed
			s.failTold = true
			l.mu.Unlock()
			s.f.OnFailed(err)
			l.mu.Lock()
		case l.failed == nil && s.news:
			upTo := s.durable
			s.news = false
			l.mu.Unlock()
			s.f.OnDurable(upTo)
			l.mu.Lock()
		default:
			s.notifying = false
			l.forget(s)
			return
		}
	}
}

func (l *Loop) forget(s *slot) {
	owedFailure := l.failed != nil && !s.failTold
	if !s.queued && !s.syncing && !s.deferred && !owedFailure && l.slots[s.f] == s {
		delete(l.slots, s.f)
	}
}

// fail stops the loop for good and tells everyone: first the folder, then each
// waiter and each log that had something to sync. Called with the lock held.
func (l *Loop) fail(err error) {
	l.failed = err
	l.queue, l.dirtyBytes = nil, 0
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	for _, s := range l.slots {
		for _, w := range s.waiters {
			w <- err
		}
		s.waiters = nil
		s.queued, s.deferred = false, false
	}
	if l.o.OnOffline != nil {
		l.mu.Unlock()
		l.o.OnOffline(err)
		l.mu.Lock()
	}
	l.offlineTold = true
	for _, s := range slices.Collect(maps.Values(l.slots)) {
		if !s.syncing { // the others hear it when their sync returns
			l.tell(s)
		}
	}
}

// spawnTeller lets a request to a stopped loop hear OnFailed without holding
// its caller up, who may hold the log's lock.
func (l *Loop) spawnTeller(s *slot) {
	if s.failTold {
		s.failTold = false // a new request deserves its own answer
	}
	l.workers++
	go func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tell(s)
		l.workers--
		if l.workers == 0 {
			l.idle.Broadcast()
		}
	}()
}
