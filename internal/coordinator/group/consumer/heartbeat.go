package consumer

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Request is a ConsumerGroupHeartbeat on its way.
type Request struct {
	*kmsg.ConsumerGroupHeartbeatRequest
	ClientID, ClientHost string
	// NewMemberID is the id of a member that brings none (version 0).
	NewMemberID string
	// InvalidRegex is what CheckRegex says of the expression, if there is one.
	InvalidRegex error
}

// joins reports the first request of a member, or one that starts over.
func (r *Request) joins() bool { return r.MemberEpoch == JoinEpoch }

// full reports a request with everything: the member wants the whole answer.
func (r *Request) full() bool {
	return r.RebalanceTimeoutMillis != -1 && (r.SubscribedTopicNames != nil || r.SubscribedTopicRegex != nil) && r.Topics != nil
}

// Heartbeat handles a heartbeat that is not a farewell.
func (g *Group) Heartbeat(now coordinator.Now, r Request) (coordinator.Output, *kmsg.ConsumerGroupHeartbeatResponse, error) {
	if r.MemberID == "" {
		r.MemberID = r.NewMemberID
	}
	if err := g.checkSize(r.MemberID, r.InstanceID); err != nil {
		return coordinator.Output{}, nil, err
	}
	c := &change{g: g, now: now, regexes: map[string]*resolved{}}
	if err := c.findMember(&r); err != nil {
		return coordinator.Output{}, nil, err
	}
	before := c.member
	c.member = updated(before, &r)
	resubscribed, bump, err := c.subscribe(r.InvalidRegex)
	if err != nil {
		return coordinator.Output{}, nil, err
	}
	if err := c.advance(resubscribed, bump, ownedIn(r.Topics), r.Topics != nil); err != nil {
		return coordinator.Output{}, nil, err
	}
	g.env.Timers.Set(g.key(timers.ConsumerSession, r.MemberID), now.TickMs+g.env.Config.Of(g.id).SessionMs)
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &c.member.ID, c.member.Epoch
	resp.HeartbeatIntervalMillis = int32(g.env.Config.Of(g.id).HeartbeatMs)
	if g.resolvingFor(c.member) {
		resp.HeartbeatIntervalMillis = min(resp.HeartbeatIntervalMillis, regexSoonMs)
	}
	if r.joins() || r.full() || !equalOwned(before.Assigned, c.member.Assigned) {
		resp.Assignment = assignmentResponse(c.member.Assigned)
	}
	return c.out, resp, nil
}

