package classic

import (
	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// rebalanceOrComplete starts a rebalance, or ends its join phase when nobody is
// missing (maybePrepareRebalanceOrCompleteJoin).
func (g *Group) rebalanceOrComplete(now coordinator.Now, out *coordinator.Output) {
	switch g.state {
	case Empty, CompletingRebalance, Stable:
		g.prepare(now, out)
	case PreparingRebalance:
		// The initial rebalance ends by its timer only.
		if g.previous != Empty && g.allJoined() {
			g.completeJoin(now, out)
		}
	}
}

// Rebalance makes the members join again, for a reason outside the group.
func (g *Group) Rebalance(now coordinator.Now) coordinator.Output {
	var out coordinator.Output
	if g.state == CompletingRebalance || g.state == Stable {
		g.prepare(now, &out)
	}
	return out
}

func (g *Group) prepare(now coordinator.Now, out *coordinator.Output) {
	if g.state == CompletingRebalance {
		// Who waits for an assignment has to join again.
		for _, m := range g.Members() {
			m.Assignment = nil
			if g.answerSync(out, m, syncError(kerrors.RebalanceInProgress)) {
				g.touch(now, m)
			}
		}
	}
	clear(g.pendingSync)
	g.timers.Cancel(g.key(timers.ClassicSync, ""))
	initial := g.state == Empty
	g.transition(now, PreparingRebalance)
	g.rebalanceStarted(now)
	g.tell("rebalance begins", "")
	if initial {
		// A new group waits for its other members.
		g.newMemberAdded = false
		g.initialDelayMs = g.cfg.InitialRebalanceDelayMs
		g.initialRemainingMs = max(0, g.maxRebalanceMs()-g.cfg.InitialRebalanceDelayMs)
		g.timers.Set(g.key(timers.ClassicJoin, ""), now.TickMs+g.initialDelayMs)
		return
	}
	if g.allJoined() {
		g.completeJoin(now, out)
		return
	}
	g.timers.Set(g.key(timers.ClassicJoin, ""), now.TickMs+g.maxRebalanceMs())
}

// JoinTimer is the end of the time for the join phase.
func (g *Group) JoinTimer(now coordinator.Now) coordinator.Output {
	var out coordinator.Output
	if g.state != PreparingRebalance {
		return out
	}
	if g.previous == Empty && g.newMemberAdded && g.initialRemainingMs != 0 {
		g.newMemberAdded = false
		delay := min(g.cfg.InitialRebalanceDelayMs, g.initialRemainingMs)
		g.initialRemainingMs = max(0, g.initialRemainingMs-g.initialDelayMs)
		g.initialDelayMs = delay
		g.timers.Set(g.key(timers.ClassicJoin, ""), now.TickMs+delay)
		return out
	}
	g.completeJoin(now, &out)
	return out
}

// completeJoin ends the join phase: who did not rejoin is out, except static
// members, and the rest is the next generation (completeClassicGroupJoin).
func (g *Group) completeJoin(now coordinator.Now, out *coordinator.Output) {
	g.timers.Cancel(g.key(timers.ClassicJoin, ""))
	for _, m := range g.Members() {
		if m.join == nil && m.InstanceID == nil {
			g.tell("member did not rejoin within the rebalance timeout", m.ID)
			g.drop(now, out, m)
		}
	}
	if len(g.members) > 0 && !g.electJoined() {
		// Only static members that did not rejoin: wait until they do, or their
		// sessions end.
		g.timers.Set(g.key(timers.ClassicJoin, ""), now.TickMs+g.maxRebalanceMs())
		return
	}
	g.generation++
	clear(g.pendingSync)
	if len(g.members) == 0 {
		g.protocol = ""
		g.subscribed = g.subscriptions()
		g.transition(now, Empty)
		g.rebalanceEnded(now)
		g.tell("group is empty", "")
		out.Records = append(out.Records, g.record())
		return
	}
	g.protocol = g.selectProtocol()
	g.subscribed = g.subscriptions()
	g.transition(now, CompletingRebalance)
	for _, m := range g.Members() {
		resp := g.joined(m, false)
		if g.leader == m.ID {
			resp.Members = g.memberList()
		}
		g.answerJoin(out, m, resp)
		g.touch(now, m)
		m.isNew = false
		g.pendingSync[m.ID] = struct{}{}
	}
	g.timers.Set(g.key(timers.ClassicSync, ""), now.TickMs+g.maxRebalanceMs())
}

// electJoined makes a member that rejoined the leader, unless the leader did.
func (g *Group) electJoined() bool {
	if m := g.members[g.leader]; m != nil && m.join != nil {
		return true
	}
	for _, m := range g.Members() {
		if m.join != nil {
			g.leader = m.ID
			return true
		}
	}
	return false
}

// SyncTimer ends the sync phase: members that did not ask for their assignment
// are out, and the others start over.
func (g *Group) SyncTimer(now coordinator.Now) coordinator.Output {
	var out coordinator.Output
	if g.state != CompletingRebalance && g.state != Stable || len(g.pendingSync) == 0 {
		return out
	}
	for _, m := range g.Members() {
		if _, pending := g.pendingSync[m.ID]; pending {
			g.tell("member did not ask for its assignment within the rebalance timeout", m.ID)
			g.drop(now, &out, m)
		}
	}
	g.prepare(now, &out)
	return out
}

// SessionTimer ends a member, or a pending id, that gave no sign of life.
func (g *Group) SessionTimer(now coordinator.Now, memberID string) coordinator.Output {
	var out coordinator.Output
	if _, pending := g.pendingJoin[memberID]; pending {
		g.remove(memberID)
		if g.state == PreparingRebalance && g.previous != Empty && g.allJoined() {
			g.completeJoin(now, &out)
		}
		return out
	}
	if m, ok := g.members[memberID]; ok && !m.alive() {
		g.waited(now, m)
		g.tell("member's session ended", m.ID)
		g.drop(now, &out, m)
		g.afterRemoval(now, &out)
	}
	return out
}

// drop takes a member out and answers what it waits for.
func (g *Group) drop(now coordinator.Now, out *coordinator.Output, m *Member) {
	g.answerJoin(out, m, joinError("", kerrors.UnknownMemberID))
	g.answerSync(out, m, syncError(kerrors.UnknownMemberID))
	g.timers.Cancel(g.key(timers.ClassicSession, m.ID))
	g.stopAll(now, m)
	g.remove(m.ID)
}

func (g *Group) afterRemoval(now coordinator.Now, out *coordinator.Output) {
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepare(now, out)
	case PreparingRebalance:
		if g.allJoined() && g.previous != Empty {
			g.completeJoin(now, out)
		}
	}
}
