package logdump

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

func joinMarks(marks []string) string {
	if len(marks) == 0 {
		return ""
	}
	slices.Sort(marks)
	return ", " + strings.Join(marks, ", ")
}

// recordInfo is one JSON line about a record. What a known topic's record means
// stands in Decoded.
type recordInfo struct {
	Kind        string       `json:"kind"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"`
	Key         *string      `json:"key"`
	KeyBase64   []byte       `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"value_base64,omitempty"`
	Headers     []headerInfo `json:"headers,omitempty"`
	Type        string       `json:"type,omitempty"`
	Decoded     any          `json:"decoded,omitempty"`
}

type headerInfo struct {
	Key   string `json:"key"`
	Value []byte `json:"value_base64"`
}

// showRecords decodes the records of a batch: always to check them, and to
// print them when asked to, or when the topic's records mean something to us.
func (s *scanner) showRecords(b record.Batch) error {
	show := s.o.records || s.kind != kindLog || b.IsControl()
	for r, err := range b.Records(s.o.limit) {
		if err != nil {
			return s.damage(s.pos, "its records: %w", err)
		}
		if !show {
			continue
		}
		name, decoded, err := s.decode(b, r)
		if err != nil {
			if err := s.damage(s.pos, "record at offset %d: %w", r.Offset, err); err != nil {
				return err
			}
		}
		if err := s.showRecord(r, name, decoded); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) showRecord(r record.Record, name string, decoded any) error {
	if s.a.JSON() {
		info := recordInfo{Kind: "record", Offset: r.Offset, Timestamp: r.Timestamp, Type: name}
		if decoded != nil {
			info.Decoded = plain{decoded}
		} else {
			info.Key, info.KeyBase64 = textOrBase64(r.Key)
			info.Value, info.ValueBase64 = textOrBase64(r.Value)
		}
		for _, h := range r.Headers {
			info.Headers = append(info.Headers, headerInfo{h.Key, h.Value})
		}
		return s.line(info)
	}
	if decoded != nil {
		s.a.Printf("  %d %s %s\n", r.Offset, name, plain{decoded})
		return nil
	}
	s.a.Printf("  %d time %d key %s value %s%s\n", r.Offset, r.Timestamp, s.quote(r.Key), s.quote(r.Value), headersText(r.Headers))
	return nil
}

func headersText(headers []record.Header) string {
	var b strings.Builder
	for _, h := range headers {
		b.WriteString(" header " + h.Key + "=" + strconv.Quote(string(h.Value)))
	}
	return b.String()
}

// quote shows bytes as a Go string, shortened unless --values asks for all.
func (s *scanner) quote(b []byte) string {
	const short = 48
	switch {
	case b == nil:
		return "null"
	case len(b) > short && !s.o.values:
		return strconv.Quote(string(b[:short])) + "... (" + strconv.Itoa(len(b)) + " B)"
	}
	return strconv.Quote(string(b))
}

func textOrBase64(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	t := string(b)
	return &t, nil
}

// decode explains a record of a topic that Kafka itself writes; name is empty
// and decoded nil for any other.
func (s *scanner) decode(b record.Batch, r record.Record) (name string, decoded any, err error) {
	switch {
	case b.IsControl():
		return decodeControl(r)
	case s.kind == kindMetadata:
		rec, err := recordschema.ParseFrame(r.Value)
		if err != nil {
			return "", nil, err
		}
		return recordschema.Name(rec), rec, nil
	case s.kind == kindOffsets:
		return decodeOffsets(r)
	}
	return "", nil, nil
}

func decodeControl(r record.Record) (string, any, error) {
	t, err := recordschema.ParseControlKey(r.Key)
	if err != nil {
		return "", nil, err
	}
	switch t {
	case recordschema.ControlAbort, recordschema.ControlCommit:
		m := kmsg.NewEndTxnMarker()
		if err := m.ReadFrom(r.Value); err != nil {
			return "", nil, err
		}
		name := "CommitMarker"
		if t == recordschema.ControlAbort {
			name = "AbortMarker"
		}
		return name, map[string]any{"coordinator_epoch": m.CoordinatorEpoch}, nil
	}
	c, err := recordschema.ParseControlRecord(r.Key, r.Value)
	if err != nil {
		return "", nil, err
	}
	return controlNames[t], c, nil
}

var controlNames = map[recordschema.ControlType]string{
	recordschema.ControlLeaderChange:   "LeaderChange",
	recordschema.ControlSnapshotHeader: "SnapshotHeader",
	recordschema.ControlSnapshotFooter: "SnapshotFooter",
	recordschema.ControlKRaftVersion:   "KRaftVersion",
	recordschema.ControlKRaftVoters:    "KRaftVoters",
}

// decodeOffsets explains records of __consumer_offsets: committed offsets and
// classic groups; records of the newer group types stay as bytes.
func decodeOffsets(r record.Record) (string, any, error) {
	if len(r.Key) < 2 {
		return "", nil, nil
	}
	switch version := int16(r.Key[0])<<8 | int16(r.Key[1]); version {
	case 0, 1:
		return decodeCommit(r)
	case 2:
		return decodeGroup(r)
	}
	return "", nil, nil
}

func decodeCommit(r record.Record) (string, any, error) {
	k := kmsg.NewOffsetCommitKey()
	if err := k.ReadFrom(r.Key); err != nil {
		return "", nil, err
	}
	out := map[string]any{"group": k.Group, "topic": k.Topic, "partition": k.Partition}
	if r.Value == nil {
		return "OffsetDelete", out, nil
	}
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(r.Value); err != nil {
		return "", nil, err
	}
	out["offset"], out["leader_epoch"], out["metadata"], out["commit_timestamp"] = v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp
	return "OffsetCommit", out, nil
}

func decodeGroup(r record.Record) (string, any, error) {
	k := kmsg.NewGroupMetadataKey()
	if err := k.ReadFrom(r.Key); err != nil {
		return "", nil, err
	}
	if r.Value == nil {
		return "GroupDelete", map[string]any{"group": k.Group}, nil
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(r.Value); err != nil {
		return "", nil, err
	}
	members := []string{}
	for _, m := range v.Members {
		members = append(members, m.MemberID)
	}
	return "Group", map[string]any{"group": k.Group, "protocol_type": v.ProtocolType, "generation": v.Generation, "leader": v.Leader, "members": members}, nil
}
