package group

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// host applies a shard's records as the runtime does.
type host struct {
	t    failer
	s    *Shard
	next int64
	log  []logged
}

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
}

type logged struct {
	offset, producerID int64
	rec                coordinator.Record
	marker             int8 // 1 commit, 2 abort
}

func newHost(t failer) *host { return &host{t: t, s: NewShard(DefaultConfig())} }

func (h *host) apply(recs ...coordinator.Record) { h.applyAs(-1, recs...) }

func (h *host) applyAs(producerID int64, recs ...coordinator.Record) {
	h.t.Helper()
	for _, r := range recs {
		if err := h.s.Replay(h.next, producerID, r.Key, r.Value); err != nil {
			h.t.Fatal(err)
		}
		h.log = append(h.log, logged{offset: h.next, producerID: producerID, rec: r})
		h.next++
	}
}

func (h *host) end(producerID int64, commit bool) {
	h.t.Helper()
	if err := h.s.ReplayEndTransaction(h.next, producerID, commit); err != nil {
		h.t.Fatal(err)
	}
	m := int8(2)
	if commit {
		m = 1
	}
	h.log = append(h.log, logged{offset: h.next, producerID: producerID, marker: m})
	h.next++
}

type commitPart struct {
	p        int32
	offset   int64
	metadata *string
}

func commitReq(version int16, group, topic string, parts ...commitPart) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.RetentionTimeMillis = version, group, -1, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for _, p := range parts {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.Metadata = p.p, p.offset, p.metadata
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func (h *host) commit(nowMs int64, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	h.t.Helper()
	res, err := h.s.CommitOffsets(wall(nowMs), req)
	if err != nil {
		h.t.Fatal(err)
	}
	h.apply(res.Records...)
	return res.Response
}

func fetchReq(group, topic string, parts ...int32) *kmsg.OffsetFetchRequestGroup {
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = topic, parts
	req.Topics = append(req.Topics, t)
	return &req
}

// flat is an answer in a comparable form.
type flat struct {
	Topic     string
	Partition int32
	Offset    int64
	Epoch     int32
	Metadata  string
	Code      int16
}

func flatten(resp kmsg.OffsetFetchResponseGroup) (out []flat) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out = append(out, flat{t.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, p.ErrorCode})
		}
	}
	return out
}

func str(s string) *string { return &s }

// TestC040_CommitMetadata: the limit counts characters; a part over it does not
// keep the others from being stored.
func TestC040_CommitMetadata(t *testing.T) {
	h := newHost(t)
	for i, md := range []*string{nil, str("a\x00b"), str(strings.Repeat("x", 4096)), str(strings.Repeat("é", 4096)), str(strings.Repeat("\U0001f30a", 2048))} {
		resp := h.commit(1, commitReq(8, "g", "t", commitPart{0, int64(i), md}))
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("case %d: code %d", i, code)
		}
		want := ""
		if md != nil {
			want = *md
		}
		got := flatten(h.s.FetchOffsets(fetchReq("g", "t", 0), h.next, false))
		if d := cmp.Diff([]flat{{"t", 0, int64(i), -1, want, 0}}, got); d != "" {
			t.Fatal(d)
		}
	}
	resp := h.commit(1, commitReq(8, "g", "t", commitPart{0, 9, str(strings.Repeat("x", 4097))}, commitPart{1, 9, str("ok")}))
	codes := []int16{resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[1].ErrorCode}
	if d := cmp.Diff([]int16{int16(kerrors.OffsetMetadataTooLarge), 0}, codes); d != "" {
		t.Fatal(d)
	}
	got := flatten(h.s.FetchOffsets(fetchReq("g", "t", 0, 1), h.next, false))
	if got[0].Offset != 4 || got[1].Offset != 9 {
		t.Fatalf("%+v", got)
	}
}

