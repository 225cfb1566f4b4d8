package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

type recs = []recordschema.MetadataRecord

// run executes one script command and returns the records to append.
func (w *world) run(a args, out *strings.Builder) recs {
	if ms := a.int("now", -1); ms >= 0 {
		w.nowMs = ms
	}
	run, ok := map[string]func(args, *strings.Builder) recs{
		"register": w.register, "heartbeat": w.heartbeat, "up": w.up, "unregister": w.unregister, "tick": w.tick,
		"create": w.create, "delete": w.delete, "grow": w.grow,
		"incremental": w.incremental, "replace-configs": w.replaceConfigs,
		"alter-partition": w.alterPartition, "elect": w.elect, "assign-dirs": w.assignDirs,
		"reassignments": w.reassignments, "inject": w.inject,
		"features": w.features, "producer-ids": w.producerIDs, "show": w.show,
	}[a.d.Cmd]
	if !ok {
		panic(fmt.Sprintf("%s: no command %q", a.d.Pos, a.d.Cmd))
	}
	return run(a, out)
}

// result writes the response line of a command without message fields.
func result[T any](out *strings.Builder, r Result[T], code int16) recs {
	line := codeLine(code, nil)
	if r.Refused != "" {
		line += " (" + r.Refused + ")"
	}
	out.WriteString(line + "\n")
	return r.Records
}

func (w *world) epoch(broker int32) int64 {
	if b, ok := w.core.Image().Cluster.Broker(broker); ok {
		return b.Epoch
	}
	return -1
}

func (w *world) register(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = int16(a.int("version", 4))
	req.BrokerID = int32(a.int("id", 1))
	req.ClusterID = a.str("cluster", "cluster")
	req.IncarnationID = id(a.str("incarnation", fmt.Sprintf("inc%d", req.BrokerID)))
	req.PreviousBrokerEpoch = a.int("prev", -1)
	if rack := a.str("rack", ""); rack != "" {
		req.Rack = &rack
	}
	req.LogDirs = raw(a.names("dirs"))
	if !a.has("dirs") {
		req.LogDirs = raw([]types.UUID{id(fmt.Sprintf("dir%d", req.BrokerID))})
	}
	features := a.str("features", "metadata.version:1-30,group.version:0-1,eligible.leader.replicas.version:0-1")
	for _, f := range strings.FieldsFunc(features, func(r rune) bool { return r == ',' }) {
		name, span, _ := strings.Cut(f, ":")
		lo, hi, _ := strings.Cut(span, "-")
		rf := kmsg.NewBrokerRegistrationRequestFeature()
		rf.Name = name
		l, _ := strconv.Atoi(lo)
		h, _ := strconv.Atoi(hi)
		rf.MinSupportedVersion, rf.MaxSupportedVersion = int16(l), int16(h)
		req.Features = append(req.Features, rf)
	}
	r := w.core.RegisterBroker(RegisterBrokerInput{NowMs: w.nowMs, Req: req, NextOffset: w.next()})
	if r.Response.ErrorCode == 0 {
		fmt.Fprintf(out, "epoch=%d ", r.Response.BrokerEpoch)
	}
	return result(out, r, r.Response.ErrorCode)
}

func (w *world) heartbeat(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 2
	req.BrokerID = int32(a.int("id", 1))
	req.BrokerEpoch = a.int("epoch", w.epoch(req.BrokerID))
	req.CurrentMetadataOffset = a.int("offset", w.next()-1)
	req.WantFence = a.has("want-fence")
	req.WantShutdown = a.has("want-shutdown")
	req.OfflineLogDirs = raw(a.names("offline"))
	if a.has("cordoned") {
		req.CordonedLogDirs = append([][16]byte{}, raw(a.names("cordoned"))...)
	}
	in := BrokerHeartbeatInput{NowMs: w.nowMs, Req: req, NextOffset: w.next()}
	w.core.BrokerHeartbeat(in) // running it twice must be the same as once
	r := w.core.BrokerHeartbeat(in)
	if r.Response.ErrorCode == 0 {
		fmt.Fprintf(out, "caughtUp=%v fenced=%v shutdown=%v ", r.Response.IsCaughtUp, r.Response.IsFenced, r.Response.ShouldShutdown)
	}
	return result(out, r, r.Response.ErrorCode)
}

