package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Migration is group.consumer.migration.policy.
type Migration struct{ Upgrade, Downgrade bool }

// MigrationOf reads the policy's name.
func MigrationOf(policy string) Migration {
	return Migration{
		Upgrade:   policy == "upgrade" || policy == "bidirectional",
		Downgrade: policy == "downgrade" || policy == "bidirectional",
	}
}

// upgrade makes a classic group one of KIP-848, because its first member of that
// protocol joins. The classic members stay in it, and keep what they have.
func (s *Shard) upgrade(now coordinator.Now, c *classic.Group) (*consumer.Group, coordinator.Output, error) {
	var out coordinator.Output
	cannot := func(why string) (*consumer.Group, coordinator.Output, error) {
		return nil, out, kerrors.New(kerrors.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because %s.", c.ID(), why)
	}
	switch {
	case !s.cfg.Migration.Upgrade:
		return cannot("online upgrade is disabled")
	case c.ProtocolType() != classic.ProtocolType:
		return cannot("the group does not use the consumer embedded protocol")
	case c.Size() > s.cfg.Consumer.MaxSize:
		return cannot("the group size exceeds the consumer group maximum size")
	}
	g := s.sketch(c.ID())
	records, err := g.TakeOver(now, c)
	if err != nil {
		return nil, out, err
	}
	if err := replayInto(g, records); err != nil {
		return nil, out, err
	}
	s.cfg.Consumer.Observe.Tell(coordinator.Event{
		Group: c.ID(), What: "group moves from the classic protocol to KIP-848", Epoch: c.Generation(), Size: c.Size(),
	})
	out.Records = append([]coordinator.Record{groupTombstone(c.ID())}, records...)
	// Whoever waits in a rebalance joins again, which is now a rebalance of the
	// consumer group. If the records cannot be written, the classic group is
	// made again from its own.
	out.Effects = append(c.Convert(now), upgraded{s: s, id: c.ID()})
	delete(s.live, c.ID())
	return g, out, nil
}

// upgraded makes the classic group work again when the upgrade could not be
// written.
type upgraded struct {
	s  *Shard
	id string
}

// Deliver implements coordinator.Effect.
func (u upgraded) Deliver(now coordinator.Now, err error) coordinator.Output {
	if err != nil {
		return u.s.resumeClassic(now, u.id)
	}
	return coordinator.Output{}
}

// downgradeWithout makes a consumer group a classic one when only classic
// members are left without gone.
func (s *Shard) downgradeWithout(now coordinator.Now, g *consumer.Group, id string, gone []*consumer.Member) (coordinator.Output, bool) {
	if !s.cfg.Migration.Downgrade || !g.OnlyClassicWithout(gone) || g.Size()-len(gone) > s.cfg.Classic.MaxSize {
		return coordinator.Output{}, false
	}
	_, out := s.toClassic(now, g, id, gone, nil, true)
	return out, true
}

// toClassic makes the classic group and the records that put it in g's place.
// With rebalance its members join again at once, and their new coordinator makes
// them do so if there is one before they have.
func (s *Shard) toClassic(
	now coordinator.Now, g *consumer.Group, id string, gone []*consumer.Member, stand *classic.JoinRequest, rebalance bool,
) (*classic.Group, coordinator.Output) {
	members := g.GiveBack(gone, stand)
	generation := g.Epoch(latest)
	s.cfg.Consumer.Observe.Tell(coordinator.Event{
		Group: id, What: "group moves from KIP-848 to the classic protocol", Epoch: generation, Size: len(members),
	})
	leader := ""
	if stand != nil {
		// Without a rebalance only the member that joins can learn that it leads,
		// and a group without a leader that knows misses topics that grow.
		old, _ := g.StaticMember(*stand.InstanceID)
		leader = old.ID
	}
	records := g.Tombstones(nil)
	g.Forget()
	c := classic.FromMembers(id, now, &s.cfg.Classic, &s.timers, generation, members, leader)
	s.live[id] = c
	record := c.Record()
	if rebalance {
		record = c.UnsettledRecord()
	}
	out := coordinator.Output{Records: append(records, record)}
	out.Effects = append(out.Effects, converted{s: s, group: c})
	if rebalance {
		merge(&out, c.PrepareRebalance(now))
	}
	return c, out
}

// converted drops a classic group whose records could not be written: the
// consumer group is still there.
type converted struct {
	s     *Shard
	group *classic.Group
}

// Deliver implements coordinator.Effect.
func (v converted) Deliver(now coordinator.Now, err error) coordinator.Output {
	id := v.group.ID()
	if err == nil || v.s.live[id] != v.group {
		return coordinator.Output{}
	}
	out := coordinator.Output{Effects: v.group.Kill(now)}
	delete(v.s.live, id)
	if g := v.s.consumerGroup(id, latest); g != nil {
		g.Loaded(now)
	}
	return out
}

// joinConsumerGroup handles the JoinGroup of a classic member to a consumer group
// (classicGroupJoinToConsumerGroup).
func (s *Shard) joinConsumerGroup(now coordinator.Now, g *consumer.Group, r classic.JoinRequest) coordinator.Output {
	refuse := func(memberID string, code kerrors.Code) coordinator.Output {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.MemberID, resp.ErrorCode, resp.Generation = memberID, int16(code), -1
		return coordinator.Output{Effects: []coordinator.Effect{classic.JoinReply{To: r.To, Response: resp}}}
	}
	var names []string
	for _, p := range r.Protocols {
		names = append(names, p.Name)
	}
	unknown := r.MemberID == ""
	switch {
	case s.cfg.Migration == Migration{}, r.ProtocolType != classic.ProtocolType || !g.SupportsProtocol(names):
		return refuse(r.MemberID, kerrors.InconsistentGroupProtocol)
	case unknown && r.InstanceID == nil && r.Version >= 4:
		return refuse(r.NewMemberID, kerrors.MemberIDRequired)
	}
	if unknown {
		if r.InstanceID != nil {
			if old, ok := g.StaticMember(*r.InstanceID); ok && !old.UsesClassic() && s.lastOther(g, old) {
				// The last member of the other protocol comes back with this one.
				rebalance := g.AssignedAnew(old, &r) || r.Version < classic.SkipAssignmentVersion
				c, out := s.toClassic(now, g, r.Group, nil, &r, rebalance)
				merge(&out, c.Join(now, r))
				return out
			}
		}
		req := *r.JoinGroupRequest
		req.MemberID = r.NewMemberID
		r.JoinGroupRequest = &req
	} else {
		r.NewMemberID = ""
	}
	out, resp, err := g.JoinClassic(now, r)
	if err != nil {
		return refuse(r.MemberID, kerrors.CodeOf(err))
	}
	out.Effects = append(out.Effects, classic.JoinReply{To: r.To, Response: resp})
	return out
}

func (s *Shard) lastOther(g *consumer.Group, m *consumer.Member) bool {
	return s.cfg.Migration.Downgrade && g.ClassicMembers() == g.Size()-1 && g.Size() <= s.cfg.Classic.MaxSize && !m.UsesClassic()
}

// leaveConsumerGroup handles the LeaveGroup of classic members, and of an admin.
func (s *Shard) leaveConsumerGroup(now coordinator.Now, g *consumer.Group, req *kmsg.LeaveGroupRequest) coordinator.Result[*kmsg.LeaveGroupResponse] {
	resp := kmsg.NewPtrLeaveGroupResponse()
	var gone []*consumer.Member
	for _, m := range LeavingMembers(req) {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID = m.MemberID, m.InstanceID
		member, code := g.LeaveClassic(m.MemberID, m.InstanceID)
		if rm.ErrorCode = int16(code); code == kerrors.None {
			gone = append(gone, member)
		}
		resp.Members = append(resp.Members, rm)
	}
	return coordinator.With(s.removeConsumers(now, g, req.Group, gone, false), resp)
}

// replayInto applies records to a sketch of a group.
func replayInto(g *consumer.Group, records []coordinator.Record) error {
	for _, r := range records {
		if err := g.ReplayRecord(r); err != nil {
			return err
		}
	}
	return nil
}
