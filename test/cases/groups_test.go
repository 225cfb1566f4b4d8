package cases

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

func init() {
	register("C028", caseC028)
	register("C029", caseC029)
	register("C031", caseC031)
	register("C034", caseC034)
	register("C035", caseC035)
	register("C037", caseC037)
	register("C059", caseC059)
}

// subscription is the consumers' own message of JoinGroup.
func subscription(topics ...string) []byte {
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics = 1, topics
	return s.AppendTo(nil)
}

func joinRequest(version int16, group, memberID string, instance *string, topics ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = version, group, memberID, instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 30_000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", subscription(topics...)
	req.Protocols = append(req.Protocols, p)
	return req
}

// join joins with a member id of the coordinator's choice.
func join(t *testing.T, c *testkit.RawConn, group string, instance *string, topics ...string) *kmsg.JoinGroupResponse {
	t.Helper()
	resp := testkit.Do(c, joinRequest(9, group, "", instance, topics...), kmsg.NewPtrJoinGroupResponse())
	if resp.ErrorCode == 79 {
		resp = testkit.Do(c, joinRequest(9, group, resp.MemberID, instance, topics...), kmsg.NewPtrJoinGroupResponse())
	}
	wantCode(t, "JoinGroup", resp.ErrorCode, 0)
	return resp
}

func syncRequest(group string, j *kmsg.JoinGroupResponse, instance *string, assignments map[string][]byte) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 5, group, j.MemberID, j.Generation, instance
	req.ProtocolType, req.Protocol = j.ProtocolType, j.Protocol
	for id, a := range assignments {
		ra := kmsg.NewSyncGroupRequestGroupAssignment()
		ra.MemberID, ra.MemberAssignment = id, a
		req.GroupAssignment = append(req.GroupAssignment, ra)
	}
	return req
}

func heartbeat(c *testkit.RawConn, group string, j *kmsg.JoinGroupResponse, instance *string) int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 4, group, j.MemberID, j.Generation, instance
	return testkit.Do(c, req, kmsg.NewPtrHeartbeatResponse()).ErrorCode
}

// C028: JoinGroup v0 has no rebalance timeout: its session timeout counts.
func caseC028(t *testing.T, b broker) {
	group := unique(t, "g")
	a, other := committer(t, b, group), testkit.Dial(t, b.Bootstrap())
	first := join(t, a, group, nil, "t")
	sync := testkit.Do(a, syncRequest(group, first, nil, map[string][]byte{first.MemberID: {1}}), kmsg.NewPtrSyncGroupResponse())
	wantCode(t, "SyncGroup", sync.ErrorCode, 0)
	corr := other.Send(joinRequest(0, group, "", nil, "t"))
	// The first member needs 3 s to rejoin; until then it has heartbeats.
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if code := heartbeat(a, group, first, nil); code != 0 && code != 27 {
			t.Fatalf("heartbeat of the member that has not rejoined: %d", code)
		}
	}
	again := testkit.Do(a, joinRequest(9, group, first.MemberID, nil, "t"), kmsg.NewPtrJoinGroupResponse())
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = 0
	testkit.Read(other, corr, resp)
	wantCode(t, "JoinGroup v0", resp.ErrorCode, 0)
	wantCode(t, "JoinGroup of the first member", again.ErrorCode, 0)
	wantEqual(t, "generation of both", resp.Generation, again.Generation)
	wantEqual(t, "members", len(again.Members)+len(resp.Members), 2)
	onlyV0(t, b)
}

// onlyV0: in a group of members without a rebalance timeout one that needs 3 s to
// rejoin is waited for, which is what a member beside the first would hide.
func onlyV0(t *testing.T, b broker) {
	t.Helper()
	group := unique(t, "v0")
	a, other := committer(t, b, group), testkit.Dial(t, b.Bootstrap())
	first := testkit.Do(a, joinRequest(0, group, "", nil, "t"), kmsg.NewPtrJoinGroupResponse())
	wantCode(t, "JoinGroup v0 of the first", first.ErrorCode, 0)
	sync := syncRequest(group, first, nil, map[string][]byte{first.MemberID: {1}})
	sync.Version = 0
	wantCode(t, "SyncGroup v0", testkit.Do(a, sync, kmsg.NewPtrSyncGroupResponse()).ErrorCode, 0)
	corr := other.Send(joinRequest(0, group, "", nil, "t"))
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		if code := heartbeat(a, group, first, nil); code != 0 && code != 27 {
			t.Fatalf("heartbeat of the v0 member that has not rejoined: %d", code)
		}
	}
	again := testkit.Do(a, joinRequest(0, group, first.MemberID, nil, "t"), kmsg.NewPtrJoinGroupResponse())
	resp := testkit.Read(other, corr, versioned(kmsg.NewPtrJoinGroupResponse(), 0))
	wantCode(t, "JoinGroup v0 of the second", resp.ErrorCode, 0)
	wantCode(t, "JoinGroup v0 of the first again", again.ErrorCode, 0)
	wantEqual(t, "generation of both v0 members", resp.Generation, again.Generation)
	wantEqual(t, "rebalances", again.Generation, first.Generation+1)
	wantEqual(t, "v0 members", len(again.Members)+len(resp.Members), 2)
}

