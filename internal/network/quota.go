package network

import (
	"net/netip"
	"sync"
	"time"
)

// quota counts connections against Limits (ConnectionQuotas in Apache Kafka).
type quota struct {
	mu          sync.Mutex
	changed     sync.Cond
	limits      Limits
	total       int
	perIP       map[netip.Addr]int
	perListener map[string]int
	stopped     bool

	// Creation rate: a bucket of one second's worth.
	tokens   float64
	filledAt time.Time
}

func newQuota(l Limits) *quota {
	q := &quota{perIP: map[netip.Addr]int{}, perListener: map[string]int{}}
	q.changed.L = &q.mu
	q.setLimits(l)
	return q
}

func (q *quota) setLimits(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limits = l
	q.changed.Broadcast()
}

// stop lets every waiter go.
func (q *quota) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.changed.Broadcast()
}

// enter counts a connection that was accepted. When the address has its share
// already, it is to be closed (false). When the house is full, enter waits, and
// with it the accept loop: further clients queue in the kernel and are served as
// others leave, as Kafka does.
func (q *quota) enter(l *Listener, ip netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.limits.MaxConnectionsPerIP
	if n, ok := q.limits.PerIPOverrides[ip]; ok {
		limit = n
	}
	if limit > 0 && q.perIP[ip] >= limit {
		return false
	}
	q.perIP[ip]++
	for !q.stopped && q.full(l) {
		q.changed.Wait()
	}
	q.total++
	q.perListener[l.Name]++
	return true
}

func (q *quota) full(l *Listener) bool {
	if l.MaxConnections > 0 && q.perListener[l.Name] >= l.MaxConnections {
		return true
	}
	return !l.Protected && q.limits.MaxConnections > 0 && q.total >= q.limits.MaxConnections
}

// leave is the end of a connection that entered.
func (q *quota) leave(listener string, ip netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	q.perListener[listener]--
	if q.perIP[ip]--; q.perIP[ip] <= 0 {
		delete(q.perIP, ip)
	}
	q.changed.Broadcast()
}

// pace returns how long to wait before the next accept.
func (q *quota) pace(l *Listener, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	rate := float64(q.limits.MaxCreationRate)
	if rate <= 0 || l.Protected {
		return 0
	}
	if q.filledAt.IsZero() {
		q.tokens = rate
	} else {
		q.tokens = min(rate, q.tokens+now.Sub(q.filledAt).Seconds()*rate)
	}
	q.filledAt = now
	q.tokens--
	if q.tokens >= 0 {
		return 0
	}
	return time.Duration(-q.tokens / rate * float64(time.Second))
}
