package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// machine drives a core with random commands, the way a shell would, and keeps
// a follower that sees the same log in batches through image.Delta.
type machine struct {
	*world
	t   *rapid.T
	rng *rand.Rand

	elrEver  bool
	follower *image.Image
	pending  int // log offset up to which follower has read
	incs     int
	lastIDs  map[types.UUID]bool // every topic id ever seen
	epochs   map[partKey][2]int32
}

// newMachine starts with three brokers up, so that there is much to go wrong.
// Choices come from a generator seeded by rapid: rapid's own draws lean to small
// values and would rarely leave the shallows; the number of steps still shrinks.
func newMachine(t *rapid.T) *machine {
	seed := rapid.Uint64().Draw(t, "seed")
	m := &machine{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), follower: image.Empty(),
		lastIDs: map[types.UUID]bool{}, epochs: map[partKey][2]int32{},
	}
	m.elrEver = m.chance(2)
	m.world = newWorld(Options{NodeID: 1, ClusterID: "cluster", Configs: testSchema{}}, m.elrEver)
	for b := range int32(3) {
		m.apply(m.register(b+1, false))
		m.apply(m.heartbeat(b+1, func(*kmsg.BrokerHeartbeatRequest) {}))
	}
	return m
}

// between draws from lo to hi, both included.
func (m *machine) between(lo, hi int) int { return lo + m.rng.IntN(hi-lo+1) }

// chance is true one time in n.
func (m *machine) chance(n int) bool { return m.rng.IntN(n) == 0 }

func pick[T any](m *machine, from []T) T { return from[m.rng.IntN(len(from))] }

// replicas draws three of the four brokers.
func (m *machine) replicas() []int32 {
	out := []int32{1, 2, 3, 4}
	m.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:3]
}

func (m *machine) apply(records recs) {
	if err := m.append(records); err != nil {
		m.t.Fatalf("replay: %v", err)
	}
	m.elrEver = m.elrEver || m.core.Image().Features.ELREnabled()
	m.checkPartitions()
}

func (m *machine) broker() int32 { return int32(m.between(1, 4)) }

func (m *machine) step() {
	steps := []func() recs{
		m.stepRegister, m.stepHeartbeat, m.stepHeartbeat, m.stepHeartbeat, m.stepCreate, m.stepDelete, m.stepGrow,
		m.stepConfig, m.stepAlter, m.stepAlter, m.stepElect, m.stepTick, m.stepUnregister, m.stepDirs, m.stepFeatures,
	}
	m.apply(pick(m, steps)())
}

func (m *machine) stepRegister() recs { return m.register(m.broker(), m.chance(2)) }

func (m *machine) register(broker int32, same bool) recs {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version = int16(m.between(2, 4))
	req.BrokerID = broker
	req.ClusterID = "cluster"
	m.incs++
	req.IncarnationID = id("inc" + strconv.Itoa(m.incs))
	if b, ok := m.core.Image().Cluster.Broker(req.BrokerID); ok {
		if same {
			req.IncarnationID = b.IncarnationID
		}
		if m.chance(2) {
			req.PreviousBrokerEpoch = b.Epoch
		}
	}
	for i := range m.between(1, 2) {
		req.LogDirs = append(req.LogDirs, id(fmt.Sprintf("dir%d%c", req.BrokerID, 'a'+i)))
	}
	for name, r := range SupportedFeatures() {
		f := kmsg.NewBrokerRegistrationRequestFeature()
		f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = name, r.Min, r.Max
		req.Features = append(req.Features, f)
	}
	slices.SortFunc(req.Features, func(a, b kmsg.BrokerRegistrationRequestFeature) int { return strings.Compare(a.Name, b.Name) })
	return m.core.RegisterBroker(RegisterBrokerInput{NowMs: m.nowMs, Req: req, NextOffset: m.next()}).Records
}

func (m *machine) stepHeartbeat() recs {
	return m.heartbeat(m.broker(), func(req *kmsg.BrokerHeartbeatRequest) {
		req.CurrentMetadataOffset -= int64(pick(m, []int{0, 0, 0, 1, 5}))
		req.WantFence = m.chance(8)
		req.WantShutdown = m.chance(8)
		dir := id(fmt.Sprintf("dir%da", req.BrokerID))
		if m.chance(12) {
			req.OfflineLogDirs = raw([]types.UUID{dir})
		}
		if m.chance(8) {
			req.CordonedLogDirs = raw([]types.UUID{dir})
		}
	})
}

func (m *machine) heartbeat(broker int32, tweak func(*kmsg.BrokerHeartbeatRequest)) recs {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch = broker, m.epoch(broker)
	req.CurrentMetadataOffset = m.next() - 1
	tweak(req)
	in := BrokerHeartbeatInput{NowMs: m.nowMs, Req: req, NextOffset: m.next()}
	first := m.core.BrokerHeartbeat(in)
	again := m.core.BrokerHeartbeat(in)
	if a, b := formatAll(first.Records), formatAll(again.Records); a != b {
		m.t.Fatalf("a heartbeat run twice planned\n%s\nthen\n%s", a, b)
	}
	return again.Records
}

