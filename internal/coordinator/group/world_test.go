package group

import (
	"fmt"
	"iter"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// cluster is the topics of a test; ids are made from names.
type cluster struct {
	partitions map[string]int32
	version    int64
	grown      map[types.TopicPartition]int64
}

func idOf(topic string) types.UUID {
	var id types.UUID
	copy(id[:], topic)
	id[15] = 1
	return id
}

func (c *cluster) Version() int64 { return c.version }
func (c *cluster) Topic(name string) (assignor.Topic, bool) {
	n, ok := c.partitions[name]
	return assignor.Topic{ID: idOf(name), Partitions: n}, ok
}
func (c *cluster) GrownTimeMs(topic string, p int32) int64 {
	return c.grown[types.TopicPartition{Topic: topic, Partition: p}]
}
func (c *cluster) Name(id types.UUID) (string, bool) {
	for n := range c.partitions {
		if idOf(n) == id {
			return n, true
		}
	}
	return "", false
}
func (c *cluster) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		names := make([]string, 0, len(c.partitions))
		for n := range c.partitions {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			if !yield(n) {
				return
			}
		}
	}
}

// setAt is set by an admin at that time, which new partitions keep.
func (c *cluster) setAt(topic string, n int32, nowMs int64) {
	if had, ok := c.partitions[topic]; ok {
		for p := had; p < n; p++ {
			c.grown[types.TopicPartition{Topic: topic, Partition: p}] = nowMs
		}
	}
	c.set(topic, n)
}

func (c *cluster) set(topic string, n int32) {
	c.version++
	if n == 0 {
		delete(c.partitions, topic)
		return
	}
	c.partitions[topic] = n
}

// world is a shard with a log, a cluster and clients.
type world struct {
	*host
	c       *cluster
	now     int64
	cfg     Config
	members []*client
	joined  int
	fail    bool // the next append fails
	regexes []*consumer.RegexTask
	ledWith int64 // version of the topics that a classic leader assigned last
}

func newWorld(t failer) *world {
	w := &world{c: &cluster{partitions: map[string]int32{}, grown: map[types.TopicPartition]int64{}}, now: 1_000_000}
	w.cfg = DefaultConfig()
	w.cfg.Metadata = func() consumer.Metadata { return w.c }
	w.cfg.Consumer.Resolve = func(t *consumer.RegexTask) { w.regexes = append(w.regexes, t) }
	w.cfg.NewPartitionsEarliest = true
	w.cfg.Classic.InitialRebalanceDelayMs = 100
	w.host = &host{t: t, s: NewShard(w.cfg)}
	w.s.Loaded(wall(w.now))
	return w
}

// finish does what the runtime does with a step: append, apply, deliver.
func (w *world) finish(out coordinator.Output) {
	var err error
	if w.fail && len(out.Records) > 0 {
		w.fail = false
		at := w.next
		w.apply(out.Records...) // applied first, then the log refuses the batch
		w.s.Revert(at)
		w.log, w.next = w.log[:len(w.log)-len(out.Records)], at
		err = kerrors.CoordinatorNotAvailable
	} else {
		w.apply(out.Records...)
		w.s.Commit(w.next)
	}
	for _, e := range out.Effects {
		w.finish(e.Deliver(wall(w.now), err))
	}
}

// run handles a request; the response counts only when its records were stored.
func run[T any](w *world, res coordinator.Result[T], err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	failing := w.fail && len(res.Records) > 0
	w.finish(coordinator.Output{Records: res.Records, Effects: res.Effects})
	if failing {
		return none, kerrors.CoordinatorNotAvailable
	}
	return res.Response, nil
}

// resolve ends the looks at expressions that are under way.
func (w *world) resolve() (ended int) {
	for ; len(w.regexes) > 0; ended++ {
		t := w.regexes[0]
		w.regexes = w.regexes[1:]
		t.Resolve(func() bool { return false })
		res := w.s.RegexResolved(wall(w.now), t)
		w.finish(coordinator.Output{Records: res.Records, Effects: res.Effects})
	}
	return ended
}

