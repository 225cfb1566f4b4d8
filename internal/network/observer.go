package network

import (
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/telemetry"
)

// Observer is told what happens; calls must be quick and not block.
type Observer interface {
	// ConnOpened counts an accepted connection.
	ConnOpened(listener string)
	// ConnClosed counts the end of one that ConnOpened saw, or with opened false
	// one that was turned away. reason is a Reason.
	ConnClosed(listener, reason string, opened bool)
	// RequestDone follows each request that the Handler ended. BytesOut is 0 when
	// nothing was written.
	RequestDone(s telemetry.RequestSample)
	// Panicked counts a panic that ended a connection.
	Panicked(where string)
}

var _ Observer = (*telemetry.Network)(nil)

// nobody is the Observer of those who give none.
type nobody struct{}

func (nobody) ConnOpened(string)                   {}
func (nobody) ConnClosed(string, string, bool)     {}
func (nobody) RequestDone(telemetry.RequestSample) {}
func (nobody) Panicked(string)                     {}

// maxWarnings bounds the warnings a second: junk must not fill the disk.
const maxWarnings = 10

// logLimiter lets maxWarnings lines a second through and counts the rest.
type logLimiter struct {
	mu         sync.Mutex
	since      time.Time
	n          int
	suppressed int
}

func (l *logLimiter) allow(now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= time.Second {
		l.since, l.n = now, 0
	}
	if l.n >= maxWarnings {
		l.suppressed++
		return 0, false
	}
	l.n++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}