// TestC041_ShapeOfOffsetFetch: every asked partition is listed, null means what
// exists, empty means nothing, an unknown group is no error.
func TestC041_ShapeOfOffsetFetch(t *testing.T) {
	h := newHost(t)
	h.commit(1, commitReq(8, "g", "t", commitPart{0, 5, nil}))
	all := func(group string) *kmsg.OffsetFetchRequestGroup {
		req := kmsg.NewOffsetFetchRequestGroup()
		req.Group = group
		return &req
	}
	none := all("g")
	none.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	for _, tc := range []struct {
		what string
		req  *kmsg.OffsetFetchRequestGroup
		want []flat
	}{
		{"never [t:0,1]", fetchReq("never", "t", 0, 1), []flat{{"t", 0, -1, -1, "", 0}, {"t", 1, -1, -1, "", 0}}},
		{"never null", all("never"), nil},
		{"g [t:0,1]", fetchReq("g", "t", 0, 1), []flat{{"t", 0, 5, -1, "", 0}, {"t", 1, -1, -1, "", 0}}},
		{"g null", all("g"), []flat{{"t", 0, 5, -1, "", 0}}},
		{"g []", none, nil},
	} {
		for _, stable := range []bool{false, true} {
			resp := h.s.FetchOffsets(tc.req, h.next, stable)
			if resp.ErrorCode != 0 || resp.Group != tc.req.Group {
				t.Errorf("%s: group %s code %d", tc.what, resp.Group, resp.ErrorCode)
			}
			if d := cmp.Diff(tc.want, flatten(resp)); d != "" {
				t.Errorf("%s:\n%s", tc.what, d)
			}
		}
	}
}

// TestRecordBytes holds the records against the bytes that the schemas of
// Apache Kafka 4.3 prescribe (OffsetCommitKey.json, OffsetCommitValue.json).
func TestRecordBytes(t *testing.T) {
	h := newHost(t)
	req := commitReq(10, "grp", "top", commitPart{7, 0x1122334455667788, str("md")})
	req.Topics[0].TopicID = types.UUID{0: 0xaa, 15: 0xbb}
	req.Topics[0].Partitions[0].LeaderEpoch = 3
	res, err := h.s.CommitOffsets(wall(0x0102030405060708), req)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got []byte, want string) {
		t.Helper()
		if hex.EncodeToString(got) != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s:\n got %x\nwant %s", what, got, want)
		}
	}
	check("key v1", res.Records[0].Key, "0001 0003 677270 0003 746f70 00000007")
	check("value v4", res.Records[0].Value,
		"0004 1122334455667788 00000003 03 6d64 0102030405060708 01 00 10 aa0000000000000000000000000000bb")
	// Without an id there is no tag.
	req.Topics[0].TopicID = types.ZeroUUID
	res, _ = h.s.CommitOffsets(wall(1), req)
	check("value v4 without id", res.Records[0].Value, "0004 1122334455667788 00000003 03 6d64 0000000000000001 00")
	// OffsetCommit v2-4 with a retention time is kept in v1.
	old := commitReq(3, "grp", "top", commitPart{7, 5, nil})
	old.RetentionTimeMillis = 16
	res, _ = h.s.CommitOffsets(wall(16), old)
	check("value v1", res.Records[0].Value, "0001 0000000000000005 0000 0000000000000010 0000000000000020")
	check("group tombstone key", groupTombstone("grp").Key, "0002 0003 677270")
	if groupTombstone("grp").Value != nil || offsetTombstone("g", types.TopicPartition{}).Value != nil {
		t.Error("a tombstone has a value")
	}
}

