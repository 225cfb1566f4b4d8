package consumer

import (
	"fmt"
	"slices"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/timeline"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Replay applies one record of the group. A tombstone of what is not there does
// nothing: compaction may have taken what it was for.
func (g *Group) Replay(offset int64, key recordschema.ConsumerGroupKey, value []byte) error {
	var err error
	switch key.Type {
	case recordschema.ConsumerGroupMetadataType:
		err = replayOne(g.meta, offset, struct{}{}, value, &recordschema.ConsumerGroupMetadataValue{},
			func(v *recordschema.ConsumerGroupMetadataValue) meta { return meta{v.Epoch, v.MetadataHash} })
	case recordschema.ConsumerGroupTargetMetadataType:
		err = replayOne(g.targetMeta, offset, struct{}{}, value, &recordschema.ConsumerGroupTargetMetadataValue{},
			func(v *recordschema.ConsumerGroupTargetMetadataValue) targetMeta {
				return targetMeta{v.AssignmentEpoch, v.AssignmentTimestamp}
			})
	case recordschema.ConsumerGroupPartitionMetadataType:
		// Not read since 4.1; noted, so that it can be removed.
		if value == nil {
			g.oldMetadata.Delete(offset, struct{}{})
		} else {
			g.oldMetadata.Set(offset, struct{}{}, struct{}{})
		}
	case recordschema.ConsumerGroupTargetMemberType:
		if v := (recordschema.ConsumerGroupTargetMemberValue{}); value == nil {
			g.target.Delete(offset, key.Name)
		} else if err = recordschema.ParseConsumerGroupValue(value, &v); err == nil {
			g.target.Set(offset, key.Name, assignmentOf(v.TopicPartitions))
		}
	case recordschema.ConsumerGroupRegularExpressionType:
		err = replayOne(g.regexes, offset, key.Name, value, &recordschema.ConsumerGroupRegularExpressionValue{},
			func(v *recordschema.ConsumerGroupRegularExpressionValue) resolved {
				topics := slices.Clone(v.Topics)
				slices.Sort(topics)
				return resolved{topics, v.Version, v.Timestamp}
			})
	case recordschema.ConsumerGroupMemberMetadataType:
		err = g.replayMember(offset, key.Name, value)
	case recordschema.ConsumerGroupCurrentMemberType:
		err = g.replayCurrent(offset, key.Name, value)
	}
	if err != nil {
		return fmt.Errorf("group %s, record type %d at offset %d: %w", g.id, key.Type, offset, err)
	}
	return nil
}

func replayOne[K comparable, V any, R recordschema.ConsumerGroupValue](
	m *timeline.Map[K, V], offset int64, k K, value []byte, into R, turn func(R) V,
) error {
	if value == nil {
		m.Delete(offset, k)
		return nil
	}
	if err := recordschema.ParseConsumerGroupValue(value, into); err != nil {
		return err
	}
	m.Set(offset, k, turn(into))
	return nil
}

func (g *Group) replayMember(offset int64, id string, value []byte) error {
	old, _ := g.members.Get(id, latest)
	if value == nil {
		if old != nil {
			g.members.Delete(offset, id)
			g.derive(offset, old, nil)
		}
		return nil
	}
	var v recordschema.ConsumerGroupMemberMetadataValue
	if err := recordschema.ParseConsumerGroupValue(value, &v); err != nil {
		return err
	}
	m := &Member{ID: id}
	if old != nil {
		*m = *old
	}
	m.InstanceID, m.RackID, m.ClientID, m.ClientHost = v.InstanceID, v.RackID, v.ClientID, v.ClientHost
	m.Topics = slices.Clone(v.SubscribedTopicNames)
	slices.Sort(m.Topics)
	m.Topics = slices.Compact(m.Topics)
	m.Regex, m.RebalanceMs, m.Assignor, m.Classic = v.SubscribedTopicRegex, v.RebalanceTimeoutMs, v.ServerAssignor, v.Classic
	g.putMember(offset, old, m)
	return nil
}

func (g *Group) replayCurrent(offset int64, id string, value []byte) error {
	old, _ := g.members.Get(id, latest)
	m := &Member{ID: id}
	if old != nil {
		*m = *old
	}
	if value == nil {
		if old == nil {
			return nil
		}
		m.Epoch, m.PrevEpoch, m.Assigned, m.Revoking = LeaveEpoch, LeaveEpoch, nil, nil
		g.putMember(offset, old, m)
		return nil
	}
	var v recordschema.ConsumerGroupCurrentMemberValue
	if err := recordschema.ParseConsumerGroupValue(value, &v); err != nil {
		return err
	}
	m.Epoch, m.PrevEpoch, m.State = v.MemberEpoch, v.PreviousMemberEpoch, State(v.State)
	if v.State < 0 || m.State > UnreleasedPartitions {
		m.State = unknownState
	}
	m.Assigned, m.Revoking = ownedOf(v.Assigned, v.MemberEpoch), ownedOf(v.PendingRevocation, v.MemberEpoch)
	g.putMember(offset, old, m)
	return nil
}

func (g *Group) putMember(offset int64, old, m *Member) {
	g.members.Set(offset, m.ID, m)
	g.derive(offset, old, m)
}

// derive keeps what follows from the members up to date; nil means no member.
func (g *Group) derive(offset int64, old, m *Member) {
	g.deriveOwners(offset, old, m)
	if old != nil && m != nil && old.sameMetadata(m) {
		return
	}
	g.countMember(offset, old, -1)
	g.countMember(offset, m, +1)
	if old != nil && old.InstanceID != nil && (m == nil || !equalPtr(old.InstanceID, m.InstanceID)) {
		if id, _ := g.static.Get(*old.InstanceID, latest); id == old.ID {
			g.static.Delete(offset, *old.InstanceID)
		}
	}
	if m != nil && m.InstanceID != nil {
		g.static.Set(offset, *m.InstanceID, m.ID)
	}
}

func (g *Group) deriveOwners(offset int64, old, m *Member) {
	if old != nil && m != nil && equalOwned(old.Assigned, m.Assigned) && equalOwned(old.Revoking, m.Revoking) {
		return
	}
	has := func(x *Member, t types.UUID, p int32) bool {
		if x == nil {
			return false
		}
		_, ok := x.AssignmentEpoch(t, p)
		return ok
	}
	if old != nil {
		gone := func(t types.UUID, p int32) {
			if owner, _ := g.owners.Get(unit{t, p}, latest); owner == old.ID && !has(m, t, p) {
				g.owners.Delete(offset, unit{t, p})
			}
		}
		each(old.Assigned, gone)
		each(old.Revoking, gone)
	}
	if m != nil {
		got := func(t types.UUID, p int32) {
			if !has(old, t, p) {
				g.owners.Set(offset, unit{t, p}, m.ID)
			}
		}
		each(m.Assigned, got)
		each(m.Revoking, got)
	}
}

func (g *Group) countMember(offset int64, m *Member, by int) {
	if m == nil {
		return
	}
	for _, t := range m.Topics {
		add(g.byTopic, offset, t, by)
	}
	if r := m.regex(); r != "" {
		add(g.byRegex, offset, r, by)
	}
	if m.Assignor != nil {
		add(g.byChoice, offset, *m.Assignor, by)
	}
	if m.Classic != nil {
		add(g.protocols, offset, "", by)
		for _, p := range m.Classic.SupportedProtocols {
			add(g.protocols, offset, p.Name, by)
		}
	}
}

func add(m *timeline.Map[string, int], offset int64, k string, by int) {
	n, _ := m.Get(k, latest)
	if n += by; n == 0 {
		m.Delete(offset, k)
	} else {
		m.Set(offset, k, n)
	}
}
