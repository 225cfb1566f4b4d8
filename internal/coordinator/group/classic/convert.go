package classic

import (
	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// FromMembers makes the stable group of consumers that a group of the other
// protocol becomes (ClassicGroup.fromConsumerGroup); the members' sessions start
// now. Members need ids, timeouts, protocols and assignments. leader is the id of
// one of them; "": the first.
func FromMembers(id string, now coordinator.Now, cfg *Config, t *timers.Set, generation int32, members []*Member, leader string) *Group {
	g := New(id, now, cfg, t)
	g.state, g.previous, g.generation, g.protocolType = Stable, Dead, generation, ProtocolType
	for _, m := range members {
		m.protocolType = ProtocolType
		g.add(m, nil)
		g.touch(now, m)
	}
	if leader != "" {
		g.leader = leader
	}
	g.protocol = g.selectProtocol()
	g.subscribed = g.subscriptions()
	return g
}

// Convert ends the group because it goes on under the other protocol: whoever is
// parked has to join again.
func (g *Group) Convert(now coordinator.Now) []coordinator.Effect {
	return g.kill(now, kerrors.RebalanceInProgress)
}

// PrepareRebalance makes the members join again whatever the state.
func (g *Group) PrepareRebalance(now coordinator.Now) coordinator.Output {
	var out coordinator.Output
	g.prepare(now, &out)
	return out
}
