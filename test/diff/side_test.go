package diff

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// side is one of the two brokers, with the ids that it gave out.
type side struct {
	t      *testing.T
	name   string
	addr   string
	conn   *testkit.RawConn
	run    string // names of this run's topics and groups start with it
	ids    map[string][16]byte
	names  map[[16]byte]string
	pids   []int64 // producers by number
	pidNo  map[int64]int
	sess   map[int]int32 // fetch sessions by number
	sessNo map[int32]int
	cursor *kmsg.DescribeTopicPartitionsRequestCursor
}

func newSide(t *testing.T, name, addr string) *side {
	s := &side{t: t, name: name, addr: addr}
	s.begin("")
	return s
}

// begin forgets the ids of the run before; the broker keeps its topics.
func (s *side) begin(run string) {
	s.run, s.conn, s.cursor = run, nil, nil
	s.ids, s.names, s.pidNo = map[string][16]byte{}, map[[16]byte]string{}, map[int64]int{}
	s.sess, s.sessNo, s.pids = map[int]int32{}, map[int32]int{}, nil
}

// topic returns the full name of a run's topic; what starts with "=" is taken as
// it is.
func (s *side) topic(short string) string {
	if raw, ok := strings.CutPrefix(short, "="); ok {
		return raw
	}
	return s.run + short
}

// id returns the id that a topic has, or had last.
func (s *side) id(short string) [16]byte {
	if id, ok := s.ids[s.topic(short)]; ok {
		return id
	}
	id := [16]byte{0xde, 0xad, 0xbe, 0xef}
	copy(id[4:], short)
	return id
}

func (s *side) learn(name string, id [16]byte) {
	if id != ([16]byte{}) {
		s.ids[name], s.names[id] = id, name
	}
}

func (s *side) pid(n int) int64 {
	if n < 0 {
		return int64(n)
	}
	if n < len(s.pids) {
		return s.pids[n]
	}
	return 987654321 + int64(n) // an id that nobody was given
}

// do sends a request and returns the decoded answer, or nil when the broker
// closed the connection instead.
func (s *side) do(req kmsg.Request) kmsg.Response {
	if s.conn == nil {
		s.conn = testkit.Dial(s.t, s.addr)
		s.conn.ClientID = "diff"
	}
	resp, err := s.exchange(req)
	if err != nil {
		s.conn.C.Close()
		s.conn = nil
		if strings.Contains(err.Error(), "timeout") {
			s.t.Fatalf("%s does not answer %s v%d", s.name, kmsg.NameForKey(req.Key()), req.GetVersion())
		}
		return nil
	}
	return resp
}

func (s *side) exchange(req kmsg.Request) (kmsg.Response, error) {
	const corr = 77
	if _, err := s.conn.C.Write(s.conn.Frame(req, corr)); err != nil {
		return nil, err
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return nil, nil
	}
	b, err := s.conn.ReadFrame()
	if err != nil {
		return nil, err
	}
	if got := binary.BigEndian.Uint32(b); got != corr {
		s.t.Fatalf("%s answers correlation id %d", s.name, got)
	}
	b = b[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		s.t.Fatalf("%s: answer to %s v%d does not decode: %v\n% x", s.name, kmsg.NameForKey(req.Key()), req.GetVersion(), err, b[:min(len(b), 200)])
	}
	return resp, nil
}

// settle waits until the broker's own view of a topic is what the controller
// answered: present with leaders that answer, or gone.
func (s *side) settle(short string, partitions int) error {
	name := s.topic(short)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		req.Topics = append(req.Topics, rt)
		resp, ok := s.do(req).(*kmsg.MetadataResponse)
		if !ok || len(resp.Topics) != 1 {
			continue
		}
		t := resp.Topics[0]
		if partitions == 0 && t.ErrorCode == 3 {
			return nil
		}
		if t.ErrorCode != 0 || len(t.Partitions) != partitions || partitions == 0 {
			continue
		}
		s.learn(name, t.TopicID)
		if s.leads(name, partitions) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s does not settle at %d partitions", s.name, name, partitions)
}

func (s *side) leads(name string, partitions int) bool {
	lo := kmsg.NewPtrListOffsetsRequest()
	lo.Version, lo.ReplicaID = 6, -1
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = name
	for p := range partitions {
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Partition, lp.Timestamp, lp.CurrentLeaderEpoch = int32(p), -1, -1
		lt.Partitions = append(lt.Partitions, lp)
	}
	lo.Topics = append(lo.Topics, lt)
	resp, ok := s.do(lo).(*kmsg.ListOffsetsResponse)
	if !ok {
		return false
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			return false
		}
	}
	return true
}
