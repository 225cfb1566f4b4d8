package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// Kinds of --to.
const (
	toStart  = "start"
	toEnd    = "end"
	toOffset = "offset"
	toShift  = "shift"
	toTime   = "time"
)

// target is a parsed --to.
type target struct {
	kind string
	n    int64 // offset, shift, or milliseconds
}

func parseTarget(s string) (target, error) {
	s = strings.TrimSpace(s)
	switch s {
	case "start", "earliest", "beginning":
		return target{kind: toStart}, nil
	case "end", "latest":
		return target{kind: toEnd}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if s[0] == '+' || s[0] == '-' {
			return target{toShift, n}, nil
		}
		return target{toOffset, n}, nil
	}
	t, err := app.ParseTime(strings.TrimPrefix(s, "@"), time.Now())
	if err != nil {
		return target{}, errors.New("write start, end, an offset, +N, -N, or a time (RFC 3339, @MILLISECONDS, or an age such as 90m)")
	}
	return target{toTime, t.UnixMilli()}, nil
}

// moved is one partition of a reset.
type moved struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Before    *int64 `json:"before"` // null: no commit
	After     int64  `json:"after"`
	LogStart  int64  `json:"log_start"`
	LogEnd    int64  `json:"log_end"`
	// Clamped says that the target lay outside the log.
	Clamped bool `json:"clamped,omitempty"`
}

// move computes where a partition goes. Targets outside the log are moved to
// its nearer end, as kafka-consumer-groups does. at tells the offset at the time.
func (t target) move(r position, at func(position) (int64, error)) (moved, error) {
	if r.LogStart == nil || r.LogEnd == nil {
		return moved{}, app.Failed("%s-%d: %s", r.Topic, r.Partition, r.Problem).Fix("leave it out with --topic")
	}
	m := moved{Topic: r.Topic, Partition: r.Partition, Before: r.Committed, LogStart: *r.LogStart, LogEnd: *r.LogEnd}
	want := t.n
	switch t.kind {
	case toStart:
		want = m.LogStart
	case toEnd:
		want = m.LogEnd
	case toShift:
		if r.Committed == nil {
			return moved{}, app.Failed("%s-%d has no commit to move from", r.Topic, r.Partition).Fix("give --to an offset or a time")
		}
		want = *r.Committed + t.n
	case toTime:
		found, err := at(r)
		if err != nil { // never the end: that would skip what the time was to keep
			return moved{}, app.Explain(err, "", "offset of %s-%d at the time", r.Topic, r.Partition)
		}
		if want = m.LogEnd; found >= 0 {
			want = found
		}
	}
	m.After = min(max(want, m.LogStart), m.LogEnd)
	m.Clamped = m.After != want
	return m, nil
}

// effect says in words what the group will do.
func (m moved) effect() string {
	s := "first commit"
	if m.Before != nil {
		switch d := m.After - *m.Before; {
		case d < 0:
			s = app.Plural(-d, "record") + " read again"
		case d > 0:
			s = app.Plural(d, "record") + " skipped"
		default:
			s = "no change"
		}
	}
	if m.Clamped {
		s += fmt.Sprintf(" (the log has %d to %d)", m.LogStart, m.LogEnd)
	}
	return s
}

// startsNew says that a group is not there yet: a reset makes it.
func startsNew(err error) bool { return errors.Is(err, kerr.GroupIDNotFound) }

// spec is a parsed TOPIC[:PARTITION,...].
type spec struct {
	topic      string
	partitions []int32 // nil: all
}

func parseSpec(s string) (spec, error) {
	topic, list, some := strings.Cut(s, ":")
	if topic == "" {
		return spec{}, app.Usage("%q names no topic", s)
	}
	out := spec{topic: topic}
	if !some {
		return out, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		p, err := strconv.ParseInt(part, 10, 32)
		if err != nil || p < 0 {
			return spec{}, app.Usage("%q: %q is not a partition", s, part).Fix("write TOPIC:0,1,2")
		}
		out.partitions = append(out.partitions, int32(p))
	}
	return out, nil
}

func (s spec) has(r position) bool {
	return s.topic == r.Topic && (s.partitions == nil || slices.Contains(s.partitions, r.Partition))
}

// choose returns the rows that specs name.
func choose(rows []position, specs []string) ([]position, error) {
	out := []position{}
	for _, text := range specs {
		s, err := parseSpec(text)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if s.has(r) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// withTopics returns a row for every partition that specs name, committed or
// not: a reset may set offsets where the group has none.
func withTopics(ctx context.Context, adm *app.Admin, rows []position, specs []string) ([]position, error) {
	have := map[string]map[int32]*position{}
	for _, text := range specs {
		s, err := parseSpec(text)
		if err != nil {
			return nil, err
		}
		topics, err := adm.ListTopics(ctx, s.topic)
		if err != nil {
			return nil, app.Explain(err, "", "topic %s", s.topic)
		}
		d, ok := topics[s.topic]
		if !ok || d.Err != nil {
			return nil, app.Explain(kerr.UnknownTopicOrPartition, "", "topic %s", s.topic)
		}
		ids := s.partitions
		if ids == nil {
			ids = d.Partitions.Numbers()
		}
		if have[s.topic] == nil {
			have[s.topic] = map[int32]*position{}
		}
		for _, p := range ids {
			have[s.topic][p] = &position{Topic: s.topic, Partition: p, Epoch: -1}
		}
	}
	for _, r := range rows {
		if have[r.Topic] != nil && have[r.Topic][r.Partition] != nil {
			have[r.Topic][r.Partition] = &r
		}
	}
	return withLogs(ctx, adm, have)
}
