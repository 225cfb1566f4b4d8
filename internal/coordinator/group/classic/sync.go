package classic

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Sync handles a SyncGroup. Its answer comes through to.
func (g *Group) Sync(now coordinator.Now, r *kmsg.SyncGroupRequest, to SyncWaiter) coordinator.Output {
	var out coordinator.Output
	m, code := g.checkSync(r)
	switch {
	case code != kerrors.None:
		out.Effects = append(out.Effects, SyncReply{To: to, Response: syncError(code)})
	case g.state == CompletingRebalance:
		// After a retry over another connection nobody reads the older answer.
		g.answerSync(&out, m, syncError(kerrors.RebalanceInProgress))
		m.sync = to
		g.synced(m)
		if g.leader == m.ID {
			g.store(&out, r.GroupAssignment)
		}
	default: // Stable
		g.synced(m)
		out.Effects = append(out.Effects, SyncReply{To: to, Response: g.assigned(m)})
	}
	return out
}

func (g *Group) checkSync(r *kmsg.SyncGroupRequest) (*Member, kerrors.Code) {
	m, code := g.validate(r.MemberID, r.InstanceID)
	switch {
	case code != kerrors.None:
		return nil, code
	case r.Generation != g.generation:
		return nil, kerrors.IllegalGeneration
	case inconsistent(r.ProtocolType, g.protocolType), inconsistent(r.Protocol, g.protocol):
		return nil, kerrors.InconsistentGroupProtocol
	case g.state == PreparingRebalance:
		return nil, kerrors.RebalanceInProgress
	case g.state != CompletingRebalance && g.state != Stable:
		return nil, kerrors.UnknownMemberID
	}
	return m, kerrors.None
}

func inconsistent(said *string, is string) bool { return said != nil && is != "" && *said != is }

// synced notes that a member asked for its assignment.
func (g *Group) synced(m *Member) {
	delete(g.pendingSync, m.ID)
	if len(g.pendingSync) == 0 {
		g.timers.Cancel(g.key(timers.ClassicSync, ""))
	}
}

func (g *Group) assigned(m *Member) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = nullable(g.protocolType), nullable(g.protocol)
	if resp.MemberAssignment = m.Assignment; resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{}
	}
	return resp
}

// store writes the leader's assignment; the members learn of it afterwards. A
// member that the leader left out gets an empty one (C031).
func (g *Group) store(out *coordinator.Output, in []kmsg.SyncGroupRequestGroupAssignment) {
	assignment := make(map[string][]byte, len(in))
	for _, a := range in {
		assignment[a.MemberID] = append([]byte{}, a.MemberAssignment...)
	}
	out.Records = append(out.Records, g.recordWith(func(m *Member) []byte { return assignment[m.ID] }))
	out.Effects = append(out.Effects, stored{g: g, generation: g.generation, assignment: assignment})
}

// stored goes on when the assignment is in the log, or cannot be.
type stored struct {
	g          *Group
	generation int32
	assignment map[string][]byte
}

// Deliver implements coordinator.Effect.
func (s stored) Deliver(now coordinator.Now, err error) coordinator.Output {
	var out coordinator.Output
	g := s.g
	if g.state != CompletingRebalance || g.generation != s.generation {
		return out // a member joined meanwhile: this assignment is void
	}
	if err != nil {
		for _, m := range g.Members() {
			if g.answerSync(&out, m, syncError(kerrors.CodeOf(err))) {
				g.touch(now, m)
			}
		}
		g.prepare(now, &out)
		return out
	}
	g.transition(now, Stable)
	for _, m := range g.Members() {
		m.Assignment = s.assignment[m.ID]
		if g.answerSync(&out, m, g.assigned(m)) {
			g.touch(now, m)
		}
	}
	g.startAssigned(now)
	g.rebalanceEnded(now)
	g.tell("group is stable", "")
	return out
}

// Heartbeat handles a Heartbeat.
func (g *Group) Heartbeat(now coordinator.Now, r *kmsg.HeartbeatRequest) kerrors.Code {
	m, code := g.validate(r.MemberID, r.InstanceID)
	switch {
	case code != kerrors.None:
		return code
	case r.Generation != g.generation:
		return kerrors.IllegalGeneration
	case g.state == PreparingRebalance:
		g.touch(now, m)
		return kerrors.RebalanceInProgress
	case g.state == CompletingRebalance, g.state == Stable:
		// Clients may send heartbeats as soon as they have joined.
		g.touch(now, m)
		return kerrors.None
	}
	return kerrors.UnknownMemberID
}

// Leave handles one member of a LeaveGroup; Left ends the request.
func (g *Group) Leave(now coordinator.Now, out *coordinator.Output, memberID string, instance *string) kerrors.Code {
	if memberID == "" {
		// An admin removes a static member by its instance id.
		if instance == nil {
			return kerrors.UnknownMemberID
		}
		id, ok := g.static[*instance]
		if !ok {
			return kerrors.UnknownMemberID
		}
		g.members[id].seenMs = now.TickMs
		g.drop(now, out, g.members[id])
		return kerrors.None
	}
	if _, pending := g.pendingJoin[memberID]; pending {
		g.timers.Cancel(g.key(timers.ClassicSession, memberID))
		g.remove(memberID)
		return kerrors.None
	}
	m, code := g.validate(memberID, instance)
	if code == kerrors.None {
		m.seenMs = now.TickMs
		g.tell("member leaves", m.ID)
		g.drop(now, out, m)
	}
	return code
}

// Left goes on after members left.
func (g *Group) Left(now coordinator.Now, out *coordinator.Output) { g.afterRemoval(now, out) }

// CheckCommit says whether an offset may be committed
// (ClassicGroup.validateOffsetCommit) and renews the member's session, as a
// heartbeat does.
func (g *Group) CheckCommit(now coordinator.Now, memberID string, instance *string, generation int32, transactional bool) kerrors.Code {
	if generation < 0 && g.state == Empty {
		return kerrors.None // an admin, or a consumer that assigns itself
	}
	if generation >= 0 || memberID != "" || instance != nil {
		m, code := g.validate(memberID, instance)
		if code != kerrors.None {
			return code
		}
		if generation != g.generation {
			return kerrors.IllegalGeneration
		}
		if !transactional && (g.state == Stable || g.state == PreparingRebalance) {
			g.touch(now, m)
		}
	} else if !transactional && g.state != Empty {
		return kerrors.UnknownMemberID
	}
	if !transactional && g.state == CompletingRebalance {
		// The member has the new generation, but no assignment yet.
		return kerrors.RebalanceInProgress
	}
	return kerrors.None
}