// C029: two processes with one group.instance.id: the newer one wins at once,
// without a rebalance.
func caseC029(t *testing.T, b broker) {
	topic, group, instance := unique(t, "t"), unique(t, "g"), "i1"
	createTopic(t, b, topic, 1)
	a, other := committer(t, b, group), testkit.Dial(t, b.Bootstrap())
	first := join(t, a, group, &instance, topic)
	sync := testkit.Do(a, syncRequest(group, first, &instance, map[string][]byte{first.MemberID: []byte("mine")}), kmsg.NewPtrSyncGroupResponse())
	wantCode(t, "SyncGroup of the first", sync.ErrorCode, 0)
	second := join(t, other, group, &instance, topic)
	wantEqual(t, "generation", second.Generation, first.Generation)
	wantEqual(t, "leader", second.LeaderID, second.MemberID)
	wantEqual(t, "skip assignment", second.SkipAssignment, true)
	if second.MemberID == first.MemberID {
		t.Error("the member id did not change")
	}
	got := testkit.Do(other, syncRequest(group, second, &instance, nil), kmsg.NewPtrSyncGroupResponse())
	wantEqual(t, "assignment of the second", string(got.MemberAssignment), "mine")
	wantCode(t, "Heartbeat of the first", heartbeat(a, group, first, &instance), 82)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 8, group, first.MemberID, first.Generation, &instance
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	req.Topics = append(req.Topics, rt)
	wantCode(t, "OffsetCommit of the first", testkit.Do(a, req, kmsg.NewPtrOffsetCommitResponse()).Topics[0].Partitions[0].ErrorCode, 82)
	wantCode(t, "JoinGroup of the first",
		testkit.Do(a, joinRequest(9, group, first.MemberID, &instance, topic), kmsg.NewPtrJoinGroupResponse()).ErrorCode, 82)
}

// C031: SyncGroup waits for the leader, however long it takes.
func caseC031(t *testing.T, b broker) {
	group := unique(t, "g")
	leader, follower := committer(t, b, group), testkit.Dial(t, b.Bootstrap())
	l, f := joinTwo(t, leader, follower, group)
	corr := follower.Send(syncRequest(group, f, nil, nil))
	if err := follower.C.SetReadDeadline(time.Now().Add(8 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := follower.C.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("the follower was answered before the leader synced (%v)", err)
	}
	_ = follower.C.SetReadDeadline(time.Now().Add(30 * time.Second))
	s := testkit.Do(leader, syncRequest(group, l, nil, map[string][]byte{f.MemberID: {0, 1, 2}}), kmsg.NewPtrSyncGroupResponse())
	wantCode(t, "SyncGroup of the leader", s.ErrorCode, 0)
	wantSync(t, follower, corr, string([]byte{0, 1, 2}))
	// Second round: the leader leaves the follower out.
	corr2 := leader.Send(joinRequest(9, group, l.MemberID, nil, "t"))
	awaitRebalance(t, follower, group, f)
	f = testkit.Do(follower, joinRequest(9, group, f.MemberID, nil, "t"), kmsg.NewPtrJoinGroupResponse())
	l = testkit.Read(leader, corr2, versioned(kmsg.NewPtrJoinGroupResponse(), 9))
	wantCode(t, "second JoinGroup", f.ErrorCode, 0)
	corr = follower.Send(syncRequest(group, f, nil, nil))
	testkit.Do(leader, syncRequest(group, l, nil, map[string][]byte{l.MemberID: {9}}), kmsg.NewPtrSyncGroupResponse())
	wantSync(t, follower, corr, "")
	readTogether(t, b)
}

func versioned[R kmsg.Response](r R, version int16) R {
	r.SetVersion(version)
	return r
}

func wantSync(t *testing.T, c *testkit.RawConn, corr int32, want string) {
	t.Helper()
	resp := testkit.Read(c, corr, versioned(kmsg.NewPtrSyncGroupResponse(), 5))
	wantCode(t, "SyncGroup of the follower", resp.ErrorCode, 0)
	wantEqual(t, "assignment of the follower", string(resp.MemberAssignment), want)
}

// awaitRebalance waits until the member is told to join again.
func awaitRebalance(t *testing.T, c *testkit.RawConn, group string, j *kmsg.JoinGroupResponse) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); heartbeat(c, group, j, nil) != 27; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no rebalance after 30 s")
		}
	}
}

