package consumer

import (
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// TakeOver lists the records that make a classic group of consumers one of this
// protocol (ConsumerGroup.fromClassicGroup): every member keeps what it has, in
// the epoch that is the classic generation. g is an empty group.
func (g *Group) TakeOver(now coordinator.Now, c *classic.Group) ([]coordinator.Record, error) {
	var members []*Member
	view := &change{g: g}
	for _, cm := range c.Members() {
		m, err := view.fromClassic(c, cm)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
		g.env.Timers.Set(g.key(timers.ConsumerSession, m.ID), now.TickMs+int64(cm.SessionMs))
	}
	var out []coordinator.Record
	topics := map[string]struct{}{}
	for _, m := range members {
		out = append(out, g.memberRecord(m))
		for _, t := range m.Topics {
			topics[t] = struct{}{}
		}
	}
	names := slices.Sorted(maps.Keys(topics))
	out = append(out, g.epochRecord(meta{epoch: c.Generation(), hash: g.takenHash(names, members)}))
	for _, m := range members {
		out = append(out, g.targetRecord(m.ID, partitionsOf(m.Assigned)))
	}
	out = append(out, g.targetMetaRecord(targetMeta{epoch: c.Generation()}))
	for _, m := range members {
		out = append(out, g.currentRecord(m))
	}
	return out, nil
}

// takenHash is the hash of the topics that members subscribe to, if their
// assignment covers them. Else the topics changed since the classic group was
// assigned (its leader may have been away, KIP-814), and the next heartbeat is to
// find another hash; Kafka would leave the new partitions without an owner.
func (g *Group) takenHash(topics []string, members []*Member) int64 {
	assigned := map[types.UUID]int{}
	for _, m := range members {
		for _, o := range m.Assigned {
			assigned[o.TopicID] += len(o.Partitions)
		}
	}
	var hashes []int64
	for _, name := range topics {
		h, ok := g.env.hash(name)
		if !ok {
			continue
		}
		if t, _ := g.env.Metadata.Topic(name); assigned[t.ID] < int(t.Partitions) {
			return 0
		}
		hashes = append(hashes, h)
	}
	return g.env.groupHash(hashes)
}

func (c *change) fromClassic(cg *classic.Group, cm *classic.Member) (*Member, error) {
	protocol := cg.Protocol()
	if protocol == "" {
		protocol = cm.Protocols[0].Name // nothing is chosen yet
	}
	sub, ok := classic.ParseSubscription(cm.Metadata(protocol))
	assignment, valid := classic.ParseAssignment(cm.Assignment)
	switch {
	case !ok || !valid:
		return nil, kerrors.New(kerrors.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because the embedded consumer protocol is malformed.", c.g.id)
	case len(assignment.UserData) > 0:
		return nil, kerrors.New(kerrors.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because an unsupported custom assignor is in use. "+
			"Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.", c.g.id)
	}
	m := &Member{
		ID: cm.ID, InstanceID: cm.InstanceID, RackID: sub.Rack, ClientID: cm.ClientID, ClientHost: cm.ClientHost,
		Topics: slices.Clone(sub.Topics), RebalanceMs: cm.RebalanceMs, Classic: classicOf(cm.SessionMs, cm.Protocols),
		Epoch: cg.Generation(), PrevEpoch: cg.Generation(), State: Stable,
	}
	slices.Sort(m.Topics)
	m.Topics = slices.Compact(m.Topics)
	for _, t := range assignment.Topics {
		topic, ok := c.g.env.Metadata.Topic(t.Topic)
		if !ok || len(t.Partitions) == 0 {
			continue
		}
		o := Owned{TopicID: topic.ID, Partitions: slices.Clone(t.Partitions), Epochs: make([]int32, len(t.Partitions))}
		for i := range o.Epochs {
			o.Epochs[i] = m.Epoch
		}
		sortOwned(&o)
		m.Assigned = append(m.Assigned, o)
	}
	slices.SortFunc(m.Assigned, func(a, b Owned) int { return assignor.CompareIDs(a.TopicID, b.TopicID) })
	return m, nil
}

// GiveBack lists the members, without gone, as a classic group has them
// (ClassicGroup.fromConsumerGroup). Kafka gives each its target assignment, which
// it may not have yet or still have more than; that is as good while the group
// rebalances, but wrong for whoever takes over before that is done. Here it is
// what the member has. A member that is not classic yet speaks the protocols of
// stand.
func (g *Group) GiveBack(gone []*Member, stand *classic.JoinRequest) []*classic.Member {
	var out []*classic.Member
	for _, m := range g.sortedMembers(latest) {
		if slices.ContainsFunc(gone, func(x *Member) bool { return x.ID == m.ID }) {
			continue
		}
		cm := &classic.Member{
			ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost, RebalanceMs: m.RebalanceMs,
		}
		if !m.UsesClassic() {
			n := *m
			n.Classic = classicOf(stand.SessionTimeoutMillis, classic.CopyProtocols(stand.Protocols))
			m = &n
		}
		cm.SessionMs = m.Classic.SessionTimeoutMs
		for _, p := range m.Classic.SupportedProtocols {
			cm.Protocols = append(cm.Protocols, classic.Protocol{Name: p.Name, Metadata: p.Metadata})
		}
		cm.Assignment = g.Embedded(m, partitionsOf(union(m.Assigned, m.Revoking)))
		out = append(out, cm)
	}
	return out
}

// AssignedAnew reports that what the members have, which a classic group would go
// on with, is not what they are to have once a classic member with r takes the
// place of old: the subscription or the topics changed, a newer assignment is
// due, or somebody is still on its way to this one.
func (g *Group) AssignedAnew(old *Member, r *classic.JoinRequest) bool {
	sub, ok := classic.ParseSubscription(r.Protocols[0].Metadata)
	if !ok || old.regex() != "" || g.AssignmentEpoch(latest) < g.Epoch(latest) {
		return true
	}
	for _, m := range g.members.All(latest) {
		if target, _ := g.target.Get(m.ID, latest); len(m.Revoking) > 0 || !partitionsOf(m.Assigned).Equal(target) {
			return true
		}
	}
	topics := slices.Sorted(slices.Values(sub.Topics))
	c := &change{g: g}
	return !slices.Equal(slices.Compact(topics), old.Topics) || c.stale() && c.metadataHash() != g.metaAt(latest).hash
}

// ReplayRecord applies a record to a group that is not in a shard.
func (g *Group) ReplayRecord(r coordinator.Record) error {
	k, err := recordschema.ParseConsumerGroupKey(r.Key)
	if err != nil {
		return err
	}
	return g.Replay(0, k, r.Value)
}
