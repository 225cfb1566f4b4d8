package fetchsession

import (
	"cmp"

	"github.com/tidwall/btree"
)

// Options bound the cache.
type Options struct {
	// MaxSessions is max.incremental.fetch.session.cache.slots. Default 1000.
	MaxSessions int
	// EvictionMs is how long a session is safe from eviction by others that
	// are larger or a follower's. Default 120000, as Kafka's constant.
	EvictionMs int64
	// Random draws the bits of session ids.
	Random func() uint32
}

// Cache holds the sessions of one broker.
type Cache struct {
	opts     Options
	sessions map[int32]*session
	// lastUsed orders all sessions by use; evictable holds those that another
	// session may push out, smallest first: privileged ones push out from
	// byPrivileged, all others from byAll.
	lastUsed     *btree.BTreeG[*session]
	byAll        *btree.BTreeG[*session]
	byPrivileged *btree.BTreeG[*session]
	partitions   int
	evictions    int64
}

// NewCache returns an empty cache.
func NewCache(opts Options) *Cache {
	if opts.EvictionMs == 0 {
		opts.EvictionMs = 120_000
	}
	plain := btree.Options{NoLocks: true}
	return &Cache{
		opts: opts, sessions: map[int32]*session{},
		lastUsed: btree.NewBTreeGOptions(func(a, b *session) bool {
			return cmp.Or(cmp.Compare(a.lastUsedMs, b.lastUsedMs), cmp.Compare(a.id, b.id)) < 0
		}, plain),
		byAll:        btree.NewBTreeGOptions(lessEvictable, plain),
		byPrivileged: btree.NewBTreeGOptions(lessEvictable, plain),
	}
}

// lessEvictable ranks sessions by what losing them costs: consumers before
// followers, small before large.
func lessEvictable(a, b *session) bool { return compareEvictable(a, b) < 0 }

func compareEvictable(a, b *session) int {
	if a.privileged != b.privileged {
		if b.privileged {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.id, b.id))
}

// Len returns the number of sessions.
func (c *Cache) Len() int { return len(c.sessions) }

// Partitions returns the number of partitions over all sessions.
func (c *Cache) Partitions() int { return c.partitions }

// Evictions returns how many sessions were pushed out so far.
func (c *Cache) Evictions() int64 { return c.evictions }

// create makes a session when there is room or room can be made.
func (c *Cache) create(nowMs int64, privileged, usesTopicIDs bool, size int) (*session, bool) {
	if len(c.sessions) >= c.opts.MaxSessions && !c.evictFor(nowMs, privileged, size) {
		return nil, false
	}
	s := newSession(c.newID(), privileged, usesTopicIDs, nowMs)
	c.sessions[s.id] = s
	return s, true
}

// evictFor drops one session for a new one: the least recently used if it is
// stale, else the cheapest evictable one if the newcomer is worth more.
func (c *Cache) evictFor(nowMs int64, privileged bool, size int) bool {
	oldest, ok := c.lastUsed.Min()
	if !ok {
		return false
	}
	if nowMs-oldest.lastUsedMs > c.opts.EvictionMs {
		c.remove(oldest)
		c.evictions++
		return true
	}
	candidates := c.byAll
	if privileged {
		candidates = c.byPrivileged
	}
	victim, ok := candidates.Min()
	newcomer := &session{privileged: privileged, size: size}
	if !ok || compareEvictable(newcomer, victim) < 0 {
		return false
	}
	c.remove(victim)
	c.evictions++
	return true
}

func (c *Cache) newID() int32 {
	for {
		id := int32(c.opts.Random() & 0x7fffffff)
		if _, taken := c.sessions[id]; !taken && id != invalidID {
			return id
		}
	}
}

// touch notes a use and the size now, and re-ranks the session.
func (c *Cache) touch(s *session, nowMs int64) {
	c.unrank(s)
	s.lastUsedMs = nowMs
	s.size = len(s.partitions)
	c.partitions += s.size
	c.lastUsed.Set(s)
	old := nowMs-s.createdMs > c.opts.EvictionMs
	if !s.privileged || old {
		c.byPrivileged.Set(s)
	}
	if old {
		c.byAll.Set(s)
	}
}

func (c *Cache) unrank(s *session) {
	c.lastUsed.Delete(s)
	c.byAll.Delete(s)
	c.byPrivileged.Delete(s)
	if s.size >= 0 {
		c.partitions -= s.size
	}
}

func (c *Cache) remove(s *session) {
	c.unrank(s)
	delete(c.sessions, s.id)
}