func formatAll(records recs) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(formatRecord(r) + "\n")
	}
	return b.String()
}

func (m *machine) stepCreate() recs {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	for range m.between(1, 2) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = pick(m, []string{"a", "b", "c.d", "c_d", "e"})
		t.NumPartitions, t.ReplicationFactor = -1, -1
		if m.chance(2) {
			for i := range m.between(1, 3) {
				as := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				as.Partition = int32(i)
				as.Replicas = m.replicas()
				t.ReplicaAssignment = append(t.ReplicaAssignment, as)
			}
		} else {
			t.NumPartitions = int32(m.between(0, 4))
			t.ReplicationFactor = int16(m.between(-1, 4))
		}
		if m.chance(2) {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = configMinISR, kmsg.StringPtr("2")
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
	}
	return m.core.CreateTopics(CreateTopicsInput{Req: req, NewID: m.newID, Random: m.rng.Uint64()}).Records
}

// topic picks a live topic; nil when there is none.
func (m *machine) topic() *image.Topic {
	var topics []*image.Topic
	for t := range m.core.Image().Topics.All() {
		topics = append(topics, t)
	}
	if len(topics) == 0 {
		return nil
	}
	return pick(m, topics)
}

func (m *machine) stepDelete() recs {
	t := m.topic()
	if t == nil {
		return nil
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	if m.chance(2) {
		rt.TopicID = t.ID
	} else {
		rt.Topic = &t.Name
	}
	req.Topics = append(req.Topics, rt)
	return m.core.DeleteTopics(req).Records
}

func (m *machine) stepGrow() recs {
	t := m.topic()
	if t == nil {
		return nil
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = t.Name, int32(len(t.Partitions)+m.between(-1, 2))
	req.Topics = append(req.Topics, rt)
	return m.core.CreatePartitions(CreatePartitionsInput{Req: req}).Records
}

func (m *machine) stepConfig() recs {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, pick(m, []string{"", "1"})
	if t := m.topic(); t != nil && m.chance(2) {
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t.Name
	}
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name = configUncleanElection
	c.Value = kmsg.StringPtr(pick(m, []string{"true", "false"}))
	if m.chance(2) {
		c.Name, c.Value = configMinISR, kmsg.StringPtr(strconv.Itoa(m.between(1, 3)))
	}
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	return m.core.IncrementalAlterConfigs(req).Records
}

func (m *machine) stepAlter() recs {
	t := m.topic()
	if t == nil {
		return nil
	}
	i := m.between(0, len(t.Partitions)-1)
	part := t.Partitions[i]
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = 3
	req.BrokerID = part.Leader
	if m.chance(10) {
		req.BrokerID = m.broker()
	}
	req.BrokerEpoch = m.epoch(req.BrokerID)
	rt := kmsg.NewAlterPartitionRequestTopic()
	rt.TopicID = t.ID
	rp := kmsg.NewAlterPartitionRequestTopicPartition()
	rp.Partition = int32(i)
	rp.LeaderEpoch = part.LeaderEpoch + int32(pick(m, []int{0, 0, 0, 0, -1, 1}))
	rp.PartitionEpoch = part.PartitionEpoch + int32(pick(m, []int{0, 0, 0, 0, -1, 1}))
	rp.LeaderRecoveryState = int8(pick(m, []int{0, 0, 0, 1}))
	for _, b := range part.Replicas {
		if b == part.Leader || m.chance(2) {
			e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			e.BrokerID, e.BrokerEpoch = b, m.epoch(b)
			rp.NewEpochISR = append(rp.NewEpochISR, e)
		}
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return m.core.AlterPartition(req).Records
}

func (m *machine) stepElect() recs {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version = 2
	req.ElectionType = int8(m.between(0, 1))
	return m.core.ElectLeaders(req).Records
}

func (m *machine) stepTick() recs {
	m.nowMs += int64(pick(m, []int{0, 500, 5000, 20000, 300000}))
	return m.core.Tick(m.nowMs).Records
}

func (m *machine) stepUnregister() recs {
	if !m.chance(4) {
		return nil
	}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = m.broker()
	return m.core.UnregisterBroker(req).Records
}

func (m *machine) stepDirs() recs {
	t := m.topic()
	if t == nil {
		return nil
	}
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID = m.broker()
	req.BrokerEpoch = m.epoch(req.BrokerID)
	d := kmsg.NewAssignReplicasToDirsRequestDirectory()
	d.ID = id(pick(m, []string{fmt.Sprintf("dir%da", req.BrokerID), fmt.Sprintf("dir%db", req.BrokerID), "lost"}))
	rt := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
	rt.TopicID = t.ID
	rp := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
	rp.Partition = int32(m.between(0, len(t.Partitions)-1))
	rt.Partitions = append(rt.Partitions, rp)
	d.Topics = append(d.Topics, rt)
	req.Directories = append(req.Directories, d)
	return m.core.AssignReplicasToDirs(req).Records
}

func (m *machine) stepFeatures() recs {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version = 2
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature = image.FeatureEligibleLeaderReplicas
	u.MaxVersionLevel = int16(m.between(0, 1))
	u.UpgradeType = int8(m.between(1, 2))
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	return m.core.UpdateFeatures(req).Records
}

// checkPartitions checks what must hold after every command.
func (m *machine) checkPartitions() {
	im := m.core.Image()
	for t := range im.Topics.All() {
		if len(t.Partitions) == 0 {
			m.t.Fatalf("topic %s has no partitions", t.Name)
		}
		for i, p := range t.Partitions {
			k := partKey{t.ID, int32(i)}
			if why := m.wrong(im, k, p); why != "" {
				m.t.Fatalf("%s-%d: %s: %+v", t.Name, i, why, *p)
			}
			m.epochs[k] = [2]int32{p.LeaderEpoch, p.PartitionEpoch}
		}
		m.lastIDs[t.ID] = true
	}
	for id := range m.lastIDs {
		if _, ok := im.Topics.ByID(id); !ok && m.lastIDs[id] {
			m.lastIDs[id] = false // gone, and must stay so
		} else if ok && !m.lastIDs[id] {
			m.t.Fatalf("topic id %s is used again", idName(id))
		}
	}
}

func (m *machine) wrong(im *image.Image, k partKey, p *image.Partition) string {
	last := m.epochs[k]
	switch {
	case p.Leader != -1 && !p.InISR(p.Leader):
		return "the leader is not in the ISR"
	case p.Leader != -1 && !m.core.isActive(p.Leader):
		return "the leader is not active"
	case !validISR(p.Replicas, p.ISR) || !validISR(p.Replicas, p.ELR):
		return "ISR or ELR is not a set of replicas"
	case slices.ContainsFunc(p.ISR, func(b int32) bool { return slices.Contains(p.ELR, b) }):
		return "ISR and ELR overlap"
	case len(p.Directories) != len(p.Replicas):
		return "directories are not aligned"
	case p.LeaderEpoch < last[0] || p.PartitionEpoch < last[1]:
		return fmt.Sprintf("an epoch fell below %v", last)
	case !m.elrEver && len(p.ISR) == 0:
		return "the ISR is empty without ELR ever having been on"
	}
	return ""
}

// follow lets the follower read a batch of the log and checks that the delta
// reports what changed, no more and no less than it may.
func (m *machine) follow() {
	n := m.between(0, len(m.log)-m.pending)
	d := image.NewDelta(m.follower)
	for i := range n {
		if err := d.Replay(m.log[m.pending+i], int64(m.pending+i)); err != nil {
			m.t.Fatalf("delta: %v", err)
		}
	}
	m.pending += n
	next := d.Apply(int64(m.pending-1), 1)
	changed := map[partKey]bool{}
	for c := range d.ChangedTopics() {
		for pc := range c.Partitions() {
			changed[partKey{c.After.ID, pc.ID}] = true
		}
	}
	for t := range next.Topics.All() {
		for i, p := range t.Partitions {
			before, _ := m.follower.Topics.Partition(t.ID, int32(i))
			if k := (partKey{t.ID, int32(i)}); changed[k] != (before != p) {
				m.t.Fatalf("%s-%d: delta says changed=%v", t.Name, i, changed[k])
			}
		}
	}
	deleted := map[types.UUID]bool{}
	for t := range d.DeletedTopics() {
		deleted[t.ID] = true
	}
	for t := range m.follower.Topics.All() {
		if _, alive := next.Topics.ByID(t.ID); alive == deleted[t.ID] {
			m.t.Fatalf("%s: delta says deleted=%v", t.Name, deleted[t.ID])
		}
	}
	m.follower = next
}

// TestRandomCommands: state is a function of the log, for the core, for a
// follower and through a snapshot; partitions keep their invariants.
func TestRandomCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range 1 + 10*rapid.IntRange(0, 20).Draw(t, "tens of steps") {
			m.step()
			if m.chance(4) {
				m.follow()
			}
		}
		for m.pending < len(m.log) {
			m.follow()
		}
		want := dumpImage(m.core.Image())
		if got := dumpImage(m.follower); got != want {
			t.Fatalf("follower:\n%s\nwant\n%s", got, want)
		}
		checkIndex(t, m.core)
		snapshot := image.NewSnapshotDelta(image.Empty())
		image.WriteRecords(m.core.Image(), func(r recordschema.MetadataRecord) bool {
			if err := snapshot.Replay(r, 0); err != nil {
				t.Fatalf("snapshot: %v", err)
			}
			return true
		})
		if got := dumpImage(snapshot.Apply(m.next()-1, 1)); got != want {
			t.Fatalf("snapshot:\n%s\nwant\n%s", got, want)
		}
	})
}
