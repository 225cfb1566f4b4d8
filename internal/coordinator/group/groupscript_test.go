package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// TestGroupScripts runs the scripts in testdata/groups; each is named after the
// rules that it proves. Members are called by names: a classic member NAME gets
// the id NAME-1, then NAME-2 when it comes back without one.
//
//	groups [topics=(a:4,b:2)] [delay=ms] [max=n] [policy=...] [interval=ms]
//	join NAME [v=9] [id=ID] [instance=I] [session=ms] [rebalance=ms] [protocols=(range:x,sticky:y)] [type=consumer] [topics=(a)] [owned=(a:0)]
//	sync NAME [gen=n] [id=] [instance=] [protocol=] [assign=(NAME:x,...)] | heartbeat NAME [gen=] | leave NAME [id=] [instance=]
//	beat NAME [epoch=n] [topics=(a)] [regex=] [owned=(a:0,a:1)] [instance=] [rack=] [assignor=]   ConsumerGroupHeartbeat; owned=() lists nothing
//	commit NAME topic=a p=0 offset=n epoch=n | fetch NAME topic=a p=0 epoch=n
//	delete | expire | stats | grow NAME N                                   N partitions now, as the service tells the shard
//	resolve                                                               the looks at regular expressions end
//	pass MS | topic NAME N | move | lose-next-write | describe | list [state=] [type=] | records
//
// The output of a command is its own answer and then what was answered to parked
// requests.
func TestGroupScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/groups", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "groups" {
				s = newScript(t, d)
				return ""
			}
			s.t, s.d, s.w.t = t, d, t
			s.out.Reset()
			s.out.WriteString(s.run())
			return s.out.String()
		})
	})
}

type script struct {
	t     *testing.T
	d     *datadriven.TestData
	w     *world
	out   strings.Builder
	ids   map[string]string // name -> member id
	gens  map[string]int32
	made  map[string]int
	inst  map[string]*string
	since int // records already shown
}

func newScript(t *testing.T, d *datadriven.TestData) *script {
	s := &script{t: t, d: d, ids: map[string]string{}, gens: map[string]int32{}, made: map[string]int{}, inst: map[string]*string{}}
	w := newWorld(t)
	for _, x := range s.list("topics") {
		name, n, _ := strings.Cut(x, ":")
		count, _ := strconv.Atoi(n)
		w.c.set(name, int32(count))
	}
	w.cfg.Classic.InitialRebalanceDelayMs = s.int("delay", 0)
	w.cfg.Classic.MaxSize = int(s.int("max", 1<<31-1))
	w.cfg.Consumer.MaxSize = w.cfg.Classic.MaxSize
	interval := s.int("interval", 0)
	w.cfg.Consumer.Of = func(string) consumer.GroupConfig {
		return consumer.GroupConfig{SessionMs: 45_000, HeartbeatMs: 5_000, AssignmentIntervalMs: interval}
	}
	if p := s.arg("policy"); p != "" {
		w.cfg.Migration = MigrationOf(p)
	}
	w.s = NewShard(w.cfg)
	s.w = w
	return s
}

func (s *script) has(name string) bool { return s.d.HasArg(name) }

func (s *script) arg(name string) string {
	for _, a := range s.d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

func (s *script) list(name string) []string {
	for _, a := range s.d.CmdArgs {
		if a.Key == name {
			return slices.DeleteFunc(slices.Clone(a.Vals), func(v string) bool { return v == "" })
		}
	}
	return nil
}

func (s *script) int(name string, def int64) int64 {
	if v := s.arg(name); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			s.d.Fatalf(s.t, "%s: %v", name, err)
		}
		return n
	}
	return def
}

func (s *script) ptr(name string) *string {
	if v := s.arg(name); v != "" {
		return &v
	}
	return nil
}

// who is the command's member, with the instance that it joined with.
func (s *script) who() (name, id string, instance *string) {
	name = s.d.CmdArgs[0].Key
	id = s.ids[name]
	if s.has("id") {
		id = s.arg("id")
	}
	if instance = s.inst[name]; s.has("instance") {
		instance = s.ptr("instance")
		s.inst[name] = instance
	}
	return name, id, instance
}

