package cases

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

func init() {
	register("C040", caseC040)
	register("C041", caseC041)
	register("C055", caseC055)
	register("C057", caseC057)
}

// committer returns a connection once the coordinator of group answers.
func committer(t *testing.T, b broker, group string) *testkit.RawConn {
	t.Helper()
	c := testkit.Dial(t, b.Bootstrap())
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey = 3, group
		if testkit.Do(c, req, kmsg.NewPtrFindCoordinatorResponse()).ErrorCode != 0 {
			continue
		}
		code := testkit.Do(c, offsetFetch(group, nil), kmsg.NewPtrOffsetFetchResponse()).ErrorCode
		if code == 0 {
			return c
		}
		if code != 14 && code != 16 {
			wantCode(t, "OffsetFetch of "+group, code, 0)
		}
	}
	t.Fatalf("no coordinator for %s after 20 s", group)
	return nil
}

// commitMeta is what a case commits to one partition.
type commitMeta struct {
	partition int32
	offset    int64
	metadata  *string
}

func commit(t *testing.T, c *testkit.RawConn, group, topic string, parts ...commitMeta) []int16 {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	for _, p := range parts {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.Metadata = p.partition, p.offset, p.metadata
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	resp := testkit.Do(c, req, kmsg.NewPtrOffsetCommitResponse())
	codes := make([]int16, len(parts))
	for _, p := range resp.Topics[0].Partitions {
		for i := range parts {
			if parts[i].partition == p.Partition {
				codes[i] = p.ErrorCode
			}
		}
	}
	return codes
}

// offsetFetch builds OffsetFetch v7; nil topics mean all.
func offsetFetch(group string, topics map[string][]int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	if topics != nil {
		req.Topics = []kmsg.OffsetFetchRequestTopic{}
		for name, parts := range topics {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = name, parts
			req.Topics = append(req.Topics, rt)
		}
	}
	return req
}

// C040: commit metadata is kept as it is; the limit counts characters. A commit
// that is refused whole leaves a group.
func caseC040(t *testing.T, b broker) {
	topic, group := unique(t, "t"), unique(t, "g")
	createTopic(t, b, topic, 2)
	c := committer(t, b, group)
	str := func(s string) *string { return &s }
	for _, tc := range []struct {
		name string
		meta *string
		want string
	}{
		{"null", nil, ""},
		{"NUL inside", str("a\x00b"), "a\x00b"},
		{"4096 x", str(strings.Repeat("x", 4096)), strings.Repeat("x", 4096)},
		{"4096 é", str(strings.Repeat("é", 4096)), strings.Repeat("é", 4096)},
	} {
		wantCode(t, tc.name, commit(t, c, group, topic, commitMeta{0, 1, tc.meta})[0], 0)
		resp := testkit.Do(c, offsetFetch(group, map[string][]int32{topic: {0}}), kmsg.NewPtrOffsetFetchResponse())
		got := resp.Topics[0].Partitions[0].Metadata
		if got == nil || *got != tc.want {
			t.Errorf("%s came back as %v", tc.name, got)
		}
	}
	codes := commit(t, c, group, topic, commitMeta{0, 2, str(strings.Repeat("x", 4097))}, commitMeta{1, 2, str("ok")})
	wantCode(t, "4097 x", codes[0], 12)
	wantCode(t, "its neighbour", codes[1], 0)
	resp := testkit.Do(c, offsetFetch(group, map[string][]int32{topic: {1}}), kmsg.NewPtrOffsetFetchResponse())
	wantEqual(t, "the neighbour's offset", resp.Topics[0].Partitions[0].Offset, 2)
	// A commit that is refused whole leaves a group that can be deleted, once.
	refused := unique(t, "refused")
	c = committer(t, b, refused)
	wantCode(t, "the only one", commit(t, c, refused, topic, commitMeta{0, 2, str(strings.Repeat("x", 4097))})[0], 12)
	for _, want := range []int16{0, 69} {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{refused}
		wantCode(t, "DeleteGroups", testkit.Do(c, req, kmsg.NewPtrDeleteGroupsResponse()).Groups[0].ErrorCode, want)
	}
}

// C041: every asked partition is listed, and nothing else.
func caseC041(t *testing.T, b broker) {
	topic, never, group := unique(t, "t"), unique(t, "never"), unique(t, "g")
	createTopic(t, b, topic, 2)
	c := committer(t, b, group)
	_ = committer(t, b, never)
	wantCode(t, "commit", commit(t, c, group, topic, commitMeta{0, 5, nil})[0], 0)
	type shape map[int32]int64
	asks := []struct {
		name   string
		group  string
		topics map[string][]int32
		want   shape
	}{
		{"never, asked", never, map[string][]int32{topic: {0, 1}}, shape{0: -1, 1: -1}},
		{"never, null", never, nil, shape{}},
		{"g, asked", group, map[string][]int32{topic: {0, 1}}, shape{0: 5, 1: -1}},
		{"g, null", group, nil, shape{0: 5}},
		{"g, empty", group, map[string][]int32{}, shape{}},
	}
	for _, a := range asks {
		resp := testkit.Do(c, offsetFetch(a.group, a.topics), kmsg.NewPtrOffsetFetchResponse())
		wantCode(t, a.name, resp.ErrorCode, 0)
		got := shape{}
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				got[p.Partition] = p.Offset
				wantCode(t, a.name, p.ErrorCode, 0)
				if p.Offset < 0 && (p.LeaderEpoch != -1 || p.Metadata == nil || *p.Metadata != "") {
					t.Errorf("%s: no commit is shown as %+v", a.name, p)
				}
			}
		}
		wantShape(t, a.name+" v7", got, a.want)
	}
	var g8 []kmsg.OffsetFetchRequestGroup
	for _, a := range asks {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = a.group
		if a.topics != nil {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
			for name, parts := range a.topics {
				gt := kmsg.NewOffsetFetchRequestGroupTopic()
				gt.Topic, gt.Partitions = name, parts
				g.Topics = append(g.Topics, gt)
			}
		}
		g8 = append(g8, g)
	}
	// Both groups in one request, once asked and once null; the empty list beside them.
	for _, pair := range [][2]int{{0, 2}, {1, 3}, {0, 4}} {
		v8 := kmsg.NewPtrOffsetFetchRequest()
		v8.Version = 8
		v8.Groups = []kmsg.OffsetFetchRequestGroup{g8[pair[0]], g8[pair[1]]}
		resp := testkit.Do(c, v8, kmsg.NewPtrOffsetFetchResponse())
		wantEqual(t, "groups answered", len(resp.Groups), 2)
		for i, g := range resp.Groups {
			a := asks[pair[i]]
			wantEqual(t, "group", g.Group, a.group)
			wantCode(t, a.name+" v8", g.ErrorCode, 0)
			got := shape{}
			for _, rt := range g.Topics {
				for _, p := range rt.Partitions {
					got[p.Partition] = p.Offset
					wantCode(t, a.name+" v8", p.ErrorCode, 0)
					if p.Offset < 0 && (p.LeaderEpoch != -1 || p.Metadata == nil || *p.Metadata != "") {
						t.Errorf("%s v8: no commit is shown as %+v", a.name, p)
					}
				}
			}
			wantShape(t, a.name+" v8", got, a.want)
		}
	}
}