// up registers and unfences brokers without showing it: up 1 2 3, optionally
// with rack=.
func (w *world) up(a args, out *strings.Builder) recs {
	for _, arg := range a.d.CmdArgs {
		if len(arg.Vals) > 0 {
			continue
		}
		n, err := strconv.Atoi(arg.Key)
		if err != nil {
			panic(err)
		}
		var quiet strings.Builder
		sub := func(cmd string, run func(args, *strings.Builder) recs) {
			d := *a.d
			d.Cmd = cmd
			d.CmdArgs = append(d.CmdArgs[:0:0], d.CmdArgs...)
			d.CmdArgs[0].Key, d.CmdArgs[0].Vals = "id", []string{strconv.Itoa(n)}
			if err := w.append(run(args{&d}, &quiet)); err != nil {
				panic(err)
			}
		}
		sub("register", w.register)
		sub("heartbeat", w.heartbeat)
		if b, ok := w.core.Image().Cluster.Broker(int32(n)); !ok || b.Fenced {
			panic("broker did not come up: " + quiet.String())
		}
	}
	out.WriteString("ok\n")
	return nil
}

func (w *world) unregister(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = int32(a.int("id", 1))
	r := w.core.UnregisterBroker(req)
	out.WriteString(codeLine(r.Response.ErrorCode, r.Response.ErrorMessage) + "\n")
	return r.Records
}

func (w *world) tick(a args, out *strings.Builder) recs {
	w.core.Tick(w.nowMs)
	r := w.core.Tick(w.nowMs)
	if len(r.Records) == 0 {
		fmt.Fprintf(out, "nothing to do until %d\n", w.core.NextTickMs())
	}
	return r.Records
}

// create reads one topic a line: name [partitions=N] [rf=N] [assign=1/2,2/3]
// [key:value ...]; "key:" alone is a null value.
func (w *world) create(a args, out *strings.Builder) recs {
	req := createRequest(a.d.Input)
	req.Version = int16(a.int("version", 7))
	req.ValidateOnly = a.has("validate-only")
	in := CreateTopicsInput{Req: req, NewID: w.newID, Random: uint64(a.int("random", 0))}
	if hide := a.str("hide-configs", ""); hide != "" {
		in.Describable = func(topic string) bool { return topic != hide }
	}
	in.DescribeConfigs = func(_ string, overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
		var out []kmsg.CreateTopicsResponseTopicConfig
		for _, k := range slices.Sorted(maps.Keys(overrides)) {
			c := kmsg.NewCreateTopicsResponseTopicConfig()
			c.Name, c.Value = k, kmsg.StringPtr(overrides[k])
			out = append(out, c)
		}
		return out
	}
	r := w.core.CreateTopics(in)
	for _, t := range r.Response.Topics {
		fmt.Fprintf(out, "%s: %s", t.Topic, codeLine(t.ErrorCode, t.ErrorMessage))
		if t.ErrorCode == 0 {
			fmt.Fprintf(out, " id=%s partitions=%d rf=%d configs=%d", idName(t.TopicID), t.NumPartitions, t.ReplicationFactor, len(t.Configs))
			if t.ConfigErrorCode != 0 {
				fmt.Fprintf(out, " configs: %s", kerrors.Code(t.ConfigErrorCode).Name())
			}
		}
		out.WriteString("\n")
	}
	return r.Records
}

func createRequest(text string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	for _, line := range inputLines(text) {
		req.Topics = append(req.Topics, parseTopic(line))
	}
	return req
}

func inputLines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func parseTopic(line string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.NumPartitions, t.ReplicationFactor = -1, -1
	fields := strings.Fields(line)
	if len(fields) > 0 && fields[0] != `""` {
		t.Topic = fields[0]
	}
	for _, f := range fields[min(1, len(fields)):] {
		key, value, isOption := strings.Cut(f, "=")
		switch {
		case isOption && key == "partitions":
			n, _ := strconv.Atoi(value)
			t.NumPartitions = int32(n)
		case isOption && key == "rf":
			n, _ := strconv.Atoi(value)
			t.ReplicationFactor = int16(n)
		case isOption && key == "assign":
			for i, part := range strings.Split(value, ",") {
				as := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				as.Partition = int32(i)
				if no, replicas, ok := strings.Cut(part, ":"); ok {
					n, _ := strconv.Atoi(no)
					as.Partition, part = int32(n), replicas
				}
				as.Replicas = parseInts(part)
				t.ReplicaAssignment = append(t.ReplicaAssignment, as)
			}
		default:
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			name, value, _ := strings.Cut(f, ":")
			c.Name = name
			if value != "" {
				c.Value = &value
			}
			t.Configs = append(t.Configs, c)
		}
	}
	return t
}