// joinTwo makes a group of two; the first connection is the leader's.
func joinTwo(t *testing.T, a, b *testkit.RawConn, group string) (leader, follower *kmsg.JoinGroupResponse) {
	t.Helper()
	first := join(t, a, group, nil, "t")
	id := testkit.Do(b, joinRequest(9, group, "", nil, "t"), kmsg.NewPtrJoinGroupResponse())
	wantCode(t, "JoinGroup without id", id.ErrorCode, 79)
	corr := b.Send(joinRequest(9, group, id.MemberID, nil, "t"))
	awaitRebalance(t, a, group, first)
	leader = testkit.Do(a, joinRequest(9, group, first.MemberID, nil, "t"), kmsg.NewPtrJoinGroupResponse())
	follower = testkit.Read(b, corr, versioned(kmsg.NewPtrJoinGroupResponse(), 9))
	wantCode(t, "JoinGroup of the follower", follower.ErrorCode, 0)
	wantEqual(t, "leader", leader.LeaderID, leader.MemberID)
	wantEqual(t, "members told to the leader", len(leader.Members), 2)
	return leader, follower
}

// readTogether: two clients, started one after the other, both get partitions
// and read everything between them.
func readTogether(t *testing.T, b broker) {
	topic, group := unique(t, "e2e"), unique(t, "e2e-g")
	createTopic(t, b, topic, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	r := &reading{seen: map[string]int{}, held: map[int]int{}, changed: make(chan struct{}, 1)}
	var readers sync.WaitGroup
	for i := range 2 {
		cl := r.start(t, b, i, group, topic)
		readers.Go(func() { r.poll(ctx, cl) })
		r.await(ctx, t, func() bool { return r.held[i] > 0 })
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for i := range 30 {
		rec := &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: []byte(fmt.Sprint(i))}
		if err := producer.ProduceSync(ctx, rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.await(ctx, t, func() bool { return len(r.seen) == 30 && r.held[0] > 0 && r.held[1] > 0 && r.held[0]+r.held[1] == 3 })
	cancel()
	readers.Wait()
	if r.failed != nil {
		t.Error(r.failed)
	}
}

// reading is what the members of a group hold and read.
type reading struct {
	mu      sync.Mutex // guards the rest
	seen    map[string]int
	held    map[int]int
	failed  error
	changed chan struct{}
}

func (r *reading) do(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *reading) start(t *testing.T, b broker, i int, group, topic string) *kgo.Client {
	t.Helper()
	count := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			r.do(func() { r.held[i] += sign * len(m[topic]) })
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)),
		kgo.OnPartitionsLost(count(-1)))
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func (r *reading) poll(ctx context.Context, cl *kgo.Client) {
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		r.do(func() {
			fetches.EachRecord(func(rec *kgo.Record) { r.seen[string(rec.Value)]++ })
			if err := fetches.Err0(); err != nil && ctx.Err() == nil {
				r.failed = err
			}
		})
	}
}

func (r *reading) await(ctx context.Context, t *testing.T, ok func() bool) {
	t.Helper()
	for {
		r.mu.Lock()
		done := ok()
		state := fmt.Sprintf("%d records read, partitions held: %v", len(r.seen), r.held)
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			t.Fatal(state)
		}
	}
}

