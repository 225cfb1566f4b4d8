package classic

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// JoinRequest is a JoinGroup on its way.
type JoinRequest struct {
	*kmsg.JoinGroupRequest
	ClientID, ClientHost string
	// NewMemberID is the id that a member without one gets.
	NewMemberID string
	To          JoinWaiter
}

// Versions of JoinGroup that changed the rules.
const (
	joinRebalanceTimeoutVersion = 1 // before: the session timeout counts for both (C028)
	joinMemberIDRequiredVersion = 4 // KIP-394
)

// SkipAssignmentVersion is the first JoinGroup whose answer can tell a static
// member that it leads and need not assign (KIP-814).
const SkipAssignmentVersion = 9

// RebalanceMs is how long the member may take to rejoin.
func (r *JoinRequest) RebalanceMs() int32 {
	if r.Version < joinRebalanceTimeoutVersion {
		return r.SessionTimeoutMillis
	}
	return r.RebalanceTimeoutMillis
}

// Join handles a JoinGroup. Its answer comes through r.To.
func (g *Group) Join(now coordinator.Now, r JoinRequest) coordinator.Output {
	var out coordinator.Output
	protocols := CopyProtocols(r.Protocols)
	switch {
	case !g.accepts(r.MemberID):
		g.remove(r.MemberID)
		g.refuse(&out, r, "", kerrors.GroupMaxSizeReached)
	case !g.supports(r.ProtocolType, protocols):
		g.refuse(&out, r, r.MemberID, kerrors.InconsistentGroupProtocol)
	case r.MemberID == "":
		g.joinNew(now, &out, r, protocols)
	default:
		g.joinKnown(now, &out, r, protocols)
	}
	return out
}

func (g *Group) refuse(out *coordinator.Output, r JoinRequest, memberID string, code kerrors.Code) {
	out.Effects = append(out.Effects, JoinReply{To: r.To, Response: joinError(memberID, code)})
}

// accepts applies group.max.size (acceptJoiningMember). During a join phase the
// parked members count, so that a group over a lowered limit shrinks.
func (g *Group) accepts(memberID string) bool {
	m, known := g.members[memberID]
	switch g.state {
	case PreparingRebalance:
		return known && m.join != nil || g.awaitingJoin < g.cfg.MaxSize
	case CompletingRebalance, Stable:
		return known || len(g.members) < g.cfg.MaxSize
	}
	return true
}

func (g *Group) joinNew(now coordinator.Now, out *coordinator.Output, r JoinRequest, protocols []Protocol) {
	if r.InstanceID != nil {
		if old, ok := g.static[*r.InstanceID]; ok {
			g.joinInPlaceOf(now, out, r, protocols, old)
			return
		}
	} else if r.Version >= joinMemberIDRequiredVersion {
		// The id is known before the member is parked, so that a client that
		// gives up and joins again is not two members (KIP-394).
		g.pendingJoin[r.NewMemberID] = struct{}{}
		g.timers.Set(g.key(timers.ClassicSession, r.NewMemberID), now.TickMs+int64(r.SessionTimeoutMillis))
		g.refuse(out, r, r.NewMemberID, kerrors.MemberIDRequired)
		return
	}
	g.addMember(now, out, r, protocols, r.NewMemberID)
}

func (g *Group) addMember(now coordinator.Now, out *coordinator.Output, r JoinRequest, protocols []Protocol, id string) {
	m := &Member{
		ID: id, InstanceID: r.InstanceID, ClientID: r.ClientID, ClientHost: r.ClientHost, RebalanceMs: r.RebalanceMs(),
		SessionMs: r.SessionTimeoutMillis, Protocols: protocols, protocolType: r.ProtocolType, isNew: true, seenMs: now.TickMs,
	}
	if g.state == PreparingRebalance && g.previous == Empty {
		g.newMemberAdded = true // the initial rebalance may wait for more
	}
	g.add(m, r.To)
	// A new member cannot send heartbeats before it is answered. If its client is
	// gone, nobody else notices, so this JoinGroup ends some time.
	g.timers.Set(g.key(timers.ClassicSession, id), now.TickMs+g.cfg.NewMemberJoinTimeoutMs)
	g.rebalanceOrComplete(now, out)
}