func (w *world) delete(a args, out *strings.Builder) recs {
	r := w.core.DeleteTopics(deleteRequest(a.d.Input, id))
	for _, t := range r.Response.Topics {
		fmt.Fprintf(out, "%s #%s: %s\n", orNull(t.Topic), idName(t.TopicID), codeLine(t.ErrorCode, t.ErrorMessage))
	}
	return r.Records
}

// deleteRequest reads one topic a line: a name, #id, "name #id" or "-" for
// neither; find turns what follows the # into an id.
func deleteRequest(text string, find func(string) types.UUID) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10_000
	for _, line := range inputLines(text) {
		t := kmsg.NewDeleteTopicsRequestTopic()
		for _, f := range strings.Fields(line) {
			switch {
			case f == "-":
			case strings.HasPrefix(f, "#"):
				t.TopicID = find(f[1:])
			default:
				t.Topic = &f
			}
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (w *world) grow(a args, out *strings.Builder) recs {
	req := growRequest(a.d.Input)
	req.ValidateOnly = a.has("validate-only")
	r := w.core.CreatePartitions(CreatePartitionsInput{Req: req, NowMs: 77})
	for _, t := range r.Response.Topics {
		fmt.Fprintf(out, "%s: %s\n", t.Topic, codeLine(t.ErrorCode, t.ErrorMessage))
	}
	return r.Records
}

// growRequest reads one topic a line: name count [assign=1/2,2/3].
func growRequest(text string) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis = 3, 10_000
	for _, line := range inputLines(text) {
		f := strings.Fields(line)
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic = f[0]
		n, _ := strconv.Atoi(f[1])
		t.Count = int32(n)
		if len(f) > 2 {
			for _, part := range strings.Split(strings.TrimPrefix(f[2], "assign="), ",") {
				as := kmsg.NewCreatePartitionsRequestTopicAssignment()
				as.Replicas = parseInts(part)
				t.Assignment = append(t.Assignment, as)
			}
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func parseResource(s string) (kmsg.ConfigResourceType, string) {
	kind, name, _ := strings.Cut(s, "/")
	types := map[string]kmsg.ConfigResourceType{"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32, "odd": 77}
	return types[kind], name
}

func (w *world) incremental(a args, out *strings.Builder) recs {
	req := incrementalRequest(a.d.Input)
	req.ValidateOnly = a.has("validate-only")
	r := w.core.IncrementalAlterConfigs(req)
	for _, res := range r.Response.Resources {
		fmt.Fprintf(out, "%d/%s: %s\n", res.ResourceType, res.ResourceName, codeLine(res.ErrorCode, res.ErrorMessage))
	}
	return r.Records
}

// incrementalRequest reads one resource a line: topic/NAME key=v key- key+=v
// key-=v; a null value is written key=null.
func incrementalRequest(text string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	for _, line := range inputLines(text) {
		f := strings.Fields(line)
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = parseResource(f[0])
		for _, op := range f[1:] {
			res.Configs = append(res.Configs, parseOp(op))
		}
		req.Resources = append(req.Resources, res)
	}
	return req
}

func parseOp(s string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	key, value, hasValue := strings.Cut(s, "=")
	if !hasValue {
		c.Name, c.Op = strings.TrimSuffix(key, "-"), kmsg.IncrementalAlterConfigOpDelete
		if strings.HasSuffix(key, "?") {
			c.Name, c.Op = strings.TrimSuffix(key, "?"), 9
		}
		return c
	}
	switch {
	case strings.HasSuffix(key, "+"):
		c.Op = kmsg.IncrementalAlterConfigOpAppend
	case strings.HasSuffix(key, "-"):
		c.Op = kmsg.IncrementalAlterConfigOpSubtract
	}
	c.Name = strings.TrimRight(key, "+-")
	switch value {
	case "null":
	case "huge":
		c.Value = kmsg.StringPtr(strings.Repeat("x", 40000))
	default:
		c.Value = &value
	}
	return c
}

// replace-configs reads one resource a line: topic/NAME key=v ...
func (w *world) replaceConfigs(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.ValidateOnly = a.has("validate-only")
	for _, line := range strings.Split(strings.TrimSpace(a.d.Input), "\n") {
		f := strings.Fields(line)
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = parseResource(f[0])
		for _, kv := range f[1:] {
			key, value, _ := strings.Cut(kv, "=")
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name = key
			if value != "null" {
				c.Value = &value
			}
			res.Configs = append(res.Configs, c)
		}
		req.Resources = append(req.Resources, res)
	}
	r := w.core.AlterConfigs(req)
	for _, res := range r.Response.Resources {
		fmt.Fprintf(out, "%d/%s: %s\n", res.ResourceType, res.ResourceName, codeLine(res.ErrorCode, res.ErrorMessage))
	}
	return r.Records
}

// alter-partition reads one partition a line:
// #t1 0 leaderEpoch=0 partitionEpoch=0 isr=1,2 [recovery=1]; isr members may
// carry epochs: isr=1@5,2. leaderEpoch and partitionEpoch default to now's.
func (w *world) alterPartition(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = int16(a.int("version", 3))
	req.BrokerID = int32(a.int("id", 1))
	req.BrokerEpoch = a.int("epoch", w.epoch(req.BrokerID))
	for _, line := range strings.Split(strings.TrimSpace(a.d.Input), "\n") {
		req.Topics = append(req.Topics, w.parseAlter(line, req.Version))
	}
	r := w.core.AlterPartition(req)
	if r.Response.ErrorCode != 0 {
		return result(out, r, r.Response.ErrorCode)
	}
	for _, t := range r.Response.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(out, "%s-%d: %s", idName(t.TopidID), p.Partition, codeLine(p.ErrorCode, nil))
			if p.ErrorCode == 0 {
				fmt.Fprintf(out, " leader=%d leaderEpoch=%d partitionEpoch=%d isr=%s recovery=%d",
					p.LeaderID, p.LeaderEpoch, p.PartitionEpoch, ints(p.ISR), p.LeaderRecoveryState)
			}
			out.WriteString("\n")
		}
	}
	return r.Records
}

func (w *world) parseAlter(line string, version int16) kmsg.AlterPartitionRequestTopic {
	f := strings.Fields(line)
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID = id(f[0][1:])
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	n, _ := strconv.Atoi(f[1])
	p.Partition = int32(n)
	if part, ok := w.core.Image().Topics.Partition(t.TopicID, p.Partition); ok {
		p.LeaderEpoch, p.PartitionEpoch = part.LeaderEpoch, part.PartitionEpoch
	}
	for _, kv := range f[2:] {
		key, value, _ := strings.Cut(kv, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "leaderEpoch":
			p.LeaderEpoch = int32(n)
		case "partitionEpoch":
			p.PartitionEpoch = int32(n)
		case "recovery":
			p.LeaderRecoveryState = int8(n)
		case "isr":
			for _, m := range strings.Split(value, ",") {
				who, epoch, has := strings.Cut(m, "@")
				b, _ := strconv.Atoi(who)
				e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
				e.BrokerID, e.BrokerEpoch = int32(b), w.epoch(int32(b))
				if has {
					e.BrokerEpoch, _ = strconv.ParseInt(epoch, 10, 64)
				}
				p.NewEpochISR = append(p.NewEpochISR, e)
				if version < 3 {
					p.NewISR = append(p.NewISR, int32(b))
				}
			}
		}
	}
	t.Partitions = append(t.Partitions, p)
	return t
}

// electRequest reads one topic a line: name 0,1
func electRequest(text string, kind int8) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.TimeoutMillis, req.ElectionType = 2, 10_000, kind
	req.Topics = []kmsg.ElectLeadersRequestTopic{}
	for _, line := range inputLines(text) {
		if f := strings.Fields(line); len(f) == 2 {
			t := kmsg.NewElectLeadersRequestTopic()
			t.Topic, t.Partitions = f[0], parseInts(f[1])
			req.Topics = append(req.Topics, t)
		}
	}
	return req
}

// elect type=preferred|unclean|N [all]
func (w *world) elect(a args, out *strings.Builder) recs {
	kind := map[string]int64{"preferred": 0, "unclean": 1}[a.str("type", "")]
	if kind == 0 && a.str("type", "preferred") != "preferred" {
		kind = a.int("type", 0)
	}
	req := electRequest(a.d.Input, int8(kind))
	if a.has("all") {
		req.Topics = nil
	}
	r := w.core.ElectLeaders(req)
	fmt.Fprintf(out, "%s\n", codeLine(r.Response.ErrorCode, nil))
	for _, t := range r.Response.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(out, "%s-%d: %s\n", t.Topic, p.Partition, codeLine(p.ErrorCode, p.ErrorMessage))
		}
	}
	return r.Records
}

