package diff

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
)

// show writes a request or an answer as sorted lines, with everything that may
// differ between two brokers replaced by names.
func (s *side) show(v any) []string {
	if v == nil {
		return []string{"connection closed"}
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer && rv.IsNil() {
		return []string{"connection closed"}
	}
	out := s.lines(rv, "")
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], s.run, "~")
	}
	return out
}

// ignored fields differ for reasons that are not the protocol's; words are each
// broker's own.
var ignored = []string{
	"Version", "UnknownTags", "ThrottleMillis", "ClusterID", "Host", "Port", "TotalBytes", "UsableBytes",
	"BrokerEpoch", "Documentation", "ErrorMessage",
}

func (s *side) lines(v reflect.Value, field string) []string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return []string{"=null"}
		}
		return s.lines(v.Elem(), field)
	case reflect.Struct:
		var out []string
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || slices.Contains(ignored, f.Name) {
				continue
			}
			for _, l := range s.lines(v.Field(i), f.Name) {
				out = append(out, "."+f.Name+l)
			}
		}
		return out
	case reflect.Slice:
		return s.sliceLines(v, field)
	}
	return []string{"=" + s.leaf(v, field)}
}

func (s *side) sliceLines(v reflect.Value, field string) []string {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if field == "RecordBatches" || field == "Records" {
			return s.batches(v.Bytes())
		}
		return []string{fmt.Sprintf("=%q", v.Bytes())}
	}
	if v.IsNil() {
		return []string{"=null"}
	}
	items := make([][]string, v.Len())
	for i := range items {
		items[i] = s.lines(v.Index(i), field)
	}
	slices.SortFunc(items, slices.Compare)
	out := []string{fmt.Sprintf("=%d entries", len(items))}
	seen := map[string]int{}
	for _, it := range items {
		label := label(it)
		seen[label]++
		for _, l := range it {
			out = append(out, fmt.Sprintf("[%s#%d]%s", label, seen[label], l))
		}
	}
	return out
}

// label names an element of an array by its own name, so that one more element
// on one side is one difference.
func label(lines []string) string {
	for _, l := range lines {
		for _, field := range []string{".Name=", ".ConfigName=", ".Topic=", ".Partition=", ".Group=", ".ResourceName="} {
			if rest, ok := strings.CutPrefix(l, field); ok {
				return rest
			}
		}
	}
	return ""
}

// leaf names the values that each broker chooses for itself.
func (s *side) leaf(v reflect.Value, field string) string {
	if id, ok := v.Interface().([16]byte); ok {
		if id == ([16]byte{}) {
			return "zero"
		}
		if n, ok := s.names[id]; ok {
			return "id of " + n
		}
		return "an id"
	}
	switch field {
	case "ProducerID":
		if no, ok := s.pidNo[v.Int()]; ok {
			return fmt.Sprintf("producer %d", no)
		}
	case "SessionID":
		if no, ok := s.sessNo[int32(v.Int())]; ok {
			return fmt.Sprintf("session %d", no)
		}
		if v.Int() != 0 {
			return "a session"
		}
	case "Dir":
		return "a folder"
	case "Size": // codecs compress differently
		return fmt.Sprint(v.Int() > 0)
	case "LogAppendTime", "Timestamp", "LastTimestamp", "MaxTimestamp":
		return clock(v.Int())
	}
	if v.Kind() == reflect.String {
		return fmt.Sprintf("%q", v.String())
	}
	return fmt.Sprint(v.Interface())
}

// clock replaces a time that a broker took from its own clock: batches are given
// times before base+maxSpread.
func clock(ms int64) string {
	switch {
	case ms > baseMs+maxSpreadMs && ms < baseMs+86400_000:
		return "now"
	case ms >= baseMs-maxSpreadMs && ms <= baseMs+maxSpreadMs:
		return fmt.Sprintf("base%+d", ms-baseMs)
	}
	return fmt.Sprint(ms)
}

// batches writes the records of a fetch answer.
func (s *side) batches(b []byte) []string {
	if b == nil {
		return []string{"=null"}
	}
	out := []string{}
	for len(b) > 0 {
		batch, err := record.Parse(b)
		if err != nil {
			out = append(out, "[]=a part of a batch")
			break
		}
		out = append(out, "[]="+s.batch(batch))
		b = b[batch.LengthBytes():]
	}
	return append([]string{fmt.Sprintf("=%d entries", len(out))}, out...)
}

func (s *side) batch(b record.Batch) string {
	pid := fmt.Sprint(b.ProducerID())
	if no, ok := s.pidNo[b.ProducerID()]; ok {
		pid = fmt.Sprintf("producer %d", no)
	}
	crc := "crc ok"
	if err := b.Verify(); err != nil {
		crc = err.Error()
	}
	h := fnv.New64a()
	for r, err := range b.Records(1 << 24) {
		if err != nil {
			fmt.Fprint(h, "broken")
			break
		}
		fmt.Fprintf(h, "%d %s %q %q %q %v;", r.Offset, clock(r.Timestamp), r.Key, r.Value, r.Headers, r.Value == nil)
	}
	return fmt.Sprintf("offsets %d-%d epoch %d codec %v ts %s..%s (%v) %s/%d/%d count %d attributes %x %s records %x",
		b.BaseOffset(), b.LastOffset(), b.PartitionLeaderEpoch(), b.Codec(), clock(b.BaseTimestamp()), clock(b.MaxTimestamp()),
		b.TimestampType(), pid, b.ProducerEpoch(), b.BaseSequence(), b.Count(), b.Attributes(), crc, h.Sum64())
}

// note remembers ids that an answer gave out.
func (s *side) note(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			s.pidNo[r.ProducerID] = len(s.pids)
			s.pids = append(s.pids, r.ProducerID)
		}
	case *kmsg.FetchResponse:
		if _, known := s.sessNo[r.SessionID]; r.SessionID != 0 && !known {
			no := len(s.sess)
			s.sess[no], s.sessNo[r.SessionID] = r.SessionID, no
		}
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			s.learn(t.Topic, t.TopicID)
		}
	case *kmsg.DescribeTopicPartitionsResponse:
		s.cursor = nil
		if r.NextCursor != nil {
			s.cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: r.NextCursor.Topic, Partition: r.NextCursor.Partition}
		}
	}
}