func (g *Group) joinKnown(now coordinator.Now, out *coordinator.Output, r JoinRequest, protocols []Protocol) {
	if _, pending := g.pendingJoin[r.MemberID]; pending {
		if r.InstanceID != nil { // only dynamic members have pending ids
			g.refuse(out, r, r.MemberID, kerrors.UnknownMemberID)
			return
		}
		g.addMember(now, out, r, protocols, r.MemberID)
		return
	}
	m, code := g.validate(r.MemberID, r.InstanceID)
	if code != kerrors.None {
		g.refuse(out, r, r.MemberID, code)
		return
	}
	switch {
	case g.state == PreparingRebalance,
		g.state == CompletingRebalance && !m.matches(protocols),
		// The leader may know of a reason that is not in its metadata, such as
		// new partitions.
		g.state == Stable && (g.leader == m.ID || !m.matches(protocols)):
		g.update(now, out, m, r, protocols)
		g.stopGivenUp(now, m)
		g.rebalanceOrComplete(now, out)
	case g.state == CompletingRebalance, g.state == Stable:
		// Perhaps the first answer was lost: the current generation again.
		resp := g.joined(m, false)
		if g.state == CompletingRebalance && g.leader == m.ID {
			resp.Members = g.memberList()
		}
		out.Effects = append(out.Effects, JoinReply{To: r.To, Response: resp})
	default:
		g.refuse(out, r, r.MemberID, kerrors.UnknownMemberID)
	}
}

// update takes over what a member says on rejoining and parks it.
func (g *Group) update(now coordinator.Now, out *coordinator.Output, m *Member, r JoinRequest, protocols []Protocol) {
	g.count(m, -1)
	m.Protocols = protocols
	g.count(m, 1)
	m.RebalanceMs, m.SessionMs = r.RebalanceMs(), r.SessionTimeoutMillis
	m.seenMs = now.TickMs
	// After a retry over another connection nobody reads the older answer.
	g.answerJoin(out, m, joinError(m.ID, kerrors.RebalanceInProgress))
	g.park(m, r.To)
}

// joined is the answer for the current generation.
func (g *Group) joined(m *Member, skipAssignment bool) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.LeaderID, resp.MemberID, resp.SkipAssignment = g.generation, g.leader, m.ID, skipAssignment
	resp.ProtocolType, resp.Protocol = nullable(g.protocolType), nullable(g.protocol)
	return resp
}

// memberList is what the leader needs to assign.
func (g *Group) memberList() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, m := range g.Members() {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ProtocolMetadata = m.ID, m.InstanceID, m.Metadata(g.protocol)
		out = append(out, rm)
	}
	return out
}

// joinInPlaceOf gives an instance a new member id (KIP-345): the old one is
// fenced at once. In a stable group that keeps its protocol nothing else
// happens: the new process takes the assignment over.
func (g *Group) joinInPlaceOf(now coordinator.Now, out *coordinator.Output, r JoinRequest, protocols []Protocol, oldID string) {
	formerLeader := g.leader
	m := g.replace(now, out, oldID, r.NewMemberID)
	g.update(now, out, m, r, protocols)
	g.touch(now, m)
	if g.state != Stable || g.selectProtocol() != g.protocol {
		// After a JoinGroup round the leader may assign to the old id, so the
		// round is repeated; during one the new id takes part in it.
		g.stopGivenUp(now, m)
		g.rebalanceOrComplete(now, out)
		return
	}
	resp := g.joined(m, false)
	if r.Version >= SkipAssignmentVersion {
		if g.leader == m.ID {
			resp.SkipAssignment = true
			resp.Members = g.memberList()
		}
	} else {
		// The old leader id keeps an old client that was the leader from
		// assigning: it syncs as a follower.
		resp.LeaderID = formerLeader
	}
	out.Records = append(out.Records, g.record())
	g.answerJoin(out, m, resp)
}

// replace makes newID the member that oldID was.
func (g *Group) replace(now coordinator.Now, out *coordinator.Output, oldID, newID string) *Member {
	old := g.members[oldID]
	g.answerJoin(out, old, joinError(oldID, kerrors.FencedInstanceID))
	g.answerSync(out, old, syncError(kerrors.FencedInstanceID))
	g.timers.Cancel(g.key(timers.ClassicSession, oldID))
	g.waited(now, old)
	m := *old
	m.ID, m.isNew = newID, false
	delete(g.members, oldID)
	g.members[newID] = &m
	g.static[*m.InstanceID] = newID
	g.tell("static member comes back under a new id", newID)
	if _, ok := g.pendingSync[oldID]; ok {
		delete(g.pendingSync, oldID)
		g.pendingSync[newID] = struct{}{}
	}
	if g.leader == oldID {
		g.leader = newID
	}
	return &m
}
