package purgatory

import (
	"sync"
	"time"
)

// timerHeap finishes entries whose deadline has passed: a binary heap and one
// runtime timer armed for the earliest. Kafka turns a hierarchical wheel; a heap
// does nothing at all while nothing is due, and its cost, the logarithm of the
// entries that wait, does not show before hundreds of thousands.
type timerHeap[K comparable] struct {
	start  time.Time
	expire func(*entry[K])

	mu      sync.Mutex
	heap    []*entry[K]
	timer   *time.Timer
	armed   bool
	armedAt time.Duration
}

func (t *timerHeap[K]) init(expire func(*entry[K])) {
	t.start, t.expire = time.Now(), expire
}

// now is the timer's clock.
func (t *timerHeap[K]) now() time.Duration { return time.Since(t.start) }

func (t *timerHeap[K]) add(e *entry[K]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.heapIndex = len(t.heap)
	t.heap = append(t.heap, e)
	t.up(e.heapIndex)
	t.arm()
}

// remove takes e out if it is in. The runtime timer is left as it is: when it
// fires for nothing it is armed anew, which is cheaper than stopping it each time.
func (t *timerHeap[K]) remove(e *entry[K]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeAt(e.heapIndex)
}

// drain empties the heap and stops the timer.
func (t *timerHeap[K]) drain() []*entry[K] {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.heap
	t.heap = nil
	for _, e := range all {
		e.heapIndex = -1
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.armed = false
	return all
}

// fire runs on the runtime timer.
func (t *timerHeap[K]) fire() {
	t.mu.Lock()
	t.armed = false
	now := t.now()
	var due []*entry[K]
	for len(t.heap) > 0 && t.heap[0].deadline <= now {
		due = append(due, t.heap[0])
		t.removeAt(0)
	}
	t.arm()
	t.mu.Unlock()
	for _, e := range due {
		t.expire(e)
	}
}

// arm sees to it that the timer fires no later than the earliest deadline.
func (t *timerHeap[K]) arm() {
	if len(t.heap) == 0 {
		return
	}
	at := t.heap[0].deadline
	if t.armed && t.armedAt <= at {
		return
	}
	t.armed, t.armedAt = true, at
	wait := max(at-t.now(), 0)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
	} else {
		t.timer.Reset(wait)
	}
}

func (t *timerHeap[K]) removeAt(i int) {
	if i < 0 {
		return
	}
	e, last := t.heap[i], len(t.heap)-1
	t.swap(i, last)
	t.heap[last] = nil
	t.heap = t.heap[:last]
	if i < last {
		t.down(i)
		t.up(i)
	}
	e.heapIndex = -1
}

func (t *timerHeap[K]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.heap[parent].deadline <= t.heap[i].deadline {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timerHeap[K]) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(t.heap) {
			return
		}
		if r := least + 1; r < len(t.heap) && t.heap[r].deadline < t.heap[least].deadline {
			least = r
		}
		if t.heap[i].deadline <= t.heap[least].deadline {
			return
		}
		t.swap(i, least)
		i = least
	}
}

func (t *timerHeap[K]) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].heapIndex, t.heap[j].heapIndex = i, j
}
