package controller

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// TestBootstrapEqualsKafka431: with Kafka's features the bootstrap records are,
// byte for byte, those at offsets 3-11 of a log that Kafka 4.3.1 started.
func TestBootstrapEqualsKafka431(t *testing.T) {
	features := map[string]int16{
		"metadata.version": 30, "eligible.leader.replicas.version": 1, "group.version": 1,
		"share.version": 1, "streams.version": 1, "transaction.version": 2,
	}
	want, err := os.ReadFile("../../recordschema/testdata/kafka-4.3.1/00000000000000000000.log")
	if err != nil {
		t.Fatal(err)
	}
	first := int(binary.BigEndian.Uint32(want[8:])) + 12 // the control batch
	second := want[first : first+int(binary.BigEndian.Uint32(want[first+8:]))+12]
	at := 0
	for i, r := range BootstrapRecords(BootstrapInput{Features: features}) {
		frame := recordschema.AppendFrame(nil, r)
		n := bytes.Index(second[at:], frame)
		if n < 0 {
			t.Fatalf("record %d (%s) is not where Kafka has it", i, formatRecord(r))
		}
		at += n + len(frame)
	}
	if rest := len(second) - at; rest != 1 { // the last record's header count
		t.Errorf("%d bytes follow the last record, want 1", rest)
	}
}

func TestDefaultFeatures(t *testing.T) {
	got := formatAll(BootstrapRecords(BootstrapInput{MinISR: 2}))
	want := "BEGIN_TRANSACTION_RECORD\nFeatureLevel metadata.version=30\nFeatureLevel eligible.leader.replicas.version=1\n" +
		"FeatureLevel group.version=1\nConfig BROKER/\"\" min.insync.replicas=2\nEND_TRANSACTION_RECORD\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	supported := SupportedFeatures()
	for name, level := range DefaultFeatures() {
		if r := supported[name]; level < r.Min || level > r.Max {
			t.Errorf("%s starts at %d, supported are %+v", name, level, r)
		}
	}
	scram := []*recordschema.UserScramCredentialRecord{{Name: "u"}}
	if n := len(BootstrapSnapshotRecords(BootstrapInput{Scram: scram})); n != 4 {
		t.Errorf("%d records in the bootstrap snapshot, want 4", n)
	}
}

func TestCheckFeatures(t *testing.T) {
	im := newWorld(Options{}, true).core.Image()
	if err := CheckFeatures(im, SupportedFeatures()); err != nil {
		t.Error(err)
	}
	older := map[string]image.FeatureRange{image.FeatureMetadataVersion: {Min: 7, Max: 29}}
	if err := CheckFeatures(im, older); err == nil || !strings.Contains(err.Error(), "levels") {
		t.Errorf("an older software: %v", err)
	}
}

// restart makes a core from the image, as a new leader does.
func (w *world) restart(opts Options) {
	w.core = New(w.delta.Image(w.next()-1, 1), opts, w.nowMs)
}

func (w *world) mustRegister(t *testing.T, broker int32, incarnation string) kerrors.Code {
	t.Helper()
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.ClusterID, req.IncarnationID = 4, broker, w.opts.ClusterID, id(incarnation)
	req.LogDirs = [][16]byte{id("dir")}
	for name, r := range SupportedFeatures() {
		f := kmsg.NewBrokerRegistrationRequestFeature()
		f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = name, r.Min, r.Max
		req.Features = append(req.Features, f)
	}
	r := w.core.RegisterBroker(RegisterBrokerInput{NowMs: w.nowMs, Req: req, NextOffset: w.next()})
	if err := w.append(r.Records); err != nil {
		t.Fatal(err)
	}
	return kerrors.Code(r.Response.ErrorCode)
}

func (w *world) beat(t *testing.T, broker int32) {
	t.Helper()
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = broker, w.epoch(broker), w.next()-1
	r := w.core.BrokerHeartbeat(BrokerHeartbeatInput{NowMs: w.nowMs, Req: req, NextOffset: w.next()})
	if r.Response.ErrorCode != 0 {
		t.Fatalf("heartbeat: %d", r.Response.ErrorCode)
	}
	if err := w.append(r.Records); err != nil {
		t.Fatal(err)
	}
}