// TestReplayReadsEveryVersion reads offset values v0 to v4 and skips unknown
// record types (KIP-915).
func TestReplayReadsEveryVersion(t *testing.T) {
	for v := range int16(5) {
		h := newHost(t)
		val := kmsg.OffsetCommitValue{Version: v, Offset: 5, LeaderEpoch: 2, Metadata: "m", CommitTimestamp: 9, ExpireTimestamp: 11}
		h.apply(coordinator.Record{Key: offsetKey("g", types.TopicPartition{Topic: "t"}), Value: val.AppendTo(nil)})
		want := flat{"t", 0, 5, -1, "m", 0}
		if v >= 3 {
			want.Epoch = 2
		}
		if d := cmp.Diff([]flat{want}, flatten(h.s.FetchOffsets(fetchReq("g", "t", 0), h.next, false))); d != "" {
			t.Errorf("v%d:\n%s", v, d)
		}
	}
	h := newHost(t)
	h.apply(coordinator.Record{Key: []byte{0x7f, 0xff, 1, 2}, Value: []byte{9}})
	for _, bad := range []coordinator.Record{
		{Key: nil}, {Key: []byte{0}}, {Key: []byte{0, 1, 0}}, {Key: offsetKey("g", types.TopicPartition{}), Value: []byte{0, 4, 1}},
		{Key: offsetKey("g", types.TopicPartition{}), Value: []byte{0, 9, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		if err := h.s.Replay(9, -1, bad.Key, bad.Value); err == nil {
			t.Errorf("%x %x was taken", bad.Key, bad.Value)
		}
	}
}

func TestCommitGenerations(t *testing.T) {
	h := newHost(t)
	h.commit(1, commitReq(8, "simple", "t", commitPart{0, 5, nil}))
	managed := kmsg.NewGroupMetadataValue()
	managed.Version, managed.ProtocolType, managed.Generation = 3, "consumer", 4
	m := kmsg.NewGroupMetadataValueMember()
	m.MemberID = "m1"
	managed.Members = append(managed.Members, m)
	k := kmsg.GroupMetadataKey{Version: 2, Group: "managed"}
	h.apply(coordinator.Record{Key: k.AppendTo(nil), Value: managed.AppendTo(nil)})
	for _, tc := range []struct {
		group, member string
		generation    int32
		version       int16
		want          kerrors.Code
	}{
		{"new", "", -1, 8, kerrors.None},
		{"new", "m", 3, 8, kerrors.IllegalGeneration},
		{"new", "m", 3, 9, kerrors.GroupIDNotFound},
		{"simple", "", -1, 9, kerrors.None},
		{"simple", "m", 0, 9, kerrors.UnknownMemberID},
		{"managed", "", -1, 9, kerrors.UnknownMemberID},
		{"managed", "m1", 4, 9, kerrors.None},
		{"managed", "m1", 3, 9, kerrors.IllegalGeneration},
		{"managed", "m2", 4, 9, kerrors.UnknownMemberID},
	} {
		req := commitReq(tc.version, tc.group, "t", commitPart{0, 1, nil})
		req.MemberID, req.Generation = tc.member, tc.generation
		_, err := h.s.CommitOffsets(wall(1), req)
		if got := kerrors.CodeOf(err); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func TestTopicIDs(t *testing.T) {
	h := newHost(t)
	id := types.UUID{1}
	req := commitReq(10, "g", "t", commitPart{0, 5, nil})
	req.Topics[0].TopicID = id
	h.commit(1, req)
	for _, tc := range []struct {
		ask  types.UUID
		want int64
	}{{types.ZeroUUID, 5}, {id, 5}, {types.UUID{2}, -1}} {
		f := fetchReq("g", "t", 0)
		f.Topics[0].TopicID = tc.ask
		if got := flatten(h.s.FetchOffsets(f, h.next, false))[0].Offset; got != tc.want {
			t.Errorf("asked with %v: %d", tc.ask, got)
		}
	}
	h.commit(1, commitReq(9, "g", "legacy", commitPart{0, 7, nil})) // stored without an id
	res := h.s.OnTopicsDeleted([]types.TopicIDPartition{{TopicID: types.UUID{2}, Topic: "t"}})
	if len(res.Records) != 0 {
		t.Fatal("offsets of a topic that was made again are dropped")
	}
	res = h.s.OnTopicsDeleted([]types.TopicIDPartition{{TopicID: id, Topic: "t"}, {TopicID: types.UUID{3}, Topic: "legacy"}})
	h.apply(res.Records...)
	if got := flatten(h.s.FetchOffsets(fetchReq("g", "t", 0), h.next, false))[0].Offset; got != -1 || res.Response != 2 {
		t.Fatalf("after the deletion: %d, %d dropped", got, res.Response)
	}
}

func TestDeleteOffsetsAndGroup(t *testing.T) {
	h := newHost(t)
	h.commit(1, commitReq(8, "g", "t", commitPart{0, 5, nil}, commitPart{1, 6, nil}))
	del := kmsg.NewPtrOffsetDeleteRequest()
	del.Group = "g"
	dt := kmsg.NewOffsetDeleteRequestTopic()
	dt.Topic = "t"
	for _, p := range []int32{0, 9} {
		dp := kmsg.NewOffsetDeleteRequestTopicPartition()
		dp.Partition = p
		dt.Partitions = append(dt.Partitions, dp)
	}
	del.Topics = append(del.Topics, dt)
	res, err := h.s.DeleteOffsets(wall(0), del)
	if err != nil || len(res.Records) != 1 || len(res.Response.Topics[0].Partitions) != 2 {
		t.Fatalf("%v %+v", err, res)
	}
	h.apply(res.Records...)
	del.Group = "never"
	if _, err := h.s.DeleteOffsets(wall(0), del); kerrors.CodeOf(err) != kerrors.GroupIDNotFound {
		t.Fatal(err)
	}
	gone, err := h.s.DeleteGroup(wall(0), "g")
	if err != nil || len(gone.Records) != 2 {
		t.Fatalf("%v %d records", err, len(gone.Records))
	}
	h.apply(gone.Records...)
	if _, err := h.s.DeleteGroup(wall(0), "g"); kerrors.CodeOf(err) != kerrors.GroupIDNotFound || h.s.Len() != 0 {
		t.Fatal(err)
	}
}

func TestExpiry(t *testing.T) {
	h := newHost(t)
	const day = int64(86_400_000)
	h.commit(0, commitReq(8, "old", "t", commitPart{0, 5, nil}))
	h.commit(6*day, commitReq(8, "old", "t", commitPart{1, 5, nil}))
	short := commitReq(3, "short", "t", commitPart{0, 5, nil})
	short.RetentionTimeMillis = day
	h.commit(0, short)
	h.applyAs(42, offsetRecord("txn", types.TopicPartition{Topic: "t"}, Offset{Offset: 1, ExpireTimeMs: -1}))
	if res := h.s.Expire(wall(day-1), 100); len(res.Records) != 0 {
		t.Fatalf("%d records too early", len(res.Records))
	}
	res := h.s.Expire(wall(day), 100)
	h.apply(res.Records...)
	if _, ok := h.s.group("short", latest); ok || res.Response != 1 || len(res.Records) != 2 {
		t.Fatalf("after a day: %d offsets, %d records", res.Response, len(res.Records))
	}
	h.apply(h.s.Expire(wall(7*day), 100).Records...)
	got := flatten(h.s.FetchOffsets(fetchReq("old", "t", 0, 1), h.next, false))
	if got[0].Offset != -1 || got[1].Offset != 5 {
		t.Fatalf("after 7 days: %+v", got)
	}
	h.apply(h.s.Expire(wall(14*day), 100).Records...)
	if _, ok := h.s.group("old", latest); ok || h.s.Len() != 1 {
		t.Fatalf("a group without offsets is still there, %d groups", h.s.Len())
	}
}

// TestTransactionalOffsets: pending commits are invisible, unstable to those
// who ask, and decided by the marker (KIP-98, KIP-447).
func TestTransactionalOffsets(t *testing.T) {
	h := newHost(t)
	tp := types.TopicPartition{Topic: "t"}
	h.commit(1, commitReq(8, "g", "t", commitPart{0, 5, nil}))
	h.applyAs(42, offsetRecord("g", tp, Offset{Offset: 9, LeaderEpoch: -1, ExpireTimeMs: -1}))
	read := func(stable bool) flat { return flatten(h.s.FetchOffsets(fetchReq("g", "t", 0), h.next, stable))[0] }
	if got := read(false); got.Offset != 5 {
		t.Fatalf("pending is visible: %+v", got)
	}
	if got := read(true); got.Code != int16(kerrors.UnstableOffsetCommit) || got.Offset != -1 {
		t.Fatalf("stable read: %+v", got)
	}
	h.end(42, false)
	if got := read(true); got.Offset != 5 || got.Code != 0 {
		t.Fatalf("after the abort: %+v", got)
	}
	h.applyAs(42, offsetRecord("g", tp, Offset{Offset: 9, LeaderEpoch: -1, ExpireTimeMs: -1}))
	h.end(42, true)
	if got := read(true); got.Offset != 9 {
		t.Fatalf("after the commit: %+v", got)
	}
	// A plain commit after the transactional one in the log wins over the marker.
	h.applyAs(43, offsetRecord("g", tp, Offset{Offset: 20, LeaderEpoch: -1, ExpireTimeMs: -1}))
	h.commit(1, commitReq(8, "g", "t", commitPart{0, 11, nil}))
	h.end(43, true)
	if got := read(false); got.Offset != 11 {
		t.Fatalf("the later commit lost: %+v", got)
	}
	// A tombstone beats what is pending.
	h.applyAs(44, offsetRecord("g", tp, Offset{Offset: 30, LeaderEpoch: -1, ExpireTimeMs: -1}))
	h.apply(offsetTombstone("g", tp))
	h.end(44, true)
	if got := read(true); got.Offset != -1 || got.Code != 0 || h.s.pending.Len() != 0 {
		t.Fatalf("after the tombstone: %+v", got)
	}
}

// TestReadsSeeCommittedOnly: a read as of an older offset misses later commits,
// and a revert takes them away.
func TestReadsSeeCommittedOnly(t *testing.T) {
	h := newHost(t)
	h.commit(1, commitReq(8, "g", "t", commitPart{0, 5, nil}))
	h.s.Commit(h.next)
	at := h.next
	h.commit(1, commitReq(8, "g", "t", commitPart{0, 6, nil}, commitPart{1, 7, nil}))
	got := flatten(h.s.FetchOffsets(fetchReq("g", "t", 0, 1), at, false))
	if got[0].Offset != 5 || got[1].Offset != -1 {
		t.Fatalf("as of %d: %+v", at, got)
	}
	h.s.Revert(at)
	got = flatten(h.s.FetchOffsets(fetchReq("g", "t", 0, 1), h.next, true))
	if got[0].Offset != 5 || got[1].Offset != -1 {
		t.Fatalf("after the revert: %+v", got)
	}
}

func FuzzReplay(f *testing.F) {
	k := offsetKey("g", types.TopicPartition{Topic: "t"})
	f.Add(k, offsetRecord("g", types.TopicPartition{Topic: "t"}, Offset{ExpireTimeMs: -1}).Value)
	f.Add(groupTombstone("g").Key, []byte{0, 3})
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{0, 0, 0, 0, 0, 5, 0})
	f.Add([]byte{0, 5, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0, 0, 0, 2, 'c', 2, 'h', 2, 2, 't', 0, 0, 0, 0, 5, 0, 1, 0, 1, 0})
	f.Add([]byte{0, 8, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0, 0, 0, 0, 5, 0, 0, 0, 5, 1, 1, 1, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := NewShard(DefaultConfig())
		_ = s.Replay(0, -1, bytes.Clone(key), bytes.Clone(value))
		_ = s.Replay(1, 5, bytes.Clone(key), bytes.Clone(value))
		_ = s.ReplayEndTransaction(2, 5, true)
		s.Expire(wall(1<<40), 10)
		s.Loaded(wall(0))
		for n := 0; ; n++ {
			if _, ok := s.FireTimer(wall(1 << 50)); !ok {
				break
			}
			if n > 10_000 {
				t.Fatal("timers go off without end")
			}
		}
	})
}

func wall(ms int64) coordinator.Now { return coordinator.Now{WallMs: ms, TickMs: ms} }
