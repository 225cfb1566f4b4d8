package network

import "sync"

// budget bounds the memory of all requests in the house: frames as they are
// read and what decoding them may allocate.
//
// Takers wait in line, first come first served. Two rules keep it moving, at the
// price of one request above the limit (as Kafka's SimpleMemoryPool does): a
// taker that finds nothing taken gets whatever it asks for, and one frame at a
// time, the first in line that already holds memory, may pass the limit; without
// that, frames that have half arrived could hold everything and wait for each
// other.
type budget struct {
	mu        sync.Mutex
	limit     int64
	used      int64
	head      *grant // the line, oldest first
	tail      *grant
	waiting   int
	holders   int    // of those in line, how many hold memory
	overdraft *grant // may pass the limit until it gives everything back
}

// grant is what one request holds. Its owner is one goroutine at a time.
type grant struct {
	held       int64
	want       int64
	queued     bool
	ready      chan struct{}
	prev, next *grant
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// tryTake adds n bytes to g if it need not wait.
func (b *budget) tryTake(g *grant, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.overdraft != g && (b.head != nil || !b.fits(n)) {
		return false
	}
	b.give(g, n)
	return true
}

// take adds n bytes to g, waiting in line if it must. It is false when done was
// closed first.
func (b *budget) take(g *grant, n int64, done <-chan struct{}) bool {
	b.mu.Lock()
	g.want = n
	if g.ready == nil {
		g.ready = make(chan struct{}, 1)
	}
	b.enqueue(g)
	b.wake()
	b.mu.Unlock()
	select {
	case <-g.ready:
		return true
	case <-done:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.queued {
		b.dequeue(g)
		b.wake()
	} else {
		<-g.ready // it was given in between; release gives it back
	}
	return false
}

// release gives back everything g holds.
func (b *budget) release(g *grant) {
	if g.held == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= g.held
	g.held = 0
	if b.overdraft == g {
		b.overdraft = nil
	}
	b.wake()
}

// inUse returns what is taken and how many wait.
func (b *budget) inUse() (used int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.waiting
}

func (b *budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.limit }

func (b *budget) give(g *grant, n int64) {
	b.used += n
	g.held += n
}

// wake serves the line from its head, then lends the overdraft if it is free.
func (b *budget) wake() {
	for b.head != nil && b.fits(b.head.want) {
		b.serve(b.head)
	}
	if b.overdraft != nil || b.holders == 0 {
		return
	}
	for g := b.head; g != nil; g = g.next {
		if g.held > 0 {
			b.overdraft = g
			b.serve(g)
			return
		}
	}
}

func (b *budget) serve(g *grant) {
	b.dequeue(g)
	b.give(g, g.want)
	g.ready <- struct{}{} // room for one, and only one is ever owed
}

func (b *budget) enqueue(g *grant) {
	g.queued, g.prev, g.next = true, b.tail, nil
	if b.tail != nil {
		b.tail.next = g
	} else {
		b.head = g
	}
	b.tail = g
	b.waiting++
	if g.held > 0 {
		b.holders++
	}
}

func (b *budget) dequeue(g *grant) {
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		b.head = g.next
	}
	if g.next != nil {
		g.next.prev = g.prev
	} else {
		b.tail = g.prev
	}
	g.queued, g.prev, g.next = false, nil, nil
	b.waiting--
	if g.held > 0 {
		b.holders--
	}
}

// Of the memory for requests, one part in reserveShare is kept for requests that
// hold no more than smallRequest in all: however many large frames arrive, or
// stall half arrived, heartbeats, metadata and small batches get through.
const (
	reserveShare = 8
	smallRequest = 64 << 10
)

// memory is the budget of all requests, and the part that is kept for small ones.
type memory struct {
	all     *budget
	reserve *budget
}

// memoryGrant is what one request holds of both. small says that its frame claims
// to be small: the first bytes of large ones must not eat the reserve.
type memoryGrant struct {
	all, reserve grant
	small        bool
}

func newMemory(limit int64) memory {
	reserve := limit / reserveShare
	return memory{all: newBudget(limit - reserve), reserve: newBudget(reserve)}
}

// tryTake adds n bytes to g if it need not wait.
func (m *memory) tryTake(g *memoryGrant, n int64) bool {
	if g.small && g.all.held == 0 && g.reserve.held+n <= smallRequest && m.reserve.tryTake(&g.reserve, n) {
		return true
	}
	return m.all.tryTake(&g.all, n)
}

// take waits in line with everybody else.
func (m *memory) take(g *memoryGrant, n int64, done <-chan struct{}) bool {
	return m.all.take(&g.all, n, done)
}

func (m *memory) release(g *memoryGrant) {
	m.reserve.release(&g.reserve)
	m.all.release(&g.all)
}

// inUse returns what is taken of both and how many wait.
func (m *memory) inUse() (used int64, waiting int) {
	small, _ := m.reserve.inUse()
	used, waiting = m.all.inUse()
	return used + small, waiting
}