// pass lets time go by; timers fire when they are due.
func (w *world) pass(ms int64) {
	for until := w.now + ms; ; {
		at, ok := w.s.NextTimer()
		if !ok || at > until {
			w.now = until
			return
		}
		w.now = max(w.now, at)
		for {
			out, ok := w.s.FireTimer(wall(w.now))
			if !ok {
				break
			}
			w.finish(out)
		}
	}
}

// move loads the log into a fresh shard, as another coordinator would.
func (w *world) move() {
	for _, e := range w.s.Unload() {
		e.Deliver(wall(w.now), kerrors.NotCoordinator)
	}
	w.s = w.replayed()
	w.s.Commit(w.next)
	w.finish(w.s.Loaded(wall(w.now)))
}

func (w *world) replayed() *Shard {
	s := NewShard(w.cfg)
	for _, l := range w.log {
		if err := s.Replay(l.offset, l.producerID, l.rec.Key, l.rec.Value); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

// client is a consumer of group g. Its owned partitions are those that it reads.
type client struct {
	w        *world
	id       string
	instance *string
	classic  bool
	topics   []string
	regex    *string
	epoch    int32
	owned    map[types.TopicPartition]int64 // position
	joining  bool                           // a JoinGroup or SyncGroup is parked
	resend   bool                           // the next heartbeat has everything
	leader   bool
	version  int64 // of the topics that the leader assigned
}

func (w *world) join(classicProtocol bool, topics ...string) *client {
	return w.joinAs(classicProtocol, nil, topics...)
}

func (w *world) joinAs(classicProtocol bool, instance *string, topics ...string) *client {
	m := w.client(classicProtocol, instance, topics...)
	m.beat()
	return m
}

func (w *world) client(classicProtocol bool, instance *string, topics ...string) *client {
	w.joined++
	m := &client{
		w: w, id: fmt.Sprintf("m%d", w.joined), instance: instance, classic: classicProtocol, topics: topics, owned: map[types.TopicPartition]int64{},
	}
	if classicProtocol {
		m.id = ""
	}
	w.members = append(w.members, m)
	return m
}

func (m *client) gone() {
	m.w.members = slices.DeleteFunc(m.w.members, func(o *client) bool { return o == m })
}

// beat does what the client does next: join, or say that it is alive.
func (m *client) beat() {
	switch {
	case m.classic:
		m.beatClassic()
	default:
		m.beatConsumer()
	}
}

func (m *client) beatConsumer() {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = 1, "g", m.id, m.epoch, m.instance
	req.RebalanceTimeoutMillis = -1
	if m.epoch == 0 || m.resend {
		req.RebalanceTimeoutMillis, req.SubscribedTopicRegex = 30_000, m.regex
		req.SubscribedTopicNames = slices.Clone(m.topics)
		if m.topics == nil {
			req.SubscribedTopicNames = []string{}
		}
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if m.epoch != 0 {
		req.Topics = ownedTopics(m.owned)
	}
	res, err := m.w.s.ConsumerHeartbeat(wall(m.w.now), consumer.Request{
		ConsumerGroupHeartbeatRequest: req, ClientID: "c", ClientHost: "/h", InvalidRegex: invalidRegex(req),
	})
	resp, err := run(m.w, res, err)
	switch code := kerrors.CodeOf(err); code {
	case kerrors.None:
	case kerrors.CoordinatorNotAvailable:
		m.resend = true
		return
	case kerrors.UnknownMemberID, kerrors.FencedMemberEpoch, kerrors.FencedInstanceID, kerrors.GroupIDNotFound, kerrors.UnreleasedInstanceID:
		m.epoch, m.owned = 0, map[types.TopicPartition]int64{}
		return
	default:
		m.w.t.Fatal(fmt.Sprint("heartbeat: ", code, " ", err))
	}
	m.epoch, m.resend = resp.MemberEpoch, false
	if resp.Assignment != nil {
		m.take(resp.Assignment)
	}
}

func invalidRegex(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	if req.SubscribedTopicRegex == nil {
		return nil
	}
	return consumer.CheckRegex(*req.SubscribedTopicRegex)
}

func ownedTopics(owned map[types.TopicPartition]int64) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	by := map[string][]int32{}
	for tp := range owned {
		by[tp.Topic] = append(by[tp.Topic], tp.Partition)
	}
	out := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for t, ps := range by {
		rt := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		rt.TopicID, rt.Partitions = idOf(t), ps
		out = append(out, rt)
	}
	return out
}

func (m *client) take(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) {
	next := map[types.TopicPartition]int64{}
	for _, t := range a.Topics {
		name, ok := m.w.c.Name(t.TopicID)
		if !ok {
			continue
		}
		for _, p := range t.Partitions {
			tp := types.TopicPartition{Topic: name, Partition: p}
			next[tp] = m.position(tp)
		}
	}
	m.keepsItsTarget(next)
	m.owned = next
}

// keepsItsTarget: a member is told to give up only what it is not to have.
func (m *client) keepsItsTarget(next map[types.TopicPartition]int64) {
	var target []kmsg.AssignmentTopicPartition
	for _, d := range m.w.s.DescribeConsumerGroup("g", m.w.next).Members {
		if d.MemberID == m.id {
			target = d.TargetAssignment.TopicPartitions
		}
	}
	for tp := range m.owned {
		if _, kept := next[tp]; kept {
			continue
		}
		if slices.ContainsFunc(target, func(t kmsg.AssignmentTopicPartition) bool {
			return t.Topic == tp.Topic && slices.Contains(t.Partitions, tp.Partition)
		}) {
			m.w.t.Fatal(fmt.Sprintf("%s is told to give up %v, which it is to have", m.id, tp))
		}
	}
}

// position goes on where the group is.
func (m *client) position(tp types.TopicPartition) int64 {
	if at, ok := m.owned[tp]; ok {
		return at
	}
	got := flatten(m.w.s.FetchOffsets(fetchReq("g", tp.Topic, tp.Partition), m.w.next, false))
	return max(0, got[0].Offset)
}

// AnswerJoin and AnswerSync make a client a waiter; it goes on at once.
func (m *client) AnswerJoin(resp *kmsg.JoinGroupResponse) {
	m.joining = false
	switch code := kerrors.Code(resp.ErrorCode); code {
	case kerrors.None:
	case kerrors.MemberIDRequired:
		m.id = resp.MemberID
		return
	case kerrors.UnknownMemberID, kerrors.FencedInstanceID:
		m.id, m.epoch = "", 0
		return
	case kerrors.RebalanceInProgress, kerrors.NotCoordinator, kerrors.CoordinatorNotAvailable:
		m.epoch = 0
		return
	default:
		m.w.t.Fatal(fmt.Sprint("join: ", code))
	}
	m.id, m.epoch = resp.MemberID, resp.Generation
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 5, "g", m.id, m.epoch, m.instance
	req.ProtocolType, req.Protocol = resp.ProtocolType, resp.Protocol
	// A static leader that skips the assignment (KIP-814) has to know what it was
	// made for: nobody else looks for topics that grew while it was away. (Java's
	// does not know, and notices with the next rebalance.)
	m.version = m.w.ledWith
	if m.leader = resp.LeaderID == m.id; m.leader && !resp.SkipAssignment {
		req.GroupAssignment = m.lead(resp.Members)
		m.version = m.w.c.version
	}
	m.joining = true
	pending := m.w.s.SyncGroup(wall(m.w.now), req, m)
	m.w.finish(coordinator.Output{Records: pending.Records, Effects: pending.Effects})
}

// lead assigns as a client does, by range.
func (m *client) lead(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	in := assignor.Input{Topics: map[types.UUID]assignor.Topic{}}
	for _, o := range members {
		sub, ok := classic.ParseSubscription(o.ProtocolMetadata)
		if !ok {
			m.w.t.Fatal("unreadable subscription")
		}
		am := assignor.Member{ID: o.MemberID}
		for _, t := range sub.Topics {
			if topic, ok := m.w.c.Topic(t); ok {
				am.Topics = append(am.Topics, topic.ID)
				in.Topics[topic.ID] = topic
			}
		}
		slices.SortFunc(am.Topics, assignor.CompareIDs)
		in.Members = append(in.Members, am)
	}
	var out []kmsg.SyncGroupRequestGroupAssignment
	for i, a := range assignor.Range(in) {
		ma := kmsg.NewConsumerMemberAssignment()
		for _, t := range a {
			at := kmsg.NewConsumerMemberAssignmentTopic()
			at.Topic, _ = m.w.c.Name(t.TopicID)
			at.Partitions = t.Partitions
			ma.Topics = append(ma.Topics, at)
		}
		sa := kmsg.NewSyncGroupRequestGroupAssignment()
		sa.MemberID, sa.MemberAssignment = members[i].MemberID, ma.AppendTo(nil)
		out = append(out, sa)
	}
	return out
}

func (m *client) AnswerSync(resp *kmsg.SyncGroupResponse) {
	m.joining = false
	switch code := kerrors.Code(resp.ErrorCode); code {
	case kerrors.None:
	case kerrors.UnknownMemberID, kerrors.FencedInstanceID:
		m.id, m.epoch = "", 0
		return
	case kerrors.RebalanceInProgress, kerrors.NotCoordinator, kerrors.CoordinatorNotAvailable, kerrors.IllegalGeneration:
		m.epoch = 0
		return
	default:
		m.w.t.Fatal(fmt.Sprint("sync: ", code))
	}
	if m.leader {
		m.w.ledWith = m.version // it is in the log now
	}
	a, ok := classic.ParseAssignment(resp.MemberAssignment)
	if !ok {
		m.w.t.Fatal("unreadable assignment")
	}
	m.owned = map[types.TopicPartition]int64{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			tp := types.TopicPartition{Topic: t.Topic, Partition: p}
			m.owned[tp] = m.position(tp)
		}
	}
}

func (m *client) beatClassic() {
	if m.joining {
		return
	}
	if m.epoch == 0 || m.leader && m.version != m.w.c.version {
		m.rejoin()
		return
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 4, "g", m.id, m.epoch, m.instance
	res, err := m.w.s.Heartbeat(wall(m.w.now), req)
	resp, err := run(m.w, res, err)
	code := kerrors.CodeOf(err)
	if err == nil {
		code = kerrors.Code(resp.ErrorCode)
	}
	switch code {
	case kerrors.None:
	case kerrors.RebalanceInProgress, kerrors.IllegalGeneration:
		m.rejoin()
	case kerrors.UnknownMemberID, kerrors.FencedInstanceID:
		m.id = ""
		m.rejoin()
	default:
		m.w.t.Fatal(fmt.Sprint("heartbeat: ", code))
	}
}

// rejoin gives everything up, as an eager client does, and joins.
func (m *client) rejoin() {
	m.owned, m.epoch, m.joining = map[types.TopicPartition]int64{}, 0, true
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = 9, "g", m.id, m.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 30_000, classic.ProtocolType
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Version, sub.Topics = 1, m.topics
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", sub.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	m.w.joined++
	res := m.w.s.JoinGroup(wall(m.w.now), classic.JoinRequest{
		JoinGroupRequest: req, ClientID: "c", ClientHost: "/h", NewMemberID: fmt.Sprintf("c%d", m.w.joined), To: m,
	})
	m.w.finish(coordinator.Output{Records: res.Records, Effects: res.Effects})
}

// leave says farewell.
func (m *client) leave() {
	m.gone()
	if m.classic {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = 5, "g"
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID, lm.InstanceID = m.id, m.instance
		req.Members = append(req.Members, lm)
		res, err := m.w.s.LeaveGroup(wall(m.w.now), req)
		_, _ = run(m.w, res, err)
		return
	}
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = 1, "g", m.id, consumer.LeaveEpoch, m.instance
	if m.instance != nil {
		req.MemberEpoch = consumer.LeaveStaticEpoch // it means to come back
	}
	res, err := m.w.s.ConsumerHeartbeat(wall(m.w.now), consumer.Request{ConsumerGroupHeartbeatRequest: req})
	_, _ = run(m.w, res, err)
}

// commit stores a position as the member in epoch.
func (m *client) commit(tp types.TopicPartition, offset int64, epoch int32) kerrors.Code {
	req := commitReq(9, "g", tp.Topic, commitPart{p: tp.Partition, offset: offset})
	req.MemberID, req.Generation, req.InstanceID = m.id, epoch, m.instance
	req.Topics[0].TopicID = idOf(tp.Topic)
	res, err := m.w.s.CommitOffsets(wall(m.w.now), req)
	resp, err := run(m.w, res, err)
	if err != nil {
		return kerrors.CodeOf(err)
	}
	return kerrors.Code(resp.Topics[0].Partitions[0].ErrorCode)
}
