package consumer

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

type topicID = types.UUID

// dropOldMetadata removes what a coordinator before 4.1 wrote.
func (c *change) dropOldMetadata() {
	c.write(c.g.tombstone(recordschema.ConsumerGroupPartitionMetadataType, ""))
}

// Leaving finds the member of a farewell. A static member may be named by its
// instance.
func (g *Group) Leaving(memberID string, instance *string) (*Member, error) {
	if instance == nil {
		m, ok := g.members.Get(memberID, latest)
		if !ok {
			return nil, kerrors.New(kerrors.UnknownMemberID, "Member %s is not a member of group %s.", memberID, g.id)
		}
		return m, nil
	}
	m, ok := g.StaticMember(*instance)
	switch {
	case !ok:
		return nil, kerrors.New(kerrors.UnknownMemberID, "Instance id %s is unknown.", *instance)
	case m.ID != memberID:
		return nil, fencedInstance(memberID, *instance, m.ID)
	}
	return m, nil
}

// Pause lets a static member go that means to come back: its partitions stay
// its own until its session ends.
func (g *Group) Pause(now coordinator.Now, m *Member) (coordinator.Output, *kmsg.ConsumerGroupHeartbeatResponse) {
	n := *m
	n.Epoch, n.Revoking = LeaveStaticEpoch, nil
	n.Assigned = make([]Owned, len(m.Assigned))
	for i, o := range m.Assigned {
		// Whoever comes back has them from the start.
		n.Assigned[i] = Owned{TopicID: o.TopicID, Partitions: o.Partitions, Epochs: make([]int32, len(o.Epochs))}
	}
	g.soft.stats.paused(now, m)
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &n.ID, LeaveStaticEpoch
	return coordinator.Output{Records: []coordinator.Record{g.currentRecord(&n)}}, resp
}

// Remove takes members out, whether they leave or are fenced, and makes a new
// group epoch. Members that are silent were not heard of since their sessions
// began.
func (g *Group) Remove(now coordinator.Now, members []*Member, silent bool) coordinator.Output {
	c := &change{g: g, now: now, regexes: map[string]*resolved{}}
	if len(members) == 0 {
		return c.out
	}
	gone := map[string]bool{}
	leaving := map[string]int{} // members per expression
	for _, m := range members {
		if gone[m.ID] {
			continue
		}
		gone[m.ID] = true
		c.write(g.removal(m.ID)...)
		if r := m.regex(); r != "" {
			leaving[r]++
		}
		since := now.TickMs
		if silent {
			since -= g.sessionMs(m)
		}
		g.soft.stats.removed(now, m, since)
		c.out.Effects = append(c.out.Effects, departed{g: g, id: m.ID})
	}
	for _, r := range g.sortedRegexes() {
		if users, _ := g.byRegex.Get(r, latest); leaving[r] > 0 && users == leaving[r] {
			c.write(g.tombstone(recordschema.ConsumerGroupRegularExpressionType, r))
			c.regexes[r] = nil
		}
	}
	m := meta{epoch: g.metaAt(latest).epoch + 1, hash: g.env.groupHash(g.hashesWithout(gone, c))}
	c.write(g.epochRecord(m))
	g.soft.stats.started(now)
	if len(gone) == g.Size() {
		g.soft.stats.emptied(now)
	}
	return c.out
}

// departed ends a member's timers when it is gone for good. When that could not
// be written it is still there, and has a new session to be heard of or end.
type departed struct {
	g  *Group
	id string
}

// Deliver implements coordinator.Effect.
func (d departed) Deliver(now coordinator.Now, err error) coordinator.Output {
	m, still := d.g.members.Get(d.id, latest)
	switch {
	case !still:
		d.g.cancelTimers(d.id)
	case err != nil:
		d.g.startTimers(now, m)
	}
	return coordinator.Output{}
}

// hashesWithout hashes the topics that the members other than gone subscribe to.
func (g *Group) hashesWithout(gone map[string]bool, c *change) []int64 {
	rest := &change{g: g, regexes: c.regexes}
	seen := map[string]struct{}{}
	for _, m := range g.members.All(latest) {
		if gone[m.ID] {
			continue
		}
		for _, t := range rest.subscriptions(m) {
			seen[t] = struct{}{}
		}
	}
	var out []int64
	for _, t := range slices.Sorted(maps.Keys(seen)) {
		if h, ok := g.env.hash(t); ok {
			out = append(out, h)
		}
	}
	return out
}

// SessionTimer ends a member that was not heard of.
func (g *Group) SessionTimer(memberID string) []*Member {
	if m, ok := g.members.Get(memberID, latest); ok {
		g.tell("member's session ended, or it did not rejoin or sync in time", memberID, false)
		return []*Member{m}
	}
	return nil
}

// RebalanceTimer ends a member that still has what it was told to give up.
func (g *Group) RebalanceTimer(memberID string) []*Member {
	m, ok := g.members.Get(memberID, latest)
	epoch, watched := g.soft.revoking[memberID]
	delete(g.soft.revoking, memberID)
	if !ok || !watched || m.Epoch != epoch || m.State != UnrevokedPartitions {
		return nil
	}
	g.tell("member did not give its partitions up within its rebalance timeout", memberID, false)
	return []*Member{m}
}

// Loaded starts the members' timers; the shard has just become this broker's.
func (g *Group) Loaded(now coordinator.Now) {
	for _, m := range g.sortedMembers(latest) {
		g.startTimers(now, m)
	}
}

// sessionMs is how long a member may be silent.
func (g *Group) sessionMs(m *Member) int64 {
	if m.UsesClassic() {
		return int64(m.Classic.SessionTimeoutMs)
	}
	return g.env.Config.Of(g.id).SessionMs
}

func (g *Group) startTimers(now coordinator.Now, m *Member) {
	g.env.Timers.Set(g.key(timers.ConsumerSession, m.ID), now.TickMs+g.sessionMs(m))
	if m.State == UnrevokedPartitions {
		g.watchRevocation(now, m)
	}
}

// Forget cancels the timers of all members.
func (g *Group) Forget() {
	for id := range g.members.All(latest) {
		g.cancelTimers(id)
	}
}