func (s *script) run() string {
	switch s.d.Cmd {
	case "join":
		return s.join()
	case "sync":
		return s.sync()
	case "heartbeat":
		return s.heartbeat()
	case "leave":
		return s.leave()
	case "beat":
		return s.beat()
	case "commit":
		return s.commit()
	case "fetch":
		return s.fetch()
	case "describe":
		return s.describe()
	case "list":
		return s.listGroups()
	case "records":
		return s.records()
	case "pass":
		ms, _ := strconv.ParseInt(s.d.CmdArgs[0].Key, 10, 64)
		s.w.pass(ms)
	case "topic":
		n, _ := strconv.Atoi(s.d.CmdArgs[1].Key)
		s.w.c.setAt(s.d.CmdArgs[0].Key, int32(n), s.w.now)
	case "delete":
		res, err := s.w.s.DeleteGroup(wall(s.w.now), "g")
		_, err = run(s.w, res, err)
		return kerrors.CodeOf(err).Name() + "\n"
	case "expire":
		res := s.w.s.Expire(wall(s.w.now), 100)
		s.w.finish(coordinator.Output{Records: res.Records, Effects: res.Effects})
		return fmt.Sprintf("%d offsets\n", res.Response)
	case "grow":
		return s.grow()
	case "stats":
		return s.stats()
	case "resolve":
		return fmt.Sprintf("%d looks\n", s.w.resolve())
	case "move":
		s.w.move()
	case "lose-next-write":
		s.w.fail = true
	default:
		s.d.Fatalf(s.t, "unknown command %s", s.d.Cmd)
	}
	return ""
}

// waiter prints what a parked request is answered.
type waiter struct {
	s    *script
	name string
}

func (w waiter) AnswerJoin(r *kmsg.JoinGroupResponse) {
	s := w.s
	fmt.Fprintf(&s.out, "%s joined: %s", w.name, kerrors.Code(r.ErrorCode).Name())
	if r.MemberID != "" && r.ErrorCode == int16(kerrors.MemberIDRequired) || r.ErrorCode == 0 {
		s.ids[w.name] = r.MemberID
	}
	if r.ErrorCode == 0 {
		s.gens[w.name] = r.Generation
		fmt.Fprintf(&s.out, " %s generation %d leader %q protocol %s", r.MemberID, r.Generation, r.LeaderID, *r.Protocol)
		if r.SkipAssignment {
			s.out.WriteString(" skip-assignment")
		}
		for _, m := range r.Members {
			fmt.Fprintf(&s.out, " [%s %q]", m.MemberID, printable(m.ProtocolMetadata))
		}
	}
	s.out.WriteString("\n")
}

func (w waiter) AnswerSync(r *kmsg.SyncGroupResponse) {
	fmt.Fprintf(&w.s.out, "%s synced: %s", w.name, kerrors.Code(r.ErrorCode).Name())
	if r.ErrorCode == 0 {
		fmt.Fprintf(&w.s.out, " %q", printable(r.MemberAssignment))
	}
	w.s.out.WriteString("\n")
}

// printable shows the consumers' own messages in words, other bytes as they are.
func printable(b []byte) string {
	if len(b) < 6 || b[0] != 0 {
		return string(b)
	}
	if a, ok := classic.ParseAssignment(b); ok && len(a.Topics) > 0 {
		out := ""
		for _, t := range a.Topics {
			out += fmt.Sprint(t.Topic, t.Partitions, " ")
		}
		return strings.TrimSpace(out)
	}
	if m, ok := classic.ParseSubscription(b); ok {
		return fmt.Sprint(m.Topics)
	}
	return "nothing"
}

func (s *script) join() string {
	name, id, instance := s.who()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = int16(s.int("v", 9)), "g", id, instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(s.int("session", 10_000)), int32(s.int("rebalance", 30_000))
	req.ProtocolType = classic.ProtocolType
	if t := s.arg("type"); t != "" {
		req.ProtocolType = t
	}
	for _, p := range s.list("protocols") {
		rp := kmsg.NewJoinGroupRequestProtocol()
		n, md, _ := strings.Cut(p, ":")
		rp.Name, rp.Metadata = n, []byte(md)
		req.Protocols = append(req.Protocols, rp)
	}
	if len(req.Protocols) == 0 {
		rp := kmsg.NewJoinGroupRequestProtocol()
		sub := kmsg.NewConsumerMemberMetadata()
		sub.Version, sub.Topics = 1, s.list("topics")
		for _, o := range s.owned() {
			so := kmsg.NewConsumerMemberMetadataOwnedPartition()
			so.Topic, _ = s.w.c.Name(o.TopicID)
			so.Partitions = o.Partitions
			sub.OwnedPartitions = append(sub.OwnedPartitions, so)
		}
		rp.Name, rp.Metadata = "range", sub.AppendTo(nil)
		req.Protocols = append(req.Protocols, rp)
	}
	s.made[name]++
	res := s.w.s.JoinGroup(wall(s.w.now), classic.JoinRequest{
		JoinGroupRequest: req, ClientID: "c", ClientHost: "/h", NewMemberID: fmt.Sprintf("%s-%d", name, s.made[name]), To: waiter{s, name},
	})
	s.w.finish(coordinator.Output{Records: res.Records, Effects: res.Effects})
	return ""
}

