package group

import (
	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
)

// Loaded starts the sessions of every member that the log knows; the shard has
// just become this broker's.
func (s *Shard) Loaded(now coordinator.Now) coordinator.Output {
	var out coordinator.Output
	s.sync()
	out.NonAtomic = true // each group's records, and each new partition's, stand for themselves
	for _, id := range s.sortedGroups() {
		if s.cfg.NewPartitionsEarliest {
			out.Records = append(out.Records, s.catchUp(now, id)...)
		}
		if g := s.consumerGroup(id, latest); g != nil {
			g.Loaded(now)
			continue
		}
		merge(&out, s.resumeClassic(now, id))
	}
	return out
}

// resumeClassic makes a classic group from its record and lets it go on.
func (s *Shard) resumeClassic(now coordinator.Now, id string) coordinator.Output {
	c := s.classicGroup(now, id)
	if c != nil && (c.Size() > s.cfg.Classic.MaxSize || c.Unsettled()) {
		// group.max.size was lowered: let them commit, then fewer may rejoin. Or
		// the group was about to rebalance when it moved from the other protocol.
		return c.Rebalance(now)
	}
	return coordinator.Output{}
}

func merge(out *coordinator.Output, more coordinator.Output) {
	out.Records = append(out.Records, more.Records...)
	out.Effects = append(out.Effects, more.Effects...)
}

// NextTimer returns a time before which no timer is due.
func (s *Shard) NextTimer() (tickMs int64, ok bool) { return s.timers.NextMs() }

// FireTimer acts on one timer that is due; false when there is none.
func (s *Shard) FireTimer(now coordinator.Now) (coordinator.Output, bool) {
	key, ok := s.timers.Pop(now.TickMs)
	if !ok {
		return coordinator.Output{}, false
	}
	return s.fire(now, key), true
}

func (s *Shard) fire(now coordinator.Now, key timers.Key) coordinator.Output {
	s.sync()
	switch key.Kind {
	case timers.ClassicSession, timers.ClassicJoin, timers.ClassicSync:
		if c := s.live[key.Group]; c != nil {
			return fireClassic(now, c, key)
		}
		return coordinator.Output{}
	}
	g := s.consumerGroup(key.Group, latest)
	if g == nil {
		return coordinator.Output{}
	}
	members := g.SessionTimer(key.Member) // also of classic members that do not rejoin or sync
	if key.Kind == timers.ConsumerRebalance {
		members = g.RebalanceTimer(key.Member)
	}
	return s.removeConsumers(now, g, key.Group, members, key.Kind == timers.ConsumerSession)
}

func fireClassic(now coordinator.Now, c *classic.Group, key timers.Key) coordinator.Output {
	switch key.Kind {
	case timers.ClassicSession:
		return c.SessionTimer(now, key.Member)
	case timers.ClassicJoin:
		return c.JoinTimer(now)
	default:
		return c.SyncTimer(now)
	}
}

// Unload gives up every parked request: this broker does not lead the partition
// any more.
func (s *Shard) Unload() []coordinator.Effect {
	var out []coordinator.Effect
	for _, id := range s.sortedGroups() {
		if c := s.live[id]; c != nil {
			out = append(out, c.Kill(coordinator.Now{})...)
		}
	}
	clear(s.live)
	return out
}
