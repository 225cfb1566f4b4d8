package log

import "sync"

// groupSync lets callers share a sync: each returns once one has ended that
// began after its call. One runs at a time; those who come meanwhile share the
// next one.
type groupSync struct {
	mu      sync.Mutex
	running bool
	next    *syncRound // of those who wait for the one after
}

// syncRound is one sync that several callers wait for.
type syncRound struct {
	done chan struct{}
	err  error
}

func (g *groupSync) do(sync func() error) error {
	g.mu.Lock()
	if g.next == nil {
		g.next = &syncRound{done: make(chan struct{})}
	}
	round := g.next
	if g.running {
		g.mu.Unlock()
		<-round.done
		return round.err
	}
	g.running = true
	for g.next != nil {
		now := g.next
		g.next = nil
		g.mu.Unlock()
		now.err = sync()
		close(now.done)
		g.mu.Lock()
	}
	g.running = false
	g.mu.Unlock()
	<-round.done
	return round.err
}
