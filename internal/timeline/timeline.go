package timeline

import (
	"iter"
	"math"
)

// Latest reads the newest state, uncommitted changes included.
const Latest int64 = math.MaxInt64

// Registry orders the changes of all maps that share it.
type Registry struct {
	changes []change // in offset order, all uncommitted
}

type change struct {
	offset int64
	target versioned
	key    any // the map's own key type
}

type versioned interface {
	forget(key any) // drop the oldest kept value of key
	undo(key any)   // put the newest kept value of key back
}

// Commit makes every change below offset final.
func (r *Registry) Commit(offset int64) {
	n := 0
	for n < len(r.changes) && r.changes[n].offset < offset {
		r.changes[n].target.forget(r.changes[n].key)
		r.changes[n] = change{}
		n++
	}
	r.changes = r.changes[n:]
	if len(r.changes) == 0 {
		r.changes = nil // let the array go: it may have been large
	}
}

// Revert undoes every change at or above offset, newest first.
func (r *Registry) Revert(offset int64) {
	for n := len(r.changes); n > 0 && r.changes[n-1].offset >= offset; n-- {
		c := r.changes[n-1]
		c.target.undo(c.key)
		r.changes[n-1] = change{}
		r.changes = r.changes[:n-1]
	}
}

// Pending returns how many changes are not committed.
func (r *Registry) Pending() int { return len(r.changes) }

// Map is a map with history. Make it with NewMap.
type Map[K comparable, V any] struct {
	reg     *Registry
	current map[K]V
	history map[K][]version[V] // values before each uncommitted change, oldest first
}

type version[V any] struct {
	offset  int64 // of the change that replaced this value
	value   V
	present bool
}

// NewMap returns an empty map whose changes reg orders.
func NewMap[K comparable, V any](reg *Registry) *Map[K, V] {
	return &Map[K, V]{reg: reg, current: map[K]V{}, history: map[K][]version[V]{}}
}

// Set stores v under k as of the record at offset.
func (m *Map[K, V]) Set(offset int64, k K, v V) {
	m.keep(offset, k)
	m.current[k] = v
}

// Delete removes k as of the record at offset; an absent key stays absent.
func (m *Map[K, V]) Delete(offset int64, k K) {
	if _, ok := m.current[k]; !ok {
		return
	}
	m.keep(offset, k)
	delete(m.current, k)
}

func (m *Map[K, V]) keep(offset int64, k K) {
	old, ok := m.current[k]
	m.history[k] = append(m.history[k], version[V]{offset: offset, value: old, present: ok})
	m.reg.changes = append(m.reg.changes, change{offset: offset, target: m, key: k})
}

// Get returns the value of k with all changes below asOf applied; Latest reads
// the newest.
func (m *Map[K, V]) Get(k K, asOf int64) (V, bool) {
	for _, h := range m.history[k] {
		if h.offset >= asOf {
			return h.value, h.present
		}
	}
	v, ok := m.current[k]
	return v, ok
}

// All yields every entry with all changes below asOf applied, in no order.
// The map must not change meanwhile.
func (m *Map[K, V]) All(asOf int64) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k := range m.current {
			if v, ok := m.Get(k, asOf); ok && !yield(k, v) {
				return
			}
		}
		for k := range m.history {
			if _, ok := m.current[k]; ok {
				continue
			}
			if v, ok := m.Get(k, asOf); ok && !yield(k, v) {
				return
			}
		}
	}
}

// Len returns the number of entries of the newest state.
func (m *Map[K, V]) Len() int { return len(m.current) }

func (m *Map[K, V]) forget(key any) {
	k := key.(K)
	h := m.history[k]
	if len(h) <= 1 {
		delete(m.history, k)
		return
	}
	m.history[k] = h[1:]
}

func (m *Map[K, V]) undo(key any) {
	k := key.(K)
	h := m.history[k]
	last := h[len(h)-1]
	if last.present {
		m.current[k] = last.value
	} else {
		delete(m.current, k)
	}
	if len(h) == 1 {
		delete(m.history, k)
		return
	}
	m.history[k] = h[:len(h)-1]
}