// checkSize applies group.consumer.max.size to members that are new.
func (g *Group) checkSize(memberID string, instance *string) error {
	if instance != nil {
		if _, ok := g.static.Get(*instance, latest); ok {
			return nil // it takes its own place
		}
	}
	if g.Size() >= g.env.Config.MaxSize {
		if _, ok := g.members.Get(memberID, latest); !ok {
			return kerrors.New(kerrors.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", g.env.Config.MaxSize)
		}
	}
	return nil
}

// findMember finds or makes the request's member and checks its epoch.
func (c *change) findMember(r *Request) error {
	if r.InstanceID != nil {
		return c.findStatic(r)
	}
	m, ok := c.g.members.Get(r.MemberID, latest)
	switch {
	case ok:
		c.old, c.member = m, m
		return checkEpoch(m, r)
	case !r.joins():
		return kerrors.New(kerrors.UnknownMemberID, "Member %s is not a member of group %s.", r.MemberID, c.g.id)
	}
	c.member = &Member{ID: r.MemberID}
	return nil
}

func (c *change) findStatic(r *Request) error {
	m, ok := c.g.StaticMember(*r.InstanceID)
	if !r.joins() {
		switch {
		case !ok:
			return kerrors.New(kerrors.UnknownMemberID, "Instance id %s is unknown.", *r.InstanceID)
		case m.ID != r.MemberID:
			return fencedInstance(r.MemberID, *r.InstanceID, m.ID)
		}
		c.old, c.member = m, m
		return checkEpoch(m, r)
	}
	switch {
	case !ok:
		c.member = &Member{ID: r.MemberID}
	case !m.UsesClassic() && m.Epoch != LeaveStaticEpoch:
		// Even if it is the same process that starts over.
		return kerrors.New(kerrors.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.",
			r.MemberID, *r.InstanceID, m.ID)
	default:
		c.replace(m, r.MemberID)
	}
	return nil
}

// replace makes a member of another id take the place of a static member, with
// its assignment.
func (c *change) replace(old *Member, id string) {
	n := *old
	n.ID, n.Epoch, n.PrevEpoch = id, 0, 0
	target, _ := c.g.target.Get(old.ID, latest)
	c.write(c.g.removal(old.ID)...)
	c.write(c.g.memberRecord(&n), c.g.targetRecord(id, target), c.g.currentRecord(&n))
	c.old, c.member = old, &n
	if id != old.ID {
		c.removed = old.ID
		c.out.Effects = append(c.out.Effects, departed{g: c.g, id: old.ID})
	}
	c.g.soft.stats.returned(c.now, old)
}

func fencedInstance(memberID, instance, owner string) error {
	return kerrors.New(kerrors.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", memberID, instance, owner)
}

// checkEpoch fences a member that is not where the coordinator thinks it is. The
// epoch before is accepted with a subset of what the member has: the answer with
// the newer one may be lost.
func checkEpoch(m *Member, r *Request) error {
	switch {
	case r.joins(), r.MemberEpoch == m.Epoch:
		return nil
	case r.MemberEpoch > m.Epoch:
		return kerrors.New(kerrors.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by the group coordinator (%d). "+
			"The member must abandon all its partitions and rejoin.", r.MemberEpoch, m.Epoch)
	case r.MemberEpoch != m.PrevEpoch || r.Topics == nil || !subset(ownedIn(r.Topics), m.Assigned):
		return kerrors.New(kerrors.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by the group coordinator (%d). "+
			"The member must abandon all its partitions and rejoin.", r.MemberEpoch, m.Epoch)
	}
	return nil
}

func subset(owned, of []Owned) bool {
	for _, o := range owned {
		for _, p := range o.Partitions {
			if _, ok := epochOf(of, o.TopicID, p); !ok {
				return false
			}
		}
	}
	return true
}

func ownedIn(in []kmsg.ConsumerGroupHeartbeatRequestTopic) []Owned {
	out := make([]Owned, 0, len(in))
	for _, t := range in {
		out = append(out, Owned{TopicID: t.TopicID, Partitions: t.Partitions})
	}
	return out
}

// updated is the member with what a request says; what it leaves out stays.
func updated(m *Member, r *Request) *Member {
	n := *m
	n.ClientID, n.ClientHost, n.Classic = r.ClientID, r.ClientHost, nil
	if r.InstanceID != nil {
		n.InstanceID = r.InstanceID
	}
	if r.RackID != nil {
		n.RackID = r.RackID
	}
	if r.RebalanceTimeoutMillis != -1 {
		n.RebalanceMs = r.RebalanceTimeoutMillis
	}
	if r.ServerAssignor != nil {
		n.Assignor = r.ServerAssignor
	}
	if r.SubscribedTopicRegex != nil {
		n.Regex = r.SubscribedTopicRegex
	}
	if r.SubscribedTopicNames != nil && !slices.Equal(r.SubscribedTopicNames, n.Topics) {
		n.Topics = slices.Clone(r.SubscribedTopicNames)
		slices.Sort(n.Topics)
		n.Topics = slices.Compact(n.Topics)
	}
	if n.sameMetadata(m) {
		return m
	}
	return &n
}

// subscribe writes what changed of the member and its subscription. changed says
// that the subscription did, bump that the group has to be assigned anew; an
// expression that nobody has looked at yet does that when it is known.
func (c *change) subscribe(invalidRegex error) (changed, bump bool, err error) {
	if c.old == nil || !c.member.sameMetadata(c.old) {
		c.write(c.g.memberRecord(c.member))
		bump = c.old == nil && len(c.member.Topics) > 0 || c.old != nil && !slices.Equal(c.old.Topics, c.member.Topics)
	}
	regex, known, err := c.changeRegex(invalidRegex)
	return bump || regex, bump || known, err
}

// advance brings the group's epoch, the target assignment and the member up to
// date after subscribe.
func (c *change) advance(resubscribed, bump bool, owned []Owned, says bool) error {
	groupEpoch := c.g.metaAt(latest).epoch
	if bump || c.stale() {
		groupEpoch = c.bump(bump).epoch
		if _, old := c.g.oldMetadata.Get(struct{}{}, latest); old {
			c.dropOldMetadata()
		}
	}
	epoch, target := c.retarget(groupEpoch)
	if !resubscribed && c.member.reconciledTo(epoch) {
		return nil
	}
	n, err := reconcile(c.member, &goal{
		epoch: epoch, target: target, changed: resubscribed, owned: owned, says: says,
		subscribed: c.topicIDs(c.subscriptions(c.member)), ownedByOthers: c.ownedByOthers,
	})
	if err != nil || n == c.member {
		return err
	}
	c.write(c.g.currentRecord(n))
	c.g.watchRevocation(c.now, n)
	c.g.soft.stats.moved(c.now, c.member, n, epoch)
	c.member = n
	return nil
}

func (c *change) ownedByOthers(t topicID, p int32) bool {
	owner, ok := c.g.owners.Get(unit{t, p}, latest)
	return ok && owner != c.member.ID && owner != c.removed
}

// watchRevocation starts the rebalance timeout of a member that has to give
// partitions up, and ends it when it has. Classic members have timers of their
// own.
func (g *Group) watchRevocation(now coordinator.Now, m *Member) {
	key := g.key(timers.ConsumerRebalance, m.ID)
	if m.State != UnrevokedPartitions || m.UsesClassic() {
		g.env.Timers.Cancel(key)
		delete(g.soft.revoking, m.ID)
		return
	}
	g.soft.revoking[m.ID] = m.Epoch
	g.env.Timers.Set(key, now.TickMs+int64(m.RebalanceMs))
}

func assignmentResponse(owned []Owned) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	out.Topics = make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, 0, len(owned))
	for _, o := range owned {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = o.TopicID, o.Partitions
		out.Topics = append(out.Topics, t)
	}
	return &out
}