func (s *script) sync() string {
	name, id, instance := s.who()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = 5, "g", id, instance
	req.Generation, req.Protocol = int32(s.int("gen", int64(s.gens[name]))), s.ptr("protocol")
	for _, a := range s.list("assign") {
		n, bytes, _ := strings.Cut(a, ":")
		ra := kmsg.NewSyncGroupRequestGroupAssignment()
		ra.MemberID, ra.MemberAssignment = s.ids[n], []byte(bytes)
		req.GroupAssignment = append(req.GroupAssignment, ra)
	}
	res := s.w.s.SyncGroup(wall(s.w.now), req, waiter{s, name})
	s.w.finish(coordinator.Output{Records: res.Records, Effects: res.Effects})
	return ""
}

func (s *script) heartbeat() string {
	name, id, instance := s.who()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, "g", id, instance, int32(s.int("gen", int64(s.gens[name])))
	res, err := s.w.s.Heartbeat(wall(s.w.now), req)
	resp, err := run(s.w, res, err)
	if err != nil {
		return kerrors.CodeOf(err).Name() + "\n"
	}
	return kerrors.Code(resp.ErrorCode).Name() + "\n"
}

func (s *script) leave() string {
	_, id, instance := s.who()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, "g"
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID, lm.InstanceID = id, instance
	req.Members = append(req.Members, lm)
	res, err := s.w.s.LeaveGroup(wall(s.w.now), req)
	resp, err := run(s.w, res, err)
	if err != nil {
		return kerrors.CodeOf(err).Name() + "\n"
	}
	return kerrors.Code(resp.Members[0].ErrorCode).Name() + "\n"
}

func (s *script) owned() []kmsg.ConsumerGroupHeartbeatRequestTopic {
	owned := map[types.TopicPartition]int64{}
	for _, x := range s.list("owned") {
		topic, p, _ := strings.Cut(x, ":")
		n, _ := strconv.Atoi(p)
		owned[types.TopicPartition{Topic: topic, Partition: int32(n)}] = 0
	}
	return ownedTopics(owned)
}

func (s *script) beat() string {
	name, id, instance := s.who()
	if id == "" {
		id = name
		s.ids[name] = id
	}
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = int16(s.int("v", 1)), "g", id, instance
	req.MemberEpoch = int32(s.int("epoch", int64(s.gens[name])))
	req.RebalanceTimeoutMillis = -1
	req.RackID, req.ServerAssignor, req.SubscribedTopicRegex = s.ptr("rack"), s.ptr("assignor"), s.ptr("regex")
	if s.has("owned") {
		req.Topics = s.owned()
	}
	if s.has("topics") {
		req.SubscribedTopicNames = append([]string{}, s.list("topics")...)
	}
	if req.MemberEpoch == 0 {
		req.RebalanceTimeoutMillis = int32(s.int("rebalance", 30_000))
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil {
			req.SubscribedTopicNames = []string{}
		}
	}
	res, err := s.w.s.ConsumerHeartbeat(wall(s.w.now), consumer.Request{
		ConsumerGroupHeartbeatRequest: req, ClientID: "c", ClientHost: "/h", InvalidRegex: invalidRegex(req),
	})
	resp, err := run(s.w, res, err)
	if err != nil {
		return kerrors.CodeOf(err).Name() + "\n"
	}
	s.gens[name] = max(0, resp.MemberEpoch)
	soon := ""
	if ms := resp.HeartbeatIntervalMillis; ms != 0 && ms != 5000 {
		soon = fmt.Sprintf(" again in %d ms", resp.HeartbeatIntervalMillis)
	}
	return fmt.Sprintf("epoch %d%s%s\n", resp.MemberEpoch, s.assignment(resp.Assignment), soon)
}

func (s *script) assignment(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) string {
	if a == nil {
		return ""
	}
	out := " assignment"
	for _, t := range a.Topics {
		name, _ := s.w.c.Name(t.TopicID)
		out += fmt.Sprint(" ", name, t.Partitions)
	}
	if len(a.Topics) == 0 {
		out += " none"
	}
	return out
}

