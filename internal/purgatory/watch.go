package purgatory

import (
	"sync"
	"sync/atomic"
)

// watcher ties an entry to one key. It is a link of the key's ring.
type watcher[K comparable] struct {
	entry      *entry[K]
	key        K
	prev, next *watcher[K] // guarded by the shard's mu; nil when not linked
}

// shard holds the watch lists of the keys that hash to it: for each key a ring of
// watchers, of which the map names the oldest. A key that nobody watches is not
// in the map.
type shard[K comparable] struct {
	mu    sync.Mutex
	lists map[K]*watcher[K]
	// linked counts the watchers in lists, for a look without the lock.
	linked atomic.Int64
}

func (s *shard[K]) link(w *watcher[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linked.Add(1)
	first := s.lists[w.key]
	if first == nil {
		w.prev, w.next = w, w
		s.lists[w.key] = w
		return
	}
	w.prev, w.next = first.prev, first
	first.prev.next = w
	first.prev = w
}

// unlink takes w out; it may not be in, or not any more.
func (s *shard[K]) unlink(w *watcher[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.next == nil {
		return
	}
	s.linked.Add(-1)
	switch {
	case w.next == w:
		delete(s.lists, w.key)
	case s.lists[w.key] == w:
		s.lists[w.key] = w.next
	}
	w.prev.next, w.next.prev = w.next, w.prev
	w.prev, w.next = nil, nil
}

// snapshot appends the entries that watch key to dst, oldest first. They are
// asked without the lock.
func (s *shard[K]) snapshot(key K, dst []*entry[K]) []*entry[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.lists[key]
	for w := first; w != nil; {
		dst = append(dst, w.entry)
		if w = w.next; w == first {
			break
		}
	}
	return dst
}
