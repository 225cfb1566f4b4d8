package replica

import "sync"

// waker completes operations for partitions whose offsets moved. The commit
// loop only queues a partition here, so that the next fsync starts at once and
// responses are built meanwhile on another processor. A partition is in the
// queue at most once: the queue is bounded by the partitions held.
type waker struct {
	mu     sync.Mutex
	ready  *sync.Cond
	queue  []*Partition
	closed bool
	wg     sync.WaitGroup
	// watched says whether completing a partition may find anybody. Mostly nobody
	// waits, and a goroutine woken on another processor for each append cost more
	// than the append's bookkeeping.
	watched func(*Partition) bool
}

func newWaker(n int, watched func(*Partition) bool, complete func(*Partition)) *waker {
	w := &waker{watched: watched}
	w.ready = sync.NewCond(&w.mu)
	for range n {
		w.wg.Go(func() { w.run(complete) })
	}
	return w
}

// wake queues p, if anybody waits for it; the caller has published its change. A
// later change that comes while p is being completed queues it again.
func (w *waker) wake(p *Partition) {
	if !w.watched(p) || p.queued.Swap(true) {
		return
	}
	w.mu.Lock()
	w.queue = append(w.queue, p)
	w.mu.Unlock()
	w.ready.Signal()
}

func (w *waker) run(complete func(*Partition)) {
	var batch []*Partition
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.ready.Wait()
		}
		if w.closed {
			w.mu.Unlock()
			return
		}
		batch, w.queue = w.queue, batch[:0]
		w.mu.Unlock()
		for i, p := range batch {
			p.queued.Store(false)
			complete(p)
			batch[i] = nil
		}
	}
}

func (w *waker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.ready.Broadcast()
	w.wg.Wait()
}
