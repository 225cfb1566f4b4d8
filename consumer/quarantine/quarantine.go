package quarantine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Header keys of a quarantined record.
const (
	prefix             = "tm-"
	HeaderTopic        = "tm-origin-topic"
	HeaderPartition    = "tm-origin-partition"
	HeaderOffset       = "tm-origin-offset"
	HeaderLeaderEpoch  = "tm-origin-leader-epoch"
	HeaderTimestamp    = "tm-origin-timestamp" // Unix milliseconds of the record
	HeaderGroup        = "tm-group"
	HeaderAttempts     = "tm-attempts"
	HeaderReason       = "tm-reason"
	HeaderQuarantined  = "tm-quarantined-at" // Unix milliseconds
	HeaderRedriveCount = "tm-redrives"       // stays on the record when it is redriven
)

// maxReasonBytes bounds the reason, which is often an error text.
const maxReasonBytes = 1024

// Origin says where a quarantined record came from and why it is here.
type Origin struct {
	Topic         string
	Partition     int32
	Offset        int64
	LeaderEpoch   int32
	TimestampMs   int64
	Group         string
	Attempts      int
	Reason        string
	QuarantinedMs int64
	// Redrives counts how often the record went back to its origin: a loop guard
	// refuses to redrive it again beyond a bound.
	Redrives int
}

// Append adds o to the headers of the original record. Headers of an earlier
// quarantine are replaced, except that its redrive count is kept when it is the
// higher one.
func Append(headers []kgo.RecordHeader, o Origin) []kgo.RecordHeader {
	o.Redrives = max(o.Redrives, Redrives(headers))
	out := Strip(headers)
	add := func(key, value string) {
		out = append(out, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	add(HeaderTopic, o.Topic)
	add(HeaderPartition, strconv.FormatInt(int64(o.Partition), 10))
	add(HeaderOffset, strconv.FormatInt(o.Offset, 10))
	add(HeaderLeaderEpoch, strconv.FormatInt(int64(o.LeaderEpoch), 10))
	add(HeaderTimestamp, strconv.FormatInt(o.TimestampMs, 10))
	add(HeaderGroup, o.Group)
	add(HeaderAttempts, strconv.Itoa(o.Attempts))
	if len(o.Reason) > maxReasonBytes {
		o.Reason = o.Reason[:maxReasonBytes]
	}
	add(HeaderReason, o.Reason)
	add(HeaderQuarantined, strconv.FormatInt(o.QuarantinedMs, 10))
	if o.Redrives > 0 {
		add(HeaderRedriveCount, strconv.Itoa(o.Redrives))
	}
	return out
}

// Strip returns the headers without those of a quarantine, in their order.
func Strip(headers []kgo.RecordHeader) []kgo.RecordHeader {
	out := make([]kgo.RecordHeader, 0, len(headers)+10)
	for _, h := range headers {
		switch h.Key {
		case HeaderTopic, HeaderPartition, HeaderOffset, HeaderLeaderEpoch, HeaderTimestamp,
			HeaderGroup, HeaderAttempts, HeaderReason, HeaderQuarantined, HeaderRedriveCount:
		default:
			out = append(out, h)
		}
	}
	return out
}

// ForRedrive returns the headers for a copy that goes back to its origin: those
// of the quarantine are gone, the redrive count is one higher.
func ForRedrive(headers []kgo.RecordHeader) []kgo.RecordHeader {
	n := Redrives(headers) + 1
	return append(Strip(headers), kgo.RecordHeader{Key: HeaderRedriveCount, Value: []byte(strconv.Itoa(n))})
}

// Redrives reads how often a record was redriven; 0 when it never was or when
// the header cannot be read.
func Redrives(headers []kgo.RecordHeader) int {
	for _, h := range headers {
		if h.Key == HeaderRedriveCount {
			n, err := strconv.Atoi(string(h.Value))
			if err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}

// Parse reads the headers of a quarantined record. ok is false when the record
// has no origin topic, which means that this runtime did not write it.
func Parse(headers []kgo.RecordHeader) (o Origin, ok bool, err error) {
	for _, h := range headers {
		if !strings.HasPrefix(h.Key, prefix) {
			continue
		}
		value := string(h.Value)
		var n int64
		switch h.Key {
		case HeaderTopic:
			o.Topic, ok = value, true
			continue
		case HeaderGroup:
			o.Group = value
			continue
		case HeaderReason:
			o.Reason = value
			continue
		case HeaderPartition, HeaderOffset, HeaderLeaderEpoch, HeaderTimestamp, HeaderAttempts, HeaderQuarantined, HeaderRedriveCount:
			if n, err = strconv.ParseInt(value, 10, 64); err != nil {
				return o, ok, fmt.Errorf("quarantine header %s: %w", h.Key, err)
			}
		}
		o.set(h.Key, n)
	}
	return o, ok, nil
}

func (o *Origin) set(key string, n int64) {
	switch key {
	case HeaderPartition:
		o.Partition = int32(n)
	case HeaderOffset:
		o.Offset = n
	case HeaderLeaderEpoch:
		o.LeaderEpoch = int32(n)
	case HeaderTimestamp:
		o.TimestampMs = n
	case HeaderAttempts:
		o.Attempts = int(n)
	case HeaderQuarantined:
		o.QuarantinedMs = n
	case HeaderRedriveCount:
		o.Redrives = int(n)
	}
}