func (s *script) commit() string {
	name, id, instance := s.who()
	m := &client{w: s.w, id: id, instance: instance}
	tp := types.TopicPartition{Topic: s.arg("topic"), Partition: int32(s.int("p", 0))}
	return m.commit(tp, s.int("offset", 1), int32(s.int("epoch", int64(s.gens[name])))).Name() + "\n"
}

func (s *script) fetch() string {
	name, id, _ := s.who()
	req := fetchReq("g", s.arg("topic"), int32(s.int("p", 0)))
	if id != "" {
		req.MemberID = &id
	}
	req.MemberEpoch = int32(s.int("epoch", int64(s.gens[name])))
	resp := s.w.s.FetchOffsets(req, s.w.next, false)
	if resp.ErrorCode != 0 {
		return kerrors.Code(resp.ErrorCode).Name() + "\n"
	}
	return fmt.Sprintf("offset %d\n", flatten(resp)[0].Offset)
}

func (s *script) describe() string {
	var b strings.Builder
	if d := s.w.s.DescribeConsumerGroup("g", s.w.next); d.ErrorCode == 0 {
		fmt.Fprintf(&b, "consumer %s epoch %d assignment %d assignor %s\n", d.State, d.Epoch, d.AssignmentEpoch, d.AssignorName)
		for _, m := range d.Members {
			kind := "classic"
			if m.MemberType == 1 {
				kind = "consumer"
			}
			fmt.Fprintf(&b, "  %s %s epoch %d has%s wants%s\n", m.MemberID, kind, m.MemberEpoch, named(m.Assignment), named(m.TargetAssignment))
		}
		return b.String()
	}
	d := s.w.s.DescribeGroup(wall(s.w.now), "g", 6, s.w.next)
	fmt.Fprintf(&b, "classic %s %s protocol %q", kerrors.Code(d.ErrorCode).Name(), d.State, d.Protocol)
	for _, m := range d.Members {
		fmt.Fprintf(&b, " [%s %q]", m.MemberID, printable(m.MemberAssignment))
	}
	return b.String() + "\n"
}

func named(a kmsg.Assignment) string {
	out := ""
	for _, t := range a.TopicPartitions {
		out += fmt.Sprint(" ", t.Topic, t.Partitions)
	}
	if out == "" {
		return " nothing"
	}
	return out
}

func (s *script) listGroups() string {
	req := kmsg.NewPtrListGroupsRequest()
	if v := s.arg("state"); v != "" {
		req.StatesFilter = []string{v}
	}
	if v := s.arg("type"); v != "" {
		req.TypesFilter = []string{v}
	}
	out := ""
	for _, g := range s.w.s.ListGroups(wall(s.w.now), req, s.w.next) {
		out += fmt.Sprintf("%s %s %s %q\n", g.Group, g.GroupType, g.GroupState, g.ProtocolType)
	}
	if out == "" {
		return "none\n"
	}
	return out
}

// records names the types of what was written since the last time.
func (s *script) records() string {
	names := map[byte]string{
		1: "offset", 2: "group", 3: "epoch", 4: "partition metadata", 5: "member", 6: "target epoch", 7: "target", 8: "current", 16: "regex",
	}
	out := ""
	for _, l := range s.w.log[s.since:] {
		out += names[l.rec.Key[1]]
		if l.rec.Value == nil {
			out += " tombstone"
		}
		out += "\n"
	}
	s.since = len(s.w.log)
	return out
}

func (s *script) grow() string {
	name := s.d.CmdArgs[0].Key
	n, _ := strconv.Atoi(s.d.CmdArgs[1].Key)
	from := s.w.c.partitions[name]
	res := s.w.s.OnTopicsGrown(wall(s.w.now), []Growth{{Topic: name, TopicID: idOf(name), From: from, To: int32(n)}})
	s.w.finish(coordinator.Output{Records: res.Records})
	s.w.c.setAt(name, int32(n), s.w.now)
	return fmt.Sprintf("%d offsets\n", res.Response)
}

func (s *script) stats() string {
	out := ""
	for _, g := range s.w.s.Samples(wall(s.w.now)) {
		out += fmt.Sprintf("%s %s epoch %d members %d rebalances %d took %d ms, partitions stopped %d ms (%d now), static wait %d ms\n",
			g.Type, g.State, g.Epoch, g.Members, g.Rebalances, g.RebalanceMs, g.StoppedMs, g.Stopped, g.StaticWaitMs)
	}
	return out
}