func wantShape(t *testing.T, what string, got, want map[int32]int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
	for p, o := range want {
		if g, ok := got[p]; !ok || g != o {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
}

func describeConfigs(t *testing.T, c *testkit.RawConn, kind kmsg.ConfigResourceType, name string, keys []string) kmsg.DescribeConfigsResponseResource {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = 4, true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	return testkit.Do(c, req, kmsg.NewPtrDescribeConfigsResponse()).Resources[0]
}

// C055: DescribeConfigs is complete, typed and says where a value comes from.
func caseC055(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1, "retention.ms", "1000000", "max.message.bytes", "2000000")
	c := testkit.Dial(t, b.Bootstrap())
	res := describeConfigs(t, c, kmsg.ConfigResourceTypeTopic, topic, nil)
	wantCode(t, "topic", res.ErrorCode, 0)
	byName := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, cfg := range res.Configs {
		byName[cfg.Name] = cfg
	}
	if len(byName) < 25 {
		t.Errorf("only %d topic configs", len(byName))
	}
	for name, want := range map[string]kmsg.ConfigType{
		"retention.ms": 5, "max.message.bytes": 3, "cleanup.policy": 7, "preallocate": 1, "min.cleanable.dirty.ratio": 6,
	} {
		wantEqual(t, "type of "+name, byName[name].ConfigType, want)
	}
	synonyms := func(name string) []string {
		var out []string
		for _, s := range byName[name].ConfigSynonyms {
			out = append(out, fmt.Sprintf("%s=%s@%d", s.Name, *s.Value, s.Source))
		}
		return out
	}
	wantEqual(t, "retention.ms", strings.Join(synonyms("retention.ms"), " "), "retention.ms=1000000@1")
	wantEqual(t, "max.message.bytes", strings.Join(synonyms("max.message.bytes"), " "), "max.message.bytes=2000000@1 message.max.bytes=1048588@5")
	for name, cfg := range byName {
		want := kmsg.ConfigSource(5)
		switch name {
		case "retention.ms", "max.message.bytes":
			want = 1
		case "min.insync.replicas":
			continue
		}
		wantEqual(t, "source of "+name, cfg.Source, want)
	}
	describeBrokerConfigs(t, c)
	wantCode(t, "unknown topic", describeConfigs(t, c, kmsg.ConfigResourceTypeTopic, unique(t, "none"), nil).ErrorCode, 3)
	one := describeConfigs(t, c, kmsg.ConfigResourceTypeTopic, topic, []string{"retention.ms"})
	if len(one.Configs) != 1 || one.Configs[0].Name != "retention.ms" {
		t.Errorf("key filter returned %d entries", len(one.Configs))
	}
}

func describeBrokerConfigs(t *testing.T, c *testkit.RawConn) {
	t.Helper()
	res := describeConfigs(t, c, kmsg.ConfigResourceTypeBroker, brokerID(t, c), nil)
	wantCode(t, "broker", res.ErrorCode, 0)
	found := false
	for _, cfg := range res.Configs {
		found = found || cfg.Name == "auto.create.topics.enable"
		if cfg.IsSensitive && cfg.Value != nil {
			t.Errorf("%s is secret and shown", cfg.Name)
		}
		if strings.Contains(cfg.Name, "password") && !cfg.IsSensitive {
			t.Errorf("%s is not marked sensitive", cfg.Name)
		}
	}
	if !found {
		t.Error("auto.create.topics.enable is not in the broker's list")
	}
}

func brokerID(t *testing.T, c *testkit.RawConn) string {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = []kmsg.MetadataRequestTopic{}
	return itoa(testkit.Do(c, req, kmsg.NewPtrMetadataResponse()).Brokers[0].NodeID)
}

// C057: CreateTopics dry run, defaults and refusals.
func caseC057(t *testing.T, b broker) {
	c := testkit.Dial(t, b.Bootstrap())
	prefix := unique(t, "")
	create := func(validate bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsResponse {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis, req.ValidateOnly, req.Topics = 7, 10000, validate, topics
		return testkit.Do(c, req, kmsg.NewPtrCreateTopicsResponse())
	}
	topic := func(name string, partitions int32, rf int16) kmsg.CreateTopicsRequestTopic {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = prefix+name, partitions, rf
		return rt
	}
	dry := create(true, topic("n1", -1, -1)).Topics[0]
	wantCode(t, "(a) dry run", dry.ErrorCode, 0)
	wantEqual(t, "(a) partitions", dry.NumPartitions, 3)
	wantEqual(t, "(a) replication factor", dry.ReplicationFactor, 1)
	made := create(false, topic("n1", -1, -1)).Topics[0]
	wantCode(t, "(b) for real", made.ErrorCode, 0)
	wantEqual(t, "(b) partitions", made.NumPartitions, 3)
	wantEqual(t, "(b) replication factor", made.ReplicationFactor, 1)
	if made.TopicID == [16]byte{} || len(made.Configs) < 25 {
		t.Errorf("(b) id %v, %d configs", made.TopicID, len(made.Configs))
	}
	wantCode(t, "(c) exists", create(true, topic("n1", -1, -1)).Topics[0].ErrorCode, 36)
	wantCode(t, "(d) 0 partitions", create(false, topic("n2", 0, 1)).Topics[0].ErrorCode, 37)
	wantCode(t, "(e) RF 5", create(false, topic("n3", 1, 5)).Topics[0].ErrorCode, 38)
	odd := topic("n4", 1, 1)
	one := "1"
	odd.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "no.such", Value: &one}}
	wantCode(t, "(f) unknown config", create(false, odd).Topics[0].ErrorCode, 40)
	twice := create(false, topic("n5", 1, 1), topic("n5", 1, 1))
	wantEqual(t, "(g) answers", len(twice.Topics), 1)
	wantCode(t, "(g) listed twice", twice.Topics[0].ErrorCode, 42)
}
