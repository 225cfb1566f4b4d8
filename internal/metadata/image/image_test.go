package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// goldenDir holds files that Apache Kafka 4.3.1 wrote.
const goldenDir = "../../recordschema/testdata/kafka-4.3.1"

type logRecord struct {
	offset int64
	rec    recordschema.MetadataRecord
}

// readGolden reads the data records of an uncompressed segment or snapshot.
func readGolden(t testing.TB, name string) []logRecord {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err != nil {
		t.Fatal(err)
	}
	var out []logRecord
	for len(b) > 0 {
		base := int64(binary.BigEndian.Uint64(b))
		size := int(binary.BigEndian.Uint32(b[8:])) + 12
		body := b[:size]
		b = b[size:]
		if body[22]&0x20 != 0 {
			continue // control batch
		}
		rest := body[61:]
		for i := range int64(binary.BigEndian.Uint32(body[57:])) {
			n, w := binary.Varint(rest)
			rec, err := recordschema.ParseFrame(recordValue(rest[w : w+int(n)]))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, logRecord{base + i, rec})
			rest = rest[w+int(n):]
		}
	}
	return out
}

func recordValue(b []byte) []byte {
	b = b[1:]
	for range 3 { // deltas, and the null key
		_, w := binary.Varint(b)
		b = b[w:]
	}
	n, w := binary.Varint(b)
	return b[w : w+int(n)]
}

func records(im *Image) []recordschema.MetadataRecord {
	var out []recordschema.MetadataRecord
	WriteRecords(im, func(r recordschema.MetadataRecord) bool { out = append(out, r); return true })
	return out
}

// sorted undoes the order of Kafka's hash maps inside a registration.
func sorted(recs []recordschema.MetadataRecord) []recordschema.MetadataRecord {
	for _, r := range recs {
		var f []recordschema.NodeFeature
		switch r := r.(type) {
		case *recordschema.RegisterBrokerRecord:
			f = r.Features
		case *recordschema.RegisterControllerRecord:
			f = r.Features
		}
		slices.SortFunc(f, func(a, b recordschema.NodeFeature) int { return strings.Compare(a.Name, b.Name) })
	}
	return recs
}

