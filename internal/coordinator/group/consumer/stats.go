package consumer

import (
	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/types"
)

// stats counts what a group's rebalances cost (seed 004). A partition stops when
// its owner is told to give it up, leaves or is not heard of any more, and starts
// when the next member gets it.
type stats struct {
	rebalances, rebalanceMs, stoppedMs, staticWaitMs int64

	startedMs int64               // of the rebalance under way; 0: none
	behind    map[string]struct{} // members that have not come to the target yet
	stopped   map[unit]int64      // since when
	away      map[string]int64    // static members that left to come back
}

// Stats is what a group's rebalances cost since this coordinator has it.
type Stats struct {
	Rebalances  int64 // completed: every member came to the target
	RebalanceMs int64
	// StoppedMs sums over partitions how long nobody owned them.
	StoppedMs int64
	// StaticWaitMs sums how long partitions waited for static members that left
	// to come back.
	StaticWaitMs int64
	// Stopped is how many partitions are without an owner now.
	Stopped int
}

// Stats returns the counters, with what is going on included.
func (g *Group) Stats(now coordinator.Now) Stats {
	s := &g.soft.stats
	out := Stats{
		Rebalances: s.rebalances, RebalanceMs: s.rebalanceMs, StoppedMs: s.stoppedMs, StaticWaitMs: s.staticWaitMs, Stopped: len(s.stopped),
	}
	for _, since := range s.stopped {
		out.StoppedMs += max(0, now.TickMs-since)
	}
	for _, since := range s.away {
		out.StaticWaitMs += max(0, now.TickMs-since)
	}
	return out
}

func (s *stats) started(now coordinator.Now) {
	if s.startedMs == 0 {
		s.startedMs = max(1, now.TickMs)
	}
}

// retargeted notes that there is a new target that all members have to come to.
func (s *stats) retargeted(members []*Member) {
	s.behind = make(map[string]struct{}, len(members))
	for _, m := range members {
		s.behind[m.ID] = struct{}{}
	}
}

// moved notes one step of a member.
func (s *stats) moved(now coordinator.Now, old, m *Member, epoch int32) {
	each(m.Revoking, func(t types.UUID, p int32) {
		if _, already := epochOf(old.Revoking, t, p); !already {
			s.stop(unit{t, p}, now.TickMs)
		}
	})
	if len(s.stopped) > 0 {
		each(m.Assigned, func(t types.UUID, p int32) { s.start(unit{t, p}, now) })
	}
	if m.reconciledTo(epoch) {
		s.arrived(now, m.ID)
	}
}

func (s *stats) arrived(now coordinator.Now, id string) {
	if len(s.behind) == 0 {
		return
	}
	if delete(s.behind, id); len(s.behind) == 0 {
		s.ended(now)
	}
}

func (s *stats) ended(now coordinator.Now) {
	if s.startedMs != 0 {
		s.rebalances++
		s.rebalanceMs += max(0, now.TickMs-s.startedMs)
		s.startedMs = 0
	}
}

func (s *stats) stop(u unit, sinceMs int64) {
	if s.stopped == nil {
		s.stopped = map[unit]int64{}
	}
	if _, ok := s.stopped[u]; !ok {
		s.stopped[u] = sinceMs
	}
}

func (s *stats) start(u unit, now coordinator.Now) {
	if since, ok := s.stopped[u]; ok {
		s.stoppedMs += max(0, now.TickMs-since)
		delete(s.stopped, u)
	}
}

// removed notes that a member is gone, and was since since.
func (s *stats) removed(now coordinator.Now, m *Member, since int64) {
	each(m.Assigned, func(t types.UUID, p int32) { s.stop(unit{t, p}, since) })
	each(m.Revoking, func(t types.UUID, p int32) { s.stop(unit{t, p}, since) })
	s.returned(now, m)
	s.arrived(now, m.ID)
}

// emptied notes that nobody is left who could read: the group is off.
func (s *stats) emptied(now coordinator.Now) {
	for u := range s.stopped {
		s.start(u, now)
	}
	s.behind = nil
	s.ended(now)
}

// paused and returned frame the absence of a static member.
func (s *stats) paused(now coordinator.Now, m *Member) {
	if s.away == nil {
		s.away = map[string]int64{}
	}
	s.away[m.ID] = now.TickMs
}

func (s *stats) returned(now coordinator.Now, m *Member) {
	if since, ok := s.away[m.ID]; ok {
		s.staticWaitMs += max(0, now.TickMs-since)
		delete(s.away, m.ID)
	}
}