// TestNewLeaderAssumesSessions: after a change of controller an unfenced broker
// has a full session before it. The broker of this very node may register again
// until it is heard of: after a restart of the process its last life is over.
func TestNewLeaderAssumesSessions(t *testing.T) {
	w := newWorld(Options{NodeID: 9, ClusterID: "c"}, true)
	if code := w.mustRegister(t, 1, "first"); code != kerrors.None {
		t.Fatal(code)
	}
	w.beat(t, 1)
	w.nowMs = 100_000
	w.restart(w.opts)
	if code := w.mustRegister(t, 1, "second"); code != kerrors.DuplicateBrokerRegistration {
		t.Errorf("another incarnation at once: %v", code)
	}
	if got, want := w.core.NextTickMs(), int64(109_001); got != want {
		t.Errorf("next tick at %d, want %d", got, want)
	}
	w.opts.NodeID = 1
	w.restart(w.opts)
	if got, want := w.core.NextTickMs(), int64(109_001); got != want {
		t.Errorf("next tick with a silent broker of this node at %d, want %d", got, want)
	}
	if code := w.mustRegister(t, 1, "second"); code != kerrors.None {
		t.Errorf("this node's broker after a restart of the process: %v", code)
	}
	if b, _ := w.core.Image().Cluster.Broker(1); !b.Fenced {
		t.Error("a registered broker starts fenced")
	}
	w.beat(t, 1)
	if code := w.mustRegister(t, 1, "impostor"); code != kerrors.DuplicateBrokerRegistration {
		t.Errorf("another incarnation of this node's broker while it lives: %v", code)
	}
}

// TestNewLeaderUnfencesOnlyCaughtUp: the offset a fenced broker must have read
// survives a change of controller.
func TestNewLeaderUnfencesOnlyCaughtUp(t *testing.T) {
	w := newWorld(Options{NodeID: 9, ClusterID: "c"}, true)
	w.mustRegister(t, 1, "first")
	w.restart(w.opts)
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = 1, w.epoch(1), w.epoch(1)-1
	in := BrokerHeartbeatInput{Req: req, NextOffset: w.next()}
	if r := w.core.BrokerHeartbeat(in); !r.Response.IsFenced || r.Response.IsCaughtUp {
		t.Errorf("behind its registration: %+v", r.Response)
	}
	req.CurrentMetadataOffset = w.next() - 1
	if r := w.core.BrokerHeartbeat(in); r.Response.IsFenced || !r.Response.IsCaughtUp {
		t.Errorf("caught up: %+v", r.Response)
	}
}

func TestRegisterController(t *testing.T) {
	w := newWorld(Options{NodeID: 1, ClusterID: "c", Voters: []int32{1, 2}, KRaftVersion: 1}, true)
	update := kmsg.NewPtrUpdateFeaturesRequest()
	update.Version = 2
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = image.FeatureGroupVersion, 0, upgradeTypeSafeDowngrade
	update.FeatureUpdates = append(update.FeatureUpdates, u)
	if r := w.core.UpdateFeatures(update); !strings.Contains(orNull(r.Response.ErrorMessage), "controller 2 has not registered") {
		t.Errorf("before controller 2 registers: %s", orNull(r.Response.ErrorMessage))
	}
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.ControllerID, req.IncarnationID = 2, id("inc")
	l := kmsg.NewControllerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "CONTROLLER", "h", 9093
	req.Listeners = append(req.Listeners, l)
	if err := w.append(w.core.RegisterController(req).Records); err != nil {
		t.Fatal(err)
	}
	ctl, ok := w.core.Image().Cluster.Controller(2)
	if !ok || len(ctl.Endpoints) != 1 || ctl.Endpoints[0].Port != 9093 {
		t.Errorf("registered %+v", ctl)
	}
	// It supports no feature, so nothing above 0 can be set, but 0 can.
	if r := w.core.UpdateFeatures(update); r.Response.ErrorCode != 0 {
		t.Errorf("after: %s", orNull(r.Response.ErrorMessage))
	}
	// kraft.version 1 is finalized by the quorum: brokers must name it.
	breq := kmsg.NewPtrBrokerRegistrationRequest()
	breq.Version, breq.BrokerID, breq.ClusterID, breq.IncarnationID = 4, 5, "c", id("i")
	breq.LogDirs = [][16]byte{id("dir")}
	for name, r := range SupportedFeatures() {
		if name == image.FeatureKRaftVersion {
			continue
		}
		f := kmsg.NewBrokerRegistrationRequestFeature()
		f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = name, r.Min, r.Max
		breq.Features = append(breq.Features, f)
	}
	r := w.core.RegisterBroker(RegisterBrokerInput{Req: breq, NextOffset: w.next()})
	if r.Response.ErrorCode != int16(kerrors.UnsupportedVersion) || !strings.Contains(r.Refused, "kraft.version") {
		t.Errorf("a broker without kraft.version: %d %s", r.Response.ErrorCode, r.Refused)
	}
}