// assign-dirs reads: dir #topic partition
func (w *world) assignDirs(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID = int32(a.int("id", 1))
	req.BrokerEpoch = a.int("epoch", w.epoch(req.BrokerID))
	for _, line := range strings.Split(strings.TrimSpace(a.d.Input), "\n") {
		f := strings.Fields(line)
		d := kmsg.NewAssignReplicasToDirsRequestDirectory()
		d.ID = id(f[0])
		t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
		t.TopicID = id(f[1][1:])
		p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		n, _ := strconv.Atoi(f[2])
		p.Partition = int32(n)
		t.Partitions = append(t.Partitions, p)
		d.Topics = append(d.Topics, t)
		req.Directories = append(req.Directories, d)
	}
	r := w.core.AssignReplicasToDirs(req)
	for _, d := range r.Response.Directories {
		for _, t := range d.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(out, "%s %s-%d: %s\n", idName(d.ID), idName(t.TopicID), p.Partition, codeLine(p.ErrorCode, nil))
			}
		}
	}
	return result(out, r, r.Response.ErrorCode)
}

func (w *world) reassignments(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	if name := a.str("topic", ""); name != "" {
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = name, parseInts(a.str("partitions", "0"))
		req.Topics = append(req.Topics, t)
	}
	r := w.core.ListPartitionReassignments(req)
	for _, t := range r.Response.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(out, "%s-%d replicas=%s adding=%s removing=%s\n", t.Topic, p.Partition,
				ints(p.Replicas), ints(p.AddingReplicas), ints(p.RemovingReplicas))
		}
	}
	return nil
}

