package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// errRefused is an answer that no repetition changes.
var errRefused = errors.New("the payment provider refuses the card")

// provider is the slow and failing downstream: a payment provider that a test or
// the demo can make slower, break for one order, or let refuse one.
type provider struct {
	mu      sync.Mutex
	latency time.Duration
	oneIn   int
	broken  map[string]bool // orders whose charge fails
	refused map[string]bool // orders whose charge is refused
}

func newProvider(latency time.Duration) *provider {
	return &provider{latency: latency, broken: map[string]bool{}, refused: map[string]bool{}}
}

func (p *provider) failOneIn(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oneIn = n
}

func (p *provider) setLatency(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

func (p *provider) setBroken(order string, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken[order] = broken
}

func (p *provider) setRefused(order string, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[order] = refused
}

// charge is idempotent by the event's id, as such calls must be: it runs again
// whenever the event is delivered again.
func (p *provider) charge(ctx context.Context, e event) error {
	p.mu.Lock()
	latency, oneIn, broken, refused := p.latency, p.oneIn, p.broken[e.Order], p.refused[e.Order]
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(latency):
	}
	switch {
	case refused:
		return fmt.Errorf("%w of %s", errRefused, e.Order)
	case broken:
		return fmt.Errorf("payment provider: 503 for %s", e.Order)
	case oneIn > 0 && rand.IntN(oneIn) == 0:
		return errors.New("payment provider: connection reset")
	}
	return nil
}
