package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// classicGroup returns the classic group at work, made from its record when it
// has not been asked for since the load; nil for simple and unknown groups and
// those of other protocols.
func (s *Shard) classicGroup(now coordinator.Now, id string) *classic.Group {
	if c := s.live[id]; c != nil {
		return c
	}
	g, ok := s.group(id, latest)
	if !ok {
		return nil
	}
	v, ok := g.classic.Get(struct{}{}, latest)
	if !ok {
		return nil
	}
	c := classic.FromRecord(id, v, now, &s.cfg.Classic, &s.timers)
	s.live[id] = c
	return c
}

// endGroup removes an empty group of any kind. Its soft state goes at once: if
// the records cannot be written, the group is made again from the log.
func (s *Shard) endGroup(now coordinator.Now, id string) ([]coordinator.Record, []coordinator.Effect) {
	if g := s.consumerGroup(id, latest); g != nil {
		g.Forget()
		return g.Tombstones(nil), nil
	}
	var effects []coordinator.Effect
	if c := s.live[id]; c != nil {
		effects = c.Kill(now)
		delete(s.live, id)
	}
	return []coordinator.Record{groupTombstone(id)}, effects
}

// JoinGroup handles a JoinGroup (versions 0 to 9); its answer comes through
// r.To. A group that nobody knew is made by a member without an id only.
func (s *Shard) JoinGroup(now coordinator.Now, r classic.JoinRequest) coordinator.Result[struct{}] {
	s.sync()
	c := s.classicGroup(now, r.Group)
	if c != nil {
		return coordinator.With(c.Join(now, r), struct{}{})
	}
	var old coordinator.Output
	if cg := s.consumerGroup(r.Group, latest); cg != nil {
		if cg.Size() > 0 {
			return coordinator.With(s.joinConsumerGroup(now, cg, r), struct{}{})
		}
		if r.MemberID == "" {
			old.Records, _ = s.endGroup(now, r.Group) // a consumer group has no effects
		}
	}
	g, known := s.group(r.Group, latest)
	if r.MemberID != "" {
		known = known && s.consumerGroup(r.Group, latest) == nil
	}
	if !known && r.MemberID != "" {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.MemberID, resp.ErrorCode, resp.Generation = r.MemberID, int16(kerrors.UnknownMemberID), -1
		return coordinator.With(coordinator.Output{Effects: []coordinator.Effect{classic.JoinReply{To: r.To, Response: resp}}}, struct{}{})
	}
	c = classic.New(r.Group, now, &s.cfg.Classic, &s.timers)
	out := c.Join(now, r)
	if c.Simple() {
		return coordinator.With(out, struct{}{}) // refused: there is no group
	}
	s.live[r.Group] = c
	out.Records = append(old.Records, out.Records...)
	if g == nil || len(old.Records) > 0 {
		out.Records = append(out.Records, c.EmptyRecord())
		out.Effects = append(out.Effects, groupMade{s: s, group: c})
	}
	return coordinator.With(out, struct{}{})
}

// groupMade forgets a new group that could not be written.
type groupMade struct {
	s     *Shard
	group *classic.Group
}

// Deliver implements coordinator.Effect.
func (m groupMade) Deliver(now coordinator.Now, err error) coordinator.Output {
	if err == nil || m.s.live[m.group.ID()] != m.group {
		return coordinator.Output{}
	}
	delete(m.s.live, m.group.ID())
	return coordinator.Output{Effects: m.group.Kill(now)}
}

// SyncGroup handles a SyncGroup (versions 0 to 5); its answer comes through to.
func (s *Shard) SyncGroup(now coordinator.Now, req *kmsg.SyncGroupRequest, to classic.SyncWaiter) coordinator.Result[struct{}] {
	if g := s.consumerGroup(req.Group, latest); g != nil && g.Size() > 0 {
		s.sync()
		reply := classic.SyncReply{To: to, Response: g.SyncClassic(now, req)}
		return coordinator.With(coordinator.Output{Effects: []coordinator.Effect{reply}}, struct{}{})
	}
	if c := s.classicGroup(now, req.Group); c != nil && c.State() != classic.Empty {
		return coordinator.With(c.Sync(now, req, to), struct{}{})
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode, resp.MemberAssignment = int16(kerrors.UnknownMemberID), []byte{}
	return coordinator.With(coordinator.Output{Effects: []coordinator.Effect{classic.SyncReply{To: to, Response: resp}}}, struct{}{})
}

// Heartbeat handles a Heartbeat (versions 0 to 4).
func (s *Shard) Heartbeat(now coordinator.Now, req *kmsg.HeartbeatRequest) (coordinator.Result[*kmsg.HeartbeatResponse], error) {
	var out coordinator.Result[*kmsg.HeartbeatResponse]
	if g := s.consumerGroup(req.Group, latest); g != nil {
		out.Response = kmsg.NewPtrHeartbeatResponse()
		out.Response.ErrorCode = int16(g.HeartbeatClassic(now, req))
		return out, nil
	}
	c := s.classicGroup(now, req.Group)
	if c == nil {
		return out, kerrors.UnknownMemberID
	}
	out.Response = kmsg.NewPtrHeartbeatResponse()
	out.Response.ErrorCode = int16(c.Heartbeat(now, req))
	return out, nil
}

// LeaveGroup handles a LeaveGroup (versions 0 to 5; before 3 it names one
// member outside the list).
func (s *Shard) LeaveGroup(now coordinator.Now, req *kmsg.LeaveGroupRequest) (coordinator.Result[*kmsg.LeaveGroupResponse], error) {
	if g := s.consumerGroup(req.Group, latest); g != nil {
		s.sync()
		return s.leaveConsumerGroup(now, g, req), nil
	}
	resp := kmsg.NewPtrLeaveGroupResponse()
	c := s.classicGroup(now, req.Group)
	if c == nil {
		return coordinator.Result[*kmsg.LeaveGroupResponse]{}, kerrors.UnknownMemberID
	}
	var out coordinator.Output
	left := false
	for _, m := range LeavingMembers(req) {
		code := c.Leave(now, &out, m.MemberID, m.InstanceID)
		left = left || code == kerrors.None
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ErrorCode = m.MemberID, m.InstanceID, int16(code)
		resp.Members = append(resp.Members, rm)
	}
	if left {
		c.Left(now, &out)
	}
	return coordinator.With(out, resp), nil
}

// leaveBatchVersion is the first LeaveGroup with a list of members (KIP-345).
const leaveBatchVersion = 3

// LeavingMembers lists who leaves, in any version.
func LeavingMembers(req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupRequestMember {
	if req.Version >= leaveBatchVersion {
		return req.Members
	}
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = req.MemberID
	return []kmsg.LeaveGroupRequestMember{m}
}
