package classic

import (
	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/types"
)

// stats counts what a group's rebalances cost. A partition stops when its owner
// gives it up, leaves or is not heard of any more, and starts when it is
// assigned again (seed 004: not how long the rebalance took, but how many
// partitions stopped, and for how long).
type stats struct {
	rebalances   int64
	rebalanceMs  int64
	stoppedMs    int64
	staticWaitMs int64
	startedMs    int64 // of the rebalance under way; 0: none
	stopped      map[types.TopicPartition]int64
}

// Stats is what a group's rebalances cost since this coordinator has it.
type Stats struct {
	Rebalances  int64 // completed
	RebalanceMs int64 // from the first reason to the new assignment
	// StoppedMs sums over partitions how long nobody owned them.
	StoppedMs int64
	// StaticWaitMs sums how long the coordinator waited for static members that
	// were not heard of: until they came back, or were given up.
	StaticWaitMs int64
	// Stopped is how many partitions are without an owner now.
	Stopped int
}

// Stats returns the counters, with what is going on included.
func (g *Group) Stats(now coordinator.Now) Stats {
	s := Stats{
		Rebalances: g.stats.rebalances, RebalanceMs: g.stats.rebalanceMs, StoppedMs: g.stats.stoppedMs,
		StaticWaitMs: g.stats.staticWaitMs, Stopped: len(g.stats.stopped),
	}
	for _, since := range g.stats.stopped {
		s.StoppedMs += max(0, now.TickMs-since)
	}
	return s
}

func (g *Group) rebalanceStarted(now coordinator.Now) {
	if g.stats.startedMs == 0 {
		g.stats.startedMs = now.TickMs
	}
}

func (g *Group) rebalanceEnded(now coordinator.Now) {
	if g.stats.startedMs != 0 {
		g.stats.rebalanceMs += now.TickMs - g.stats.startedMs
		g.stats.startedMs = 0
	}
	g.stats.rebalances++
	if len(g.members) == 0 {
		// Nobody is left who could read them: the group is off, not rebalancing.
		for tp, since := range g.stats.stopped {
			g.stats.stoppedMs += max(0, now.TickMs-since)
			delete(g.stats.stopped, tp)
		}
	}
}

// stopGivenUp notes what a member that rejoins does not hold on to: everything
// with an eager assignor, what it was told to revoke with a cooperative one.
func (g *Group) stopGivenUp(now coordinator.Now, m *Member) {
	kept := map[types.TopicPartition]struct{}{}
	for _, p := range m.Protocols {
		s, ok := ParseSubscription(p.Metadata)
		if !ok || g.protocolType != ProtocolType {
			return
		}
		for _, o := range s.OwnedPartitions {
			for _, n := range o.Partitions {
				kept[types.TopicPartition{Topic: o.Topic, Partition: n}] = struct{}{}
			}
		}
	}
	g.stopExcept(now.TickMs, m, kept)
}

// stopAll notes that a member is gone.
func (g *Group) stopAll(_ coordinator.Now, m *Member) { g.stopExcept(m.seenMs, m, nil) }

func (g *Group) stopExcept(sinceMs int64, m *Member, kept map[types.TopicPartition]struct{}) {
	for tp := range g.assignedTo(m) {
		if _, ok := kept[tp]; ok {
			continue
		}
		if g.stats.stopped == nil {
			g.stats.stopped = map[types.TopicPartition]int64{}
		}
		if _, ok := g.stats.stopped[tp]; !ok {
			g.stats.stopped[tp] = sinceMs
		}
	}
}

// startAssigned notes that what is assigned runs again.
func (g *Group) startAssigned(now coordinator.Now) {
	if len(g.stats.stopped) == 0 {
		return
	}
	for _, m := range g.members {
		for tp := range g.assignedTo(m) {
			if since, ok := g.stats.stopped[tp]; ok {
				g.stats.stoppedMs += max(0, now.TickMs-since)
				delete(g.stats.stopped, tp)
			}
		}
	}
}

func (g *Group) assignedTo(m *Member) map[types.TopicPartition]struct{} {
	if g.protocolType != ProtocolType {
		return nil
	}
	a, ok := ParseAssignment(m.Assignment)
	if !ok {
		return nil
	}
	out := map[types.TopicPartition]struct{}{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			out[types.TopicPartition{Topic: t.Topic, Partition: p}] = struct{}{}
		}
	}
	return out
}

// waited counts the silence of a static member that came back or is given up.
func (g *Group) waited(now coordinator.Now, m *Member) {
	if m.InstanceID != nil && m.join == nil && m.sync == nil {
		g.stats.staticWaitMs += max(0, now.TickMs-m.seenMs)
	}
}
