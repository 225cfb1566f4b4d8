package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DeleteOffsets turns an OffsetDelete into tombstones. Every asked partition is
// in the answer; one without an offset is no error, one of a topic that a member
// reads is GROUP_SUBSCRIBED_TO_TOPIC. An unknown group is GROUP_ID_NOT_FOUND, one
// with members of another protocol than the consumers' NON_EMPTY_GROUP.
func (s *Shard) DeleteOffsets(now coordinator.Now, req *kmsg.OffsetDeleteRequest) (coordinator.Result[*kmsg.OffsetDeleteResponse], error) {
	var out coordinator.Result[*kmsg.OffsetDeleteResponse]
	g, ok := s.group(req.Group, latest)
	c, cg := s.classicGroup(now, req.Group), s.consumerGroup(req.Group, latest)
	if !ok && c == nil {
		return out, kerrors.GroupIDNotFound
	}
	if c != nil && c.State() != classic.Empty && c.ProtocolType() != classic.ProtocolType {
		return out, kerrors.NonEmptyGroup
	}
	resp := kmsg.NewPtrOffsetDeleteResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		subscribed := c != nil && c.SubscribedTo(t.Topic) || cg != nil && cg.SubscribedTo(t.Topic)
		for j := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = t.Partitions[j].Partition
			tp := types.TopicPartition{Topic: t.Topic, Partition: rp.Partition}
			if subscribed {
				rp.ErrorCode = int16(kerrors.GroupSubscribedToTopic)
			} else if g != nil && g.has(tp) {
				out.Records = append(out.Records, offsetTombstone(req.Group, tp))
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	out.Response = resp
	return out, nil
}

// has reports a committed offset or an undecided one.
func (g *groupState) has(tp types.TopicPartition) bool {
	if _, ok := g.offsets.Get(tp, latest); ok {
		return true
	}
	_, ok := g.open.Get(tp, latest)
	return ok
}

// DeleteGroup removes an empty group with all its offsets.
func (s *Shard) DeleteGroup(now coordinator.Now, id string) (coordinator.Result[struct{}], error) {
	var out coordinator.Result[struct{}]
	g, ok := s.group(id, latest)
	c := s.classicGroup(now, id)
	if !ok && c == nil {
		return out, kerrors.GroupIDNotFound
	}
	cg := s.consumerGroup(id, latest)
	if c != nil && c.State() != classic.Empty || cg != nil && cg.Size() > 0 {
		return out, kerrors.NonEmptyGroup
	}
	if ok {
		for _, tp := range g.partitions() {
			out.Records = append(out.Records, offsetTombstone(id, tp))
		}
	}
	records, effects := s.endGroup(now, id)
	out.Records, out.Effects = append(out.Records, records...), effects
	return out, nil
}

// partitions lists every partition with a committed or undecided offset, sorted.
func (g *groupState) partitions() []types.TopicPartition {
	var tps []types.TopicPartition
	for tp := range g.offsets.All(latest) {
		tps = append(tps, tp)
	}
	for tp := range g.open.All(latest) {
		if _, ok := g.offsets.Get(tp, latest); !ok {
			tps = append(tps, tp)
		}
	}
	slices.SortFunc(tps, comparePartitions)
	return tps
}

// sortedGroups lists all group ids, so that records come in a stable order.
func (s *Shard) sortedGroups() []string {
	ids := make([]string, 0, s.groups.Len())
	for id := range s.groups.All(latest) {
		ids = append(ids, id)
	}
	for id := range s.live {
		if _, ok := s.group(id, latest); !ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Expire turns offsets past their time into tombstones, and groups that have
// none left. A simple group's offset counts from its commit, an empty group's
// from the moment it became empty; a stable group of consumers loses the offsets
// of topics that it does not read any more, from their commit; other groups and
// partitions with an undecided transaction are left alone. maxRecords bounds one
// pass: the rest goes with the next call.
func (s *Shard) Expire(now coordinator.Now, maxRecords int) coordinator.Result[int] {
	var out coordinator.Result[int]
	for _, id := range s.sortedGroups() {
		if len(out.Records) >= maxRecords {
			break
		}
		records, empty := s.expireGroup(now, id)
		out.Response += len(records)
		out.Records = append(out.Records, records...)
		if empty {
			records, effects := s.endGroup(now, id)
			out.Records, out.Effects = append(out.Records, records...), append(out.Effects, effects...)
		}
	}
	return out
}

// expiry is the rule for one group's offsets; ok is false when they stay.
type expiry struct {
	sinceMs    int64 // -1: each counts from its commit
	subscribed func(topic string) bool
	deletable  bool // the group may go with its last offset
}

func (s *Shard) expiryOf(now coordinator.Now, id string) (e expiry, ok bool) {
	e = expiry{sinceMs: -1, subscribed: func(string) bool { return false }}
	if cg := s.consumerGroup(id, latest); cg != nil {
		e.subscribed, e.deletable = cg.SubscribedTo, cg.Size() == 0
		return e, true
	}
	c := s.classicGroup(now, id)
	switch {
	case c == nil:
		e.deletable = true
	case c.State() == classic.Empty:
		e.deletable = !c.Pending()
		if c.ProtocolType() != "" {
			e.sinceMs = c.StateSinceMs()
		}
	case c.State() == classic.Stable && c.ProtocolType() == classic.ProtocolType && c.KnowsSubscriptions():
		e.subscribed = c.SubscribedTo
	default:
		return e, false
	}
	return e, true
}

// expireGroup lists the tombstones of one group; empty says that nothing is
// left and the group itself may go.
func (s *Shard) expireGroup(now coordinator.Now, id string) (records []coordinator.Record, empty bool) {
	rule, ok := s.expiryOf(now, id)
	if !ok {
		return nil, false
	}
	g, ok := s.group(id, latest)
	if !ok {
		return nil, rule.deletable
	}
	empty = g.open.Len() == 0 && rule.deletable
	for _, tp := range g.partitions() {
		o, ok := g.offsets.Get(tp, latest)
		_, open := g.open.Get(tp, latest)
		since := o.CommitTimeMs
		if rule.sinceMs >= 0 {
			since = rule.sinceMs
		}
		if !ok || open || rule.subscribed(tp.Topic) || !s.expired(now.WallMs, since, o) {
			empty = false
			continue
		}
		records = append(records, offsetTombstone(id, tp))
	}
	return records, empty
}

func (s *Shard) expired(nowMs, sinceMs int64, o Offset) bool {
	if o.ExpireTimeMs != expireByRetention {
		return nowMs >= o.ExpireTimeMs // set by OffsetCommit v2-4
	}
	return nowMs-sinceMs >= s.cfg.OffsetsRetentionMs
}

// OnTopicsDeleted turns the offsets of deleted topics into tombstones. An
// offset stored without a topic id goes by name; one stored for another id
// (the topic was made again) stays.
func (s *Shard) OnTopicsDeleted(deleted []types.TopicIDPartition) coordinator.Result[int] {
	byName := map[string][]types.UUID{}
	for _, d := range deleted {
		byName[d.Topic] = append(byName[d.Topic], d.TopicID)
	}
	out := coordinator.Result[int]{NonAtomic: true}
	for _, id := range s.sortedGroups() {
		g, _ := s.group(id, latest)
		for _, tp := range g.partitions() {
			ids, gone := byName[tp.Topic]
			o, ok := g.offsets.Get(tp, latest)
			if !gone || (ok && !o.TopicID.IsZero() && !slices.Contains(ids, o.TopicID)) {
				continue
			}
			out.Records = append(out.Records, offsetTombstone(id, tp))
		}
	}
	out.Response = len(out.Records)
	return out
}