// C034: describing a group with the wrong API.
func caseC034(t *testing.T, b broker) {
	topic, cg, kg := unique(t, "t"), unique(t, "cg"), unique(t, "kg")
	createTopic(t, b, topic, 1)
	c, k := committer(t, b, cg), committer(t, b, kg)
	m := &member848{c: c, group: cg, id: "member-1", topics: []string{topic}}
	m.settle(t, 1)
	j := join(t, k, kg, nil, topic)
	testkit.Do(k, syncRequest(kg, j, nil, map[string][]byte{j.MemberID: {}}), kmsg.NewPtrSyncGroupResponse())
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 5
	found := map[string]string{}
	for _, g := range testkit.Do(c, list, kmsg.NewPtrListGroupsResponse()).Groups {
		found[g.Group] = g.GroupState + "/" + g.GroupType
	}
	wantEqual(t, "ListGroups of the KIP-848 group", found[cg], "Stable/consumer")
	wantEqual(t, "ListGroups of the classic group", found[kg], "Stable/classic")
	for version, want := range map[int16]int16{6: 69, 5: 0} {
		d := describeGroup(c, cg, version)
		wantCode(t, fmt.Sprintf("DescribeGroups v%d of the KIP-848 group", version), d.ErrorCode, want)
		wantEqual(t, "its state", d.State, "Dead")
		wantEqual(t, "its members", len(d.Members), 0)
		wantEqual(t, "state of the classic group", describeGroup(c, kg, version).State, "Stable")
	}
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Version, req.Groups = 1, []string{cg, kg}
	for _, g := range testkit.Do(c, req, kmsg.NewPtrConsumerGroupDescribeResponse()).Groups {
		if g.Group == kg {
			wantCode(t, "ConsumerGroupDescribe of the classic group", g.ErrorCode, 69)
			continue
		}
		wantEqual(t, "ConsumerGroupDescribe state", g.State, "Stable")
		wantEqual(t, "ConsumerGroupDescribe members", len(g.Members), 1)
	}
}

func describeGroup(c *testkit.RawConn, group string, version int16) kmsg.DescribeGroupsResponseGroup {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = version, []string{group}
	return testkit.Do(c, req, kmsg.NewPtrDescribeGroupsResponse()).Groups[0]
}

// member848 is a member of a consumer group (KIP-848) that speaks the protocol
// by hand.
type member848 struct {
	c      *testkit.RawConn
	group  string
	id     string
	epoch  int32
	topics []string
	// has is the last assignment that was told; nil: none yet.
	has *kmsg.ConsumerGroupHeartbeatResponseAssignment
}

func (m *member848) request() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, m.group, m.id, m.epoch, -1
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if m.epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, m.topics
	} else if m.has != nil {
		for _, t := range m.has.Topics {
			rt := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			rt.TopicID, rt.Partitions = t.TopicID, t.Partitions
			req.Topics = append(req.Topics, rt)
		}
	}
	return req
}

func (m *member848) beat() *kmsg.ConsumerGroupHeartbeatResponse {
	resp := testkit.Do(m.c, m.request(), kmsg.NewPtrConsumerGroupHeartbeatResponse())
	if resp.ErrorCode == 0 {
		m.epoch = resp.MemberEpoch
		if resp.Assignment != nil {
			m.has = resp.Assignment
		}
	}
	return resp
}

func (m *member848) partitions() int {
	n := 0
	if m.has != nil {
		for _, t := range m.has.Topics {
			n += len(t.Partitions)
		}
	}
	return n
}

// settle sends heartbeats until the member has that many partitions.
func (m *member848) settle(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if resp := m.beat(); resp.ErrorCode != 0 && resp.ErrorCode != 14 && resp.ErrorCode != 15 && resp.ErrorCode != 16 {
			t.Fatalf("heartbeat: %d", resp.ErrorCode)
		}
		if m.epoch > 0 && m.partitions() == want {
			return
		}
	}
	t.Fatalf("the member has %d partitions after 20 s, want %d", m.partitions(), want)
}

// C035: a member comes back with epoch 0, and with epochs that are not its own.
func caseC035(t *testing.T, b broker) {
	topic, group := unique(t, "t"), unique(t, "g")
	createTopic(t, b, topic, 2)
	m := &member848{c: committer(t, b, group), group: group, id: "member-1", topics: []string{topic}}
	m.settle(t, 2)
	epoch := m.epoch
	m.epoch = 0
	resp := testkit.Do(m.c, m.request(), kmsg.NewPtrConsumerGroupHeartbeatResponse())
	wantCode(t, "epoch 0 again", resp.ErrorCode, 0)
	if resp.MemberEpoch <= 0 || resp.Assignment == nil || len(resp.Assignment.Topics) != 1 || len(resp.Assignment.Topics[0].Partitions) != 2 {
		t.Errorf("the answer to epoch 0: epoch %d, assignment %+v", resp.MemberEpoch, resp.Assignment)
	}
	for _, tc := range []struct {
		what  string
		id    string
		epoch int32
		want  int16
	}{{"an epoch from the future", m.id, epoch + 5, 110}, {"an unknown member", "somebody", epoch, 25}, {"no member id", "", 0, 42}} {
		other := &member848{c: m.c, group: group, id: tc.id, epoch: tc.epoch, topics: m.topics}
		wantCode(t, tc.what, testkit.Do(m.c, other.request(), kmsg.NewPtrConsumerGroupHeartbeatResponse()).ErrorCode, tc.want)
	}
}

