package coordinator

import "container/heap"

// Timers are the points in time at which a core wants to act: a map from key to
// deadline that knows the next one. They are soft state: not in the log, made
// again when a shard is loaded.
//
// Moving a deadline further away, which every heartbeat does, costs no more
// than a map look-up: the entry keeps its place in the heap and is put right
// when it comes up.
type Timers[K comparable] struct {
	entries map[K]*timer[K]
	heap    timerHeap[K]
	seq     uint64
}

type timer[K comparable] struct {
	key   K
	dueMs int64 // when it is due
	atMs  int64 // its place in the heap: never later than dueMs
	seq   uint64
	index int
}

// Set makes key due at dueMs, in place of what it was before.
func (t *Timers[K]) Set(key K, dueMs int64) {
	if e := t.entries[key]; e != nil {
		e.dueMs = dueMs
		if dueMs < e.atMs {
			e.atMs = dueMs
			heap.Fix(&t.heap, e.index)
		}
		return
	}
	if t.entries == nil {
		t.entries = map[K]*timer[K]{}
	}
	t.seq++
	e := &timer[K]{key: key, dueMs: dueMs, atMs: dueMs, seq: t.seq}
	t.entries[key] = e
	heap.Push(&t.heap, e)
}

// Cancel forgets key.
func (t *Timers[K]) Cancel(key K) {
	if e := t.entries[key]; e != nil {
		delete(t.entries, key)
		heap.Remove(&t.heap, e.index)
	}
}

// Due returns when key is due.
func (t *Timers[K]) Due(key K) (dueMs int64, ok bool) {
	if e := t.entries[key]; e != nil {
		return e.dueMs, true
	}
	return 0, false
}

// Len returns how many timers are set.
func (t *Timers[K]) Len() int { return len(t.entries) }

// NextMs returns a time before which no timer is due; false without timers.
func (t *Timers[K]) NextMs() (int64, bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].atMs, true
}

// Pop takes out one timer that is due at nowMs, the earliest first and equal
// ones in the order in which they were set.
func (t *Timers[K]) Pop(nowMs int64) (key K, ok bool) {
	for len(t.heap) > 0 && t.heap[0].atMs <= nowMs {
		e := t.heap[0]
		if e.dueMs > e.atMs {
			e.atMs = e.dueMs
			heap.Fix(&t.heap, 0)
			continue
		}
		heap.Pop(&t.heap)
		delete(t.entries, e.key)
		return e.key, true
	}
	return key, false
}

type timerHeap[K comparable] []*timer[K]

func (h timerHeap[K]) Len() int { return len(h) }
func (h timerHeap[K]) Less(i, j int) bool {
	if h[i].atMs != h[j].atMs {
		return h[i].atMs < h[j].atMs
	}
	return h[i].seq < h[j].seq
}

func (h timerHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap[K]) Push(x any) {
	e := x.(*timer[K])
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *timerHeap[K]) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
