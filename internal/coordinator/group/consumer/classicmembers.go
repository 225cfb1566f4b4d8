package consumer

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// Members that speak the classic protocol in a group of this one: their
// JoinGroup is a heartbeat with a subscription, their SyncGroup picks up the
// assignment, and a Heartbeat is answered REBALANCE_IN_PROGRESS when they have
// to join again to come further.

// JoinClassic handles the JoinGroup of a member that has an id.
func (g *Group) JoinClassic(now coordinator.Now, r classic.JoinRequest) (coordinator.Output, *kmsg.JoinGroupResponse, error) {
	if err := g.checkSize(r.MemberID, r.InstanceID); err != nil {
		return coordinator.Output{}, nil, err
	}
	protocols := classic.CopyProtocols(r.Protocols)
	sub, ok := classic.ParseSubscription(protocols[0].Metadata)
	if !ok {
		return coordinator.Output{}, nil, kerrors.New(kerrors.InconsistentGroupProtocol, "Malformed embedded consumer protocol.")
	}
	c := &change{g: g, now: now, regexes: map[string]*resolved{}}
	if err := c.findClassic(&r); err != nil {
		return coordinator.Output{}, nil, err
	}
	c.member = classicUpdate(c.member, &r, protocols, &sub)
	resubscribed, _, err := c.subscribe(nil)
	if err != nil {
		return coordinator.Output{}, nil, err
	}
	if err := c.advance(resubscribed, resubscribed, c.ownedBy(&sub), true); err != nil {
		return coordinator.Output{}, nil, err
	}
	m := c.member
	g.env.Timers.Cancel(g.key(timers.ConsumerJoin, m.ID))
	g.env.Timers.Set(g.key(timers.ConsumerSession, m.ID), now.TickMs+int64(r.SessionTimeoutMillis))
	g.env.Timers.Set(g.key(timers.ConsumerSync, m.ID), now.TickMs+int64(r.RebalanceMs()))
	resp := kmsg.NewPtrJoinGroupResponse()
	protocolType, name := classic.ProtocolType, protocols[0].Name
	resp.MemberID, resp.Generation, resp.ProtocolType, resp.Protocol = m.ID, m.Epoch, &protocolType, &name
	return c.out, resp, nil
}

func (c *change) findClassic(r *classic.JoinRequest) error {
	if r.InstanceID == nil {
		if m, ok := c.g.members.Get(r.MemberID, latest); ok {
			c.old, c.member = m, m
		} else {
			c.member = &Member{ID: r.MemberID}
		}
		return nil
	}
	m, ok := c.g.StaticMember(*r.InstanceID)
	switch {
	case r.NewMemberID == r.MemberID && ok: // the instance comes back without an id
		c.replace(m, r.MemberID)
	case r.NewMemberID == r.MemberID:
		c.member = &Member{ID: r.MemberID}
	case !ok:
		return kerrors.New(kerrors.UnknownMemberID, "Instance id %s is unknown.", *r.InstanceID)
	case m.ID != r.MemberID:
		return fencedInstance(r.MemberID, *r.InstanceID, m.ID)
	default:
		c.old, c.member = m, m
	}
	return nil
}

func classicUpdate(m *Member, r *classic.JoinRequest, protocols []classic.Protocol, sub *kmsg.ConsumerMemberMetadata) *Member {
	n := *m
	n.ClientID, n.ClientHost = r.ClientID, r.ClientHost
	if r.InstanceID != nil {
		n.InstanceID = r.InstanceID
	}
	if sub.Rack != nil {
		n.RackID = sub.Rack
	}
	n.RebalanceMs = r.RebalanceMs()
	n.Regex = new(string) // classic members have none
	n.Topics = slices.Clone(sub.Topics)
	slices.Sort(n.Topics)
	n.Topics = slices.Compact(n.Topics)
	n.Classic = classicOf(r.SessionTimeoutMillis, protocols)
	if n.sameMetadata(m) {
		return m
	}
	return &n
}

func classicOf(sessionMs int32, protocols []classic.Protocol) *recordschema.ConsumerGroupClassicMember {
	out := &recordschema.ConsumerGroupClassicMember{SessionTimeoutMs: sessionMs}
	for _, p := range protocols {
		out.SupportedProtocols = append(out.SupportedProtocols, recordschema.ConsumerGroupClassicProtocol{Name: p.Name, Metadata: p.Metadata})
	}
	return out
}

// ownedBy is what a classic member says it owns.
func (c *change) ownedBy(sub *kmsg.ConsumerMemberMetadata) []Owned {
	var out []Owned
	for _, o := range sub.OwnedPartitions {
		if t, ok := c.g.env.Metadata.Topic(o.Topic); ok {
			out = append(out, Owned{TopicID: t.ID, Partitions: o.Partitions})
		}
	}
	return out
}