func replayAll(t testing.TB, d *Delta, recs []logRecord) {
	t.Helper()
	for _, r := range recs {
		if err := d.Replay(r.rec, r.offset); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGoldenLogEqualsSnapshot: Kafka's log up to offset 88 and the snapshot that
// Kafka took there are the same image.
func TestGoldenLogEqualsSnapshot(t *testing.T) {
	const end = 88
	log := readGolden(t, "00000000000000000000.log")
	log = slices.DeleteFunc(log, func(r logRecord) bool { return r.offset >= end })
	fromLog := NewDelta(Empty())
	replayAll(t, fromLog, log)
	a := fromLog.Apply(end-1, 1)
	fromSnapshot := NewSnapshotDelta(Empty())
	replayAll(t, fromSnapshot, readGolden(t, fmt.Sprintf("%020d-%010d.checkpoint", end, 1)))
	b := fromSnapshot.Apply(end-1, 1)
	if d := cmp.Diff(sorted(records(a)), sorted(records(b))); d != "" {
		t.Errorf("log against snapshot (-log +snapshot):\n%s", d)
	}
	if a.Topics.Len() != 2 || a.Topics.PartitionCount() != 6 {
		t.Errorf("%d topics, %d partitions; want 2, 6", a.Topics.Len(), a.Topics.PartitionCount())
	}
	orders, ok := a.Topics.ByName("orders")
	if !ok || len(orders.Partitions) != 5 || a.Configs.Get(ResourceTopic, "orders")["max.message.bytes"] != "2000000" {
		t.Errorf("orders is %+v with %v", orders, a.Configs.Get(ResourceTopic, "orders"))
	}
	if _, ok := a.Topics.ByName("gone"); ok {
		t.Error("topic gone was deleted")
	}
}

// TestSnapshotRoundTrip: what WriteRecords writes reads back as the same image,
// metadata.version first.
func TestSnapshotRoundTrip(t *testing.T) {
	d := NewDelta(Empty())
	replayAll(t, d, readGolden(t, "00000000000000000000.log"))
	user, name := "user", "x\x00y"
	grown, away := partition(topicB, 1), recordschema.NewPartitionChange()
	grown.GrownTimeMs = 77 // outlives changes and snapshots
	away.TopicID, away.PartitionID, away.Leader = topicB, 1, 2
	for _, r := range []recordschema.MetadataRecord{
		&recordschema.ClientQuotaRecord{Entity: []recordschema.QuotaEntity{{EntityType: user, EntityName: &name}}, QuotaKey: "a", Value: 1},
		&recordschema.ClientQuotaRecord{Entity: []recordschema.QuotaEntity{{EntityType: user}}, QuotaKey: "a", Value: 2},
		&recordschema.DelegationTokenRecord{Owner: "o", TokenID: "t", ExpirationTimestamp: 5},
		&recordschema.TopicRecord{Name: "grown", TopicID: topicB}, partition(topicB, 0), grown, away,
	} {
		if err := d.Replay(r, 1000); err != nil {
			t.Fatal(err)
		}
	}
	want := records(d.Apply(1000, 1))
	if !slices.ContainsFunc(want, func(r recordschema.MetadataRecord) bool {
		p, ok := r.(*recordschema.PartitionRecord)
		return ok && p.GrownTimeMs == 77 && p.Leader == 2
	}) {
		t.Error("the time of a partition that was added is lost")
	}
	first, ok := want[0].(*recordschema.FeatureLevelRecord)
	if !ok || first.Name != FeatureMetadataVersion {
		t.Errorf("first record is %+v", want[0])
	}
	back := NewSnapshotDelta(Empty())
	for _, r := range want {
		b := recordschema.AppendFrame(nil, r)
		rec, err := recordschema.ParseFrame(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := back.Replay(rec, 0); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]byte
	for _, r := range records(back.Apply(1000, 1)) {
		got = append(got, recordschema.AppendFrame(nil, r))
	}
	var wantBytes [][]byte
	for _, r := range want {
		wantBytes = append(wantBytes, recordschema.AppendFrame(nil, r))
	}
	if d := cmp.Diff(wantBytes, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	stopped := 0
	WriteRecords(back.Image(), func(recordschema.MetadataRecord) bool { stopped++; return stopped < 3 })
	if stopped != 3 {
		t.Errorf("yield was called %d times after it said stop", stopped)
	}
}

var (
	topicA = types.UUID{0: 0xa0, 15: 1}
	topicB = types.UUID{0: 0xb0, 15: 1}
)

func partition(id types.UUID, n int32) *recordschema.PartitionRecord {
	return &recordschema.PartitionRecord{
		TopicID: id, PartitionID: n, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1, Directories: make([]types.UUID, 2),
	}
}

// base is an image with topic a of two partitions and a config.
func base(t testing.TB) *Image {
	t.Helper()
	d := NewDelta(Empty())
	value := "5"
	for i, r := range []recordschema.MetadataRecord{
		&recordschema.TopicRecord{Name: "a", TopicID: topicA}, partition(topicA, 0), partition(topicA, 1),
		&recordschema.ConfigRecord{ResourceType: int8(ResourceTopic), ResourceName: "a", Name: "k", Value: &value},
		&recordschema.RegisterBrokerRecord{BrokerID: 1, BrokerEpoch: 9},
	} {
		if err := d.Replay(r, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	return d.Apply(4, 1)
}

// TestImagesNeverChange: an image reads the same after its successors changed
// all that it holds.
func TestImagesNeverChange(t *testing.T) {
	im := base(t)
	want := fmt.Sprint(frames(im))
	d := NewDelta(im)
	change := recordschema.NewPartitionChange()
	change.TopicID, change.ISR = topicA, []int32{1}
	for i, r := range []recordschema.MetadataRecord{
		change, partition(topicA, 2),
		&recordschema.ConfigRecord{ResourceType: int8(ResourceTopic), ResourceName: "a", Name: "k"},
		&recordschema.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 9, Fenced: 1},
		&recordschema.FeatureLevelRecord{Name: "f", FeatureLevel: 1},
	} {
		if err := d.Replay(r, int64(5+i)); err != nil {
			t.Fatal(err)
		}
	}
	next := d.Apply(10, 1)
	again := NewDelta(next)
	if err := again.Replay(&recordschema.RemoveTopicRecord{TopicID: topicA}, 11); err != nil {
		t.Fatal(err)
	}
	again.Apply(11, 1)
	if got := fmt.Sprint(frames(im)); got != want {
		t.Errorf("the base image changed:\n%s\nwas\n%s", got, want)
	}
	p, _ := next.Topics.Partition(topicA, 0)
	if p.PartitionEpoch != 1 || next.Topics.PartitionCount() != 3 {
		t.Errorf("the next image has %+v and %d partitions", p, next.Topics.PartitionCount())
	}
	old, _ := im.Topics.Partition(topicA, 1)
	now, _ := next.Topics.Partition(topicA, 1)
	if old != now {
		t.Error("an unchanged partition is not shared")
	}
}

func frames(im *Image) [][]byte {
	var out [][]byte
	for _, r := range records(im) {
		out = append(out, recordschema.AppendFrame(nil, r))
	}
	return out
}

// TestReadersAndWritersShareAnImage is for the race detector: many goroutines
// fork one image while others read it.
func TestReadersAndWritersShareAnImage(t *testing.T) {
	im := base(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			if g%2 == 0 {
				_ = records(im)
				return
			}
			d := NewDelta(im)
			id := types.UUID{0: byte(g), 15: 200}
			for i, r := range []recordschema.MetadataRecord{
				&recordschema.TopicRecord{Name: fmt.Sprint("t", g), TopicID: id}, partition(id, 0), partition(topicA, 2),
			} {
				if err := d.Replay(r, int64(5+i)); err != nil {
					t.Error(err)
				}
			}
			if n := d.Apply(9, 1).Topics.PartitionCount(); n != 4 {
				t.Errorf("%d partitions, want 4", n)
			}
		})
	}
	wg.Wait()
}

// TestDeltaTopics: delete and create again under one name, in one delta.
func TestDeltaTopics(t *testing.T) {
	d := NewDelta(base(t))
	for i, r := range []recordschema.MetadataRecord{
		&recordschema.RemoveTopicRecord{TopicID: topicA},
		&recordschema.TopicRecord{Name: "a", TopicID: topicB}, partition(topicB, 0),
		&recordschema.TopicRecord{Name: "brief", TopicID: types.UUID{3: 3}}, &recordschema.RemoveTopicRecord{TopicID: types.UUID{3: 3}},
	} {
		if err := d.Replay(r, int64(5+i)); err != nil {
			t.Fatal(err)
		}
	}
	im := d.Apply(9, 1)
	var deleted, changed []string
	for topic := range d.DeletedTopics() {
		deleted = append(deleted, topic.ID.String())
	}
	for c := range d.ChangedTopics() {
		changed = append(changed, fmt.Sprint(c.After.ID, c.Created()))
	}
	if d := cmp.Diff([]string{topicA.String()}, deleted); d != "" {
		t.Errorf("deleted:\n%s", d)
	}
	if d := cmp.Diff([]string{fmt.Sprint(topicB, true)}, changed); d != "" {
		t.Errorf("changed:\n%s", d)
	}
	if len(im.Configs.Get(ResourceTopic, "a")) != 0 {
		t.Error("configs outlived their topic")
	}
	local := d.LocalChanges(1)
	if len(local.Deletes) != 2 || len(local.Leaders) != 1 || len(local.Followers) != 0 {
		t.Errorf("for broker 1: %+v", local)
	}
	if other := d.LocalChanges(2); len(other.Deletes) != 2 || len(other.Leaders) != 0 || len(other.Followers) != 1 {
		t.Errorf("for broker 2: %+v", other)
	}
	if none := d.LocalChanges(3); len(none.Deletes)+len(none.Leaders)+len(none.Followers) != 0 {
		t.Errorf("for broker 3: %+v", none)
	}
}

// TestSnapshotDeltaDrops: what the base has and the snapshot lacks is deleted.
func TestSnapshotDeltaDrops(t *testing.T) {
	d := NewSnapshotDelta(base(t))
	for _, r := range []recordschema.MetadataRecord{
		&recordschema.TopicRecord{Name: "b", TopicID: topicB}, partition(topicB, 0),
	} {
		if err := d.Replay(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	d.Apply(100, 2)
	local := d.LocalChanges(1)
	if len(local.Deletes) != 2 || len(local.Leaders) != 1 {
		t.Errorf("for broker 1: %+v", local)
	}
	if ids := slices.Collect(d.ChangedBrokers()); !slices.Equal(ids, []int32{1}) {
		t.Errorf("changed brokers: %v", ids)
	}
	if rs := slices.Collect(d.ChangedConfigs()); !slices.Contains(rs, Resource{ResourceTopic, "a"}) {
		t.Errorf("changed configs: %v", rs)
	}
}

// TestReplayRefuses: records that contradict the state are errors and change
// nothing.
func TestReplayRefuses(t *testing.T) {
	gap := partition(topicA, 9)
	dirs := partition(topicA, 1)
	dirs.Directories = dirs.Directories[:1]
	unknown := recordschema.NewPartitionChange()
	unknown.TopicID, unknown.PartitionID = topicA, 7
	misaligned := recordschema.NewPartitionChange()
	misaligned.TopicID, misaligned.Directories = topicA, make([]types.UUID, 3)
	for _, r := range []recordschema.MetadataRecord{
		&recordschema.TopicRecord{Name: "other", TopicID: topicA}, &recordschema.TopicRecord{Name: "a", TopicID: topicB},
		gap, dirs, partition(topicB, 0), unknown, misaligned,
		&recordschema.RemoveTopicRecord{TopicID: topicB}, &recordschema.ClearElrRecord{TopicName: "nosuch"},
		&recordschema.UnregisterBrokerRecord{BrokerID: 7}, &recordschema.UnregisterBrokerRecord{BrokerID: 1, BrokerEpoch: 1},
		&recordschema.FenceBrokerRecord{ID: 7}, &recordschema.UnfenceBrokerRecord{ID: 1, Epoch: 3},
		&recordschema.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 9, Fenced: 5},
		&recordschema.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 9, InControlledShutdown: 2},
		&recordschema.RemoveAccessControlEntryRecord{ID: topicA},
	} {
		d := NewDelta(base(t))
		want := fmt.Sprint(frames(d.Image()))
		if err := d.Replay(r, 77); !errors.Is(err, ErrReplay) {
			t.Errorf("%s: %v", recordschema.Name(r), err)
		}
		if got := fmt.Sprint(frames(d.Image())); got != want {
			t.Errorf("%s changed the state", recordschema.Name(r))
		}
	}
}

// TestDeltaFlags: each kind of record raises its own flag.
func TestDeltaFlags(t *testing.T) {
	for _, c := range []struct {
		rec recordschema.MetadataRecord
		got func(*Delta) bool
	}{
		{&recordschema.FeatureLevelRecord{Name: "f", FeatureLevel: 1}, (*Delta).FeaturesChanged},
		{&recordschema.ClientQuotaRecord{QuotaKey: "k"}, (*Delta).ClientQuotasChanged},
		{&recordschema.AccessControlEntryRecord{ID: topicA}, (*Delta).ACLsChanged},
		{&recordschema.UserScramCredentialRecord{Name: "u"}, (*Delta).ScramChanged},
		{&recordschema.DelegationTokenRecord{TokenID: "t"}, (*Delta).TokensChanged},
		{&recordschema.ProducerIdsRecord{NextProducerID: 5}, (*Delta).ProducerIDsChanged},
	} {
		d := NewDelta(Empty())
		if c.got(d) {
			t.Errorf("%s: flag is up before", recordschema.Name(c.rec))
		}
		if err := d.Replay(c.rec, 0); err != nil {
			t.Fatal(err)
		}
		if !c.got(d) {
			t.Errorf("%s: flag is down after", recordschema.Name(c.rec))
		}
	}
}

// TestHasOnlineDirKIP858 follows DirectoryId.isOnline.
func TestHasOnlineDirKIP858(t *testing.T) {
	b := &Broker{LogDirs: []types.UUID{topicA}}
	for dir, want := range map[types.UUID]bool{
		topicA: true, topicB: false, types.LostDir: false, types.UnassignedDir: true, types.ZeroUUID: true,
	} {
		if got := b.HasOnlineDir(dir); got != want {
			t.Errorf("%s: %v, want %v", dir, got, want)
		}
	}
	if !(&Broker{}).HasOnlineDir(topicB) {
		t.Error("a broker whose directories are unknown has all of them")
	}
}

// BenchmarkOneChange shows that the cost of a change does not grow with the
// number of topics.
func BenchmarkOneChange(b *testing.B) {
	for _, topics := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			d := NewDelta(Empty())
			for i := range topics {
				id := types.UUID{0: 1, 8: byte(i >> 16), 9: byte(i >> 8), 10: byte(i)}
				_ = d.Replay(&recordschema.TopicRecord{Name: fmt.Sprint("topic-", i), TopicID: id}, 0)
				_ = d.Replay(partition(id, 0), 0)
			}
			im := d.Apply(0, 0)
			change := recordschema.NewPartitionChange()
			change.TopicID, change.ISR = types.UUID{0: 1, 10: 7}, []int32{1}
			b.ReportAllocs()
			for b.Loop() {
				d := NewDelta(im)
				if err := d.Replay(change, 1); err != nil {
					b.Fatal(err)
				}
				im = d.Apply(1, 0)
			}
		})
	}
}
