package group

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// TestScripts runs the scripts in testdata/scripts; each is named after what it proves.
// Records are applied at once and committed by "high-watermark".
//
//	shard
//	commit group=g [version=8] [now=ms] [generation=-1] [retention=ms] [member=]
//	t-0 5 [null | xN | "quoted"]      partition, offset, metadata (xN: N times x, éN too)
//	fetch group=g [null] [stable] [committed]
//	t-0
//	delete-offsets group=g | delete-group group=g | expire now=ms | topic-deleted topic=t id=1
//	high-watermark | revert | groups | describe group=g
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var s *groupScript
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "shard" {
				s = &groupScript{host: newHost(t)}
				return ""
			}
			s.t, s.d = t, d
			return s.run()
		})
	})
}

type groupScript struct {
	*host
	t         *testing.T
	d         *datadriven.TestData
	committed int64
}

func (s *groupScript) str(name string) string {
	for _, a := range s.d.CmdArgs {
		if a.Key == name && len(a.Vals) == 1 {
			return a.Vals[0]
		}
	}
	return ""
}

func (s *groupScript) int(name string, def int64) int64 {
	v := s.str(name)
	if v == "" {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		s.d.Fatalf(s.t, "%s: %v", name, err)
	}
	return n
}

func (s *groupScript) run() string {
	switch s.d.Cmd {
	case "commit":
		return s.commitScript()
	case "fetch":
		return s.fetchScript()
	case "delete-offsets":
		return s.deleteScript()
	case "delete-group":
		res, err := s.s.DeleteGroup(wall(0), s.str("group"))
		return s.outcome(res.Records, err)
	case "expire":
		return s.outcome(s.s.Expire(wall(s.int("now", 0)), 1000).Records, nil)
	case "topic-deleted":
		return s.outcome(s.s.OnTopicsDeleted([]types.TopicIDPartition{{Topic: s.str("topic"), TopicID: topicUUID(s.int("id", 0))}}).Records, nil)
	case "high-watermark":
		s.committed = s.next
		s.s.Commit(s.next)
		return fmt.Sprintf("committed below %d\n", s.next)
	case "revert":
		s.s.Revert(s.committed)
		s.next = s.committed
		return ""
	case "groups":
		var names []string
		for _, g := range s.s.ListGroups(wall(0), kmsg.NewPtrListGroupsRequest(), s.committed) {
			names = append(names, g.Group)
		}
		return fmt.Sprintln("committed:", names, "known:", s.s.sortedGroups())
	case "describe":
		d := s.s.DescribeGroup(wall(0), s.str("group"), 6, s.committed)
		return d.State + " " + kerrors.Code(d.ErrorCode).Name() + "\n"
	}
	s.d.Fatalf(s.t, "unknown command %s", s.d.Cmd)
	return ""
}

func topicUUID(n int64) types.UUID { return types.UUID{15: byte(n)} }

// outcome applies records and lists them.
func (s *groupScript) outcome(recs []coordinator.Record, err error) string {
	if err != nil {
		return kerrors.CodeOf(err).Name() + "\n"
	}
	var b strings.Builder
	for _, r := range recs {
		var k kmsg.OffsetCommitKey
		if r.Key[1] == 2 {
			fmt.Fprintf(&b, "group tombstone %s\n", r.Key[4:])
		} else if err := k.ReadFrom(r.Key); err == nil && r.Value == nil {
			fmt.Fprintf(&b, "tombstone %s %s-%d\n", k.Group, k.Topic, k.Partition)
		} else {
			fmt.Fprintf(&b, "offset %s %s-%d v%d\n", k.Group, k.Topic, k.Partition, r.Value[1])
		}
	}
	s.apply(recs...)
	if b.Len() == 0 {
		return "no records\n"
	}
	return b.String()
}

func (s *groupScript) partition(name string) types.TopicPartition {
	topic, p, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(p)
	if err != nil {
		s.d.Fatalf(s.t, "%s: %v", name, err)
	}
	return types.TopicPartition{Topic: topic, Partition: int32(n)}
}

func metadata(word string) *string {
	out := word
	switch first := strings.TrimRight(word, "0123456789"); {
	case word == "null":
		return nil
	case first == "x" || first == "é":
		n, _ := strconv.Atoi(strings.TrimPrefix(word, first))
		out = strings.Repeat(first, n)
	default:
		if q, err := strconv.Unquote(word); err == nil {
			out = q
		}
	}
	return &out
}

func (s *groupScript) commitScript() string {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID = int16(s.int("version", 8)), s.str("group"), s.str("member")
	req.Generation, req.RetentionTimeMillis = int32(s.int("generation", -1)), s.int("retention", -1)
	for _, line := range strings.Split(strings.TrimSpace(s.d.Input), "\n") {
		f := strings.Fields(line)
		tp := s.partition(f[0])
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = tp.Topic, topicUUID(s.int("id", 0))
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition = tp.Partition
		p.Offset, _ = strconv.ParseInt(f[1], 10, 64)
		if len(f) > 2 {
			p.Metadata = metadata(f[2])
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	res, err := s.s.CommitOffsets(wall(s.int("now", 0)), req)
	if err != nil {
		return kerrors.CodeOf(err).Name() + "\n"
	}
	var b strings.Builder
	for _, t := range res.Response.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d %s\n", t.Topic, p.Partition, kerrors.Code(p.ErrorCode).Name())
		}
	}
	return b.String() + s.outcome(res.Records, nil)
}

func (s *groupScript) fetchScript() string {
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = s.str("group")
	if !s.d.HasArg("null") {
		req.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, name := range strings.Fields(s.d.Input) {
		tp := s.partition(name)
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID, t.Partitions = tp.Topic, topicUUID(s.int("id", 0)), []int32{tp.Partition}
		req.Topics = append(req.Topics, t)
	}
	asOf := s.next
	if s.d.HasArg("committed") {
		asOf = s.committed
	}
	resp := s.s.FetchOffsets(&req, asOf, s.d.HasArg("stable"))
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", resp.Group, kerrors.Code(resp.ErrorCode).Name())
	for _, f := range flatten(resp) {
		md := strconv.Quote(f.Metadata)
		if len(md) > 20 {
			md = fmt.Sprintf("%d characters", charCount(f.Metadata))
		}
		fmt.Fprintf(&b, "%s-%d offset %d epoch %d metadata %s %s\n", f.Topic, f.Partition, f.Offset, f.Epoch, md, kerrors.Code(f.Code).Name())
	}
	return b.String()
}

func (s *groupScript) deleteScript() string {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = s.str("group")
	for _, name := range strings.Fields(s.d.Input) {
		tp := s.partition(name)
		t := kmsg.NewOffsetDeleteRequestTopic()
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		t.Topic, p.Partition = tp.Topic, tp.Partition
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	res, err := s.s.DeleteOffsets(wall(0), req)
	return s.outcome(res.Records, err)
}