// C037: more members than partitions: the last one is told that it has nothing.
func caseC037(t *testing.T, b broker) {
	topic, group := unique(t, "t"), unique(t, "g")
	createTopic(t, b, topic, 2)
	c := committer(t, b, group)
	first := &member848{c: c, group: group, id: "member-1", topics: []string{topic}}
	first.settle(t, 2)
	second := &member848{c: c, group: group, id: "member-2", topics: []string{topic}}
	for deadline := time.Now().Add(time.Minute); second.partitions() != 1; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second member gets nothing")
		}
		first.beat()
		second.beat()
	}
	third := &member848{c: c, group: group, id: "member-3", topics: []string{topic}}
	resp := third.beat()
	wantCode(t, "third member", resp.ErrorCode, 0)
	if resp.MemberEpoch < 1 || resp.Assignment == nil || len(resp.Assignment.Topics) != 0 {
		t.Fatalf("third member: epoch %d, assignment %+v, want one that is there and empty", resp.MemberEpoch, resp.Assignment)
	}
	first.epoch = -1
	wantCode(t, "farewell", testkit.Do(c, first.request(), kmsg.NewPtrConsumerGroupHeartbeatResponse()).ErrorCode, 0)
	for deadline := time.Now().Add(time.Minute); third.partitions() != 1; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the third member does not get the free partition")
		}
		second.beat()
		third.beat()
	}
}

// C059: deleting groups and offsets.
func caseC059(t *testing.T, b broker) {
	live, left, topic, other := unique(t, "live"), unique(t, "left"), unique(t, "t"), unique(t, "u")
	createTopic(t, b, topic, 1)
	createTopic(t, b, other, 1)
	c, l := committer(t, b, live), committer(t, b, left)
	j := join(t, c, live, nil, topic)
	testkit.Do(c, syncRequest(live, j, nil, map[string][]byte{j.MemberID: {}}), kmsg.NewPtrSyncGroupResponse())
	deleteGroup := func(id string) int16 {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Version, req.Groups = 2, []string{id}
		return testkit.Do(c, req, kmsg.NewPtrDeleteGroupsResponse()).Groups[0].ErrorCode
	}
	wantCode(t, "DeleteGroups of an unknown group", deleteGroup(unique(t, "never")), 69)
	wantCode(t, "DeleteGroups of a live group", deleteGroup(live), 68)
	lj := join(t, l, left, nil, topic)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group = 5, left
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID = lj.MemberID
	leave.Members = append(leave.Members, lm)
	wantCode(t, "LeaveGroup", testkit.Do(l, leave, kmsg.NewPtrLeaveGroupResponse()).Members[0].ErrorCode, 0)
	wantCode(t, "DeleteGroups of a group that everybody left", deleteGroup(left), 0)
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 5
	for _, g := range testkit.Do(c, list, kmsg.NewPtrListGroupsResponse()).Groups {
		if g.Group == left {
			t.Error("the deleted group is listed")
		}
	}
	d := describeGroup(c, left, 5)
	wantCode(t, "DescribeGroups v5 of the deleted group", d.ErrorCode, 0)
	wantEqual(t, "its state", d.State, "Dead")
	codes := deleteOffsets(c, live, topic, other)
	wantCode(t, "OffsetDelete of a subscribed topic", codes[topic], 86)
	wantCode(t, "OffsetDelete of another topic", codes[other], 0)
	wantCode(t, "OffsetDelete on an unknown group", deleteOffsets(c, unique(t, "never"), topic)[""], 69)
}

// deleteOffsets returns the code of each topic's partition 0, and under "" that
// of the whole request.
func deleteOffsets(c *testkit.RawConn, group string, topics ...string) map[string]int16 {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	for _, topic := range topics {
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = topic
		rt.Partitions = append(rt.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
	}
	resp := testkit.Do(c, req, kmsg.NewPtrOffsetDeleteResponse())
	out := map[string]int16{"": resp.ErrorCode}
	for _, rt := range resp.Topics {
		out[rt.Topic] = rt.Partitions[0].ErrorCode
	}
	return out
}
