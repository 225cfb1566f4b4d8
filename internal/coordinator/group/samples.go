package group

import (
	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
)

// Sample is one group as metrics show it. Counters begin when the shard is
// loaded.
type Sample struct {
	Group, Type, State string
	Epoch              int32
	Members            int
	Rebalances         int64
	RebalanceMs        int64
	StoppedMs          int64 // summed over partitions (seed 004)
	StaticWaitMs       int64
	Stopped            int // partitions without an owner now
}

// Samples lists the groups that have members, or had some since the load.
func (s *Shard) Samples(now coordinator.Now) []Sample {
	var out []Sample
	for _, id := range s.sortedGroups() {
		if g := s.consumerGroup(id, latest); g != nil {
			st := g.Stats(now)
			out = append(out, Sample{
				Group: id, Type: typeConsumer, State: g.StateName(latest), Epoch: g.Epoch(latest), Members: g.Size(),
				Rebalances: st.Rebalances, RebalanceMs: st.RebalanceMs, StoppedMs: st.StoppedMs, StaticWaitMs: st.StaticWaitMs, Stopped: st.Stopped,
			})
		} else if c := s.classicGroup(now, id); c != nil && c.ProtocolType() == classic.ProtocolType {
			st := c.Stats(now)
			out = append(out, Sample{
				Group: id, Type: typeClassic, State: c.State().String(), Epoch: c.Generation(), Members: c.Size(),
				Rebalances: st.Rebalances, RebalanceMs: st.RebalanceMs, StoppedMs: st.StoppedMs, StaticWaitMs: st.StaticWaitMs, Stopped: st.Stopped,
			})
		}
	}
	return out
}