// inject appends a partition change as another controller might have written it:
// inject topic=t1 partition=0 [isr=] [leader=] [replicas=] [adding=] [removing=] [elr=] [last=] [recovery=]
func (w *world) inject(a args, _ *strings.Builder) recs {
	r := recordschema.NewPartitionChange()
	r.TopicID, r.PartitionID = id(a.str("topic", "t1")), int32(a.int("partition", 0))
	set := func(key string, into *[]int32) {
		if a.has(key) {
			*into = nonNil(parseInts(a.str(key, "")))
		}
	}
	set("isr", &r.ISR)
	set("replicas", &r.Replicas)
	set("adding", &r.AddingReplicas)
	set("removing", &r.RemovingReplicas)
	set("elr", &r.EligibleLeaderReplicas)
	set("last", &r.LastKnownElr)
	r.Leader = int32(a.int("leader", int64(recordschema.LeaderUnchanged)))
	r.LeaderRecoveryState = int8(a.int("recovery", -1))
	if r.Replicas != nil {
		for _, b := range r.Replicas {
			r.Directories = append(r.Directories, id(fmt.Sprintf("dir%d", b)))
		}
	}
	return recs{r}
}

// featuresRequest reads one update a line: name level [type]
func featuresRequest(text string) *kmsg.UpdateFeaturesRequest {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	for _, line := range inputLines(text) {
		f := strings.Fields(line)
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature = f[0]
		n, _ := strconv.Atoi(f[1])
		u.MaxVersionLevel, u.UpgradeType = int16(n), 1
		if len(f) > 2 {
			kind, _ := strconv.Atoi(f[2])
			u.UpgradeType = int8(kind)
			u.AllowDowngrade = kind == 2
		}
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	return req
}

func (w *world) features(a args, out *strings.Builder) recs {
	req := featuresRequest(a.d.Input)
	req.Version = int16(a.int("version", 2))
	req.ValidateOnly = a.has("validate-only")
	r := w.core.UpdateFeatures(req)
	fmt.Fprintf(out, "%s (%d results)\n", codeLine(r.Response.ErrorCode, r.Response.ErrorMessage), len(r.Response.Results))
	return r.Records
}

func (w *world) producerIDs(a args, out *strings.Builder) recs {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID = int32(a.int("id", 1))
	req.BrokerEpoch = a.int("epoch", w.epoch(req.BrokerID))
	r := w.core.AllocateProducerIDs(req)
	fmt.Fprintf(out, "start=%d len=%d ", r.Response.ProducerIDStart, r.Response.ProducerIDLen)
	return result(out, r, r.Response.ErrorCode)
}

// show prints the state: show [brokers] [topic=t1] or everything.
func (w *world) show(a args, out *strings.Builder) recs {
	want := a.str("only", "")
	for _, line := range strings.Split(strings.TrimSpace(dumpImage(w.core.Image())), "\n") {
		if want == "" || strings.HasPrefix(line, want) {
			out.WriteString(line + "\n")
		}
	}
	return nil
}