// TestReplayErrors: a record that contradicts the state is reported, and the
// indexes stay as they were.
func TestReplayErrors(t *testing.T) {
	w := newWorld(Options{ClusterID: "c"}, true)
	before := formatIndex(w.core)
	bad := recs{
		&recordschema.RemoveTopicRecord{TopicID: id("t")},
		&recordschema.PartitionRecord{TopicID: id("t")},
		&recordschema.UnregisterBrokerRecord{BrokerID: 4},
		&recordschema.BrokerRegistrationChangeRecord{BrokerID: 4},
	}
	for _, rec := range bad {
		if err := w.core.Replay(rec, 50); !errors.Is(err, image.ErrReplay) {
			t.Errorf("%s: %v", formatRecord(rec), err)
		}
	}
	if after := formatIndex(w.core); after != before {
		t.Errorf("index changed to %s", after)
	}
}

// TestTopicIDsAreFresh: an id that a live topic has, or a reserved one, is drawn
// again; a source that repeats itself is an error, not a loop.
func TestTopicIDsAreFresh(t *testing.T) {
	w := newWorld(Options{ClusterID: "c"}, true)
	w.mustRegister(t, 1, "i")
	w.beat(t, 1)
	create := func(name string, ids ...types.UUID) kmsg.CreateTopicsResponseTopic {
		req := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, 1, 1
		req.Topics = append(req.Topics, rt)
		r := w.core.CreateTopics(CreateTopicsInput{Req: req, NewID: func() types.UUID {
			next := ids[0]
			if len(ids) > 1 {
				ids = ids[1:]
			}
			return next
		}})
		if err := w.append(r.Records); err != nil {
			t.Fatal(err)
		}
		return r.Response.Topics[0]
	}
	if got := create("a", id("x")); got.TopicID != [16]byte(id("x")) {
		t.Errorf("a: %+v", got)
	}
	if got := create("b", id("x"), types.MetadataTopicID, id("y")); got.TopicID != [16]byte(id("y")) {
		t.Errorf("b: %+v", got)
	}
	if got := create("c", id("y")); got.ErrorCode != int16(kerrors.UnknownServerError) {
		t.Errorf("c: %+v", got)
	}
}

// TestCreateTopicsBatchBound: one record more than Kafka's bound refuses the
// whole request (BoundedListTooLongException).
func TestCreateTopicsBatchBound(t *testing.T) {
	w := newWorld(Options{ClusterID: "c"}, true)
	w.mustRegister(t, 1, "i")
	w.beat(t, 1)
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "a", maxPartitionsPerRequest, 1
	req.Topics = append(req.Topics, rt)
	r := w.core.CreateTopics(CreateTopicsInput{Req: req, NewID: w.newID})
	if len(r.Records) != 0 || r.Response.Topics[0].ErrorCode != int16(kerrors.PolicyViolation) {
		t.Errorf("%d records, code %d", len(r.Records), r.Response.Topics[0].ErrorCode)
	}
	req.Topics[0].NumPartitions--
	r = w.core.CreateTopics(CreateTopicsInput{Req: req, NewID: w.newID})
	if len(r.Records) != maxRecordsPerUserOp || r.Response.Topics[0].ErrorCode != 0 {
		t.Errorf("%d records, code %d", len(r.Records), r.Response.Topics[0].ErrorCode)
	}
}

// BenchmarkHeartbeat is the controller's most frequent command.
func BenchmarkHeartbeat(b *testing.B) {
	w := newWorld(Options{ClusterID: "c"}, true)
	t := &testing.T{}
	w.mustRegister(t, 1, "i")
	w.beat(t, 1)
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset = 1, w.epoch(1), w.next()-1
	b.ReportAllocs()
	for b.Loop() {
		w.core.BrokerHeartbeat(BrokerHeartbeatInput{Req: req, NextOffset: w.next()})
	}
}