// classicMember finds a member for the classic requests.
func (g *Group) classicMember(id string, instance *string, generation int32) (*Member, kerrors.Code) {
	m, err := g.Leaving(id, instance)
	switch {
	case err != nil:
		return nil, kerrors.CodeOf(err)
	case !m.UsesClassic():
		return nil, kerrors.UnknownMemberID
	case m.Epoch != generation:
		return nil, kerrors.IllegalGeneration
	}
	return m, kerrors.None
}

// SyncClassic handles a SyncGroup.
func (g *Group) SyncClassic(now coordinator.Now, r *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.MemberAssignment = []byte{}
	m, code := g.classicMember(r.MemberID, r.InstanceID, r.Generation)
	switch {
	case code != kerrors.None:
	case r.ProtocolType != nil && *r.ProtocolType != classic.ProtocolType,
		r.Protocol != nil && *r.Protocol != m.Classic.SupportedProtocols[0].Name:
		code = kerrors.InconsistentGroupProtocol
	case g.AssignmentEpoch(latest) > m.Epoch && m.State != UnrevokedPartitions:
		// A newer target waits. A member that has to give something up first
		// learns it from this assignment and joins again by itself.
		g.awaitRejoin(now, m)
		code = kerrors.RebalanceInProgress
	}
	if code != kerrors.None {
		resp.ErrorCode = int16(code)
		return resp
	}
	g.env.Timers.Cancel(g.key(timers.ConsumerSync, m.ID))
	g.env.Timers.Set(g.key(timers.ConsumerSession, m.ID), now.TickMs+int64(m.Classic.SessionTimeoutMs))
	resp.ProtocolType, resp.Protocol = r.ProtocolType, r.Protocol
	resp.MemberAssignment = g.Embedded(m, partitionsOf(m.Assigned))
	return resp
}

// awaitRejoin gives a member its rebalance timeout to join again.
func (g *Group) awaitRejoin(now coordinator.Now, m *Member) {
	key := g.key(timers.ConsumerJoin, m.ID)
	if _, ok := g.env.Timers.Due(key); !ok {
		g.env.Timers.Set(key, now.TickMs+int64(m.RebalanceMs))
	}
}

// Embedded is an assignment in the consumers' own format, in the version that
// the member speaks.
func (g *Group) Embedded(m *Member, a assignor.Assignment) []byte {
	out := kmsg.NewConsumerMemberAssignment()
	if sub, ok := classic.ParseSubscription(m.Classic.SupportedProtocols[0].Metadata); ok {
		out.Version = sub.Version
	}
	for _, t := range a {
		if name, ok := g.env.Metadata.Name(t.TopicID); ok {
			at := kmsg.NewConsumerMemberAssignmentTopic()
			at.Topic, at.Partitions = name, t.Partitions
			out.Topics = append(out.Topics, at)
		}
	}
	slices.SortFunc(out.Topics, func(x, y kmsg.ConsumerMemberAssignmentTopic) int { return strings.Compare(x.Topic, y.Topic) })
	return out.AppendTo(nil)
}

// HeartbeatClassic handles a Heartbeat.
func (g *Group) HeartbeatClassic(now coordinator.Now, r *kmsg.HeartbeatRequest) kerrors.Code {
	m, code := g.classicMember(r.MemberID, r.InstanceID, r.Generation)
	if code != kerrors.None {
		return code
	}
	g.env.Timers.Set(g.key(timers.ConsumerSession, m.ID), now.TickMs+int64(m.Classic.SessionTimeoutMs))
	if m.Epoch < g.AssignmentEpoch(latest) || m.State == UnrevokedPartitions ||
		m.State == UnreleasedPartitions && !g.waitsForOthers(m) {
		g.awaitRejoin(now, m)
		return kerrors.RebalanceInProgress
	}
	return kerrors.None
}

// waitsForOthers reports that something a member is to have is still another's.
func (g *Group) waitsForOthers(m *Member) bool {
	target, _ := g.target.Get(m.ID, latest)
	for _, t := range target {
		for _, p := range t.Partitions {
			if _, has := epochOf(m.Assigned, t.TopicID, p); has {
				continue
			}
			if _, taken := g.owners.Get(unit{t.TopicID, p}, latest); taken {
				return true
			}
		}
	}
	return false
}

// LeaveClassic finds the member of a LeaveGroup; an admin names a static member
// by its instance alone.
func (g *Group) LeaveClassic(id string, instance *string) (*Member, kerrors.Code) {
	if id == "" && instance != nil {
		if m, ok := g.StaticMember(*instance); ok {
			return m, kerrors.None
		}
		return nil, kerrors.UnknownMemberID
	}
	m, err := g.Leaving(id, instance)
	return m, kerrors.CodeOf(err)
}

// OnlyClassicWithout reports that without gone only classic members are left,
// and that there are any.
func (g *Group) OnlyClassicWithout(gone []*Member) bool {
	ids := map[string]bool{}
	classics := g.ClassicMembers()
	for _, m := range gone {
		if !ids[m.ID] && m.UsesClassic() {
			classics--
		}
		ids[m.ID] = true
	}
	left := g.Size() - len(ids)
	return left > 0 && classics == left
}
