package consume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

// where is a parsed --from.
type where struct {
	kind string // start, end, offset, last, time
	n    int64  // offset, count, or milliseconds
}

func parseFrom(s string, now time.Time) (where, error) {
	s = strings.TrimSpace(s)
	switch s {
	case "start", "beginning", "earliest":
		return where{kind: "start"}, nil
	case "end", "latest":
		return where{kind: "end"}, nil
	}
	if ms, ok := strings.CutPrefix(s, "@"); ok {
		t, err := app.ParseTime(ms, now)
		if err != nil {
			return where{}, err
		}
		return where{kind: "time", n: t.UnixMilli()}, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n < 0 || strings.HasPrefix(s, "-") {
			return where{kind: "last", n: -n}, nil
		}
		return where{kind: "offset", n: n}, nil
	}
	t, err := app.ParseTime(s, now)
	if err != nil {
		return where{}, errors.New("write start, end, an offset, -N, or a time (RFC 3339, @MILLISECONDS, or an age such as 90m)")
	}
	return where{kind: "time", n: t.UnixMilli()}, nil
}

// span is what to read of one partition: from start up to, not including, end.
type span struct{ start, end int64 }

// spans resolves where to start and where the end is now, by asking the cluster.
func spans(ctx context.Context, adm *app.Admin, topic string, o options, from where) (map[int32]span, error) {
	logs, err := logbounds.Read(ctx, adm.Raw, topic)
	if err == nil {
		err = logs.Topics[topic].Err
	}
	if err != nil {
		return nil, app.Explain(err, "", "read %s", topic)
	}
	ids, err := choose(topic, logs.Topics[topic].Partitions, o.partitions)
	if err != nil {
		return nil, err
	}
	ends := logs.HighWatermark
	if o.isolation == "read_committed" {
		ends = logs.LastStable
	}
	var times kadm.ListedOffsets
	if from.kind == "time" {
		times = logs.At(ctx, adm.Raw, from.n)
	}
	out := map[int32]span{}
	for _, p := range ids {
		first, err := logs.Find(logs.LogStart, topic, p)
		last, lastErr := logs.Find(ends, topic, p)
		at, atErr := kadm.ListedOffset{Offset: -1}, error(nil)
		if from.kind == "time" {
			at, atErr = logs.Find(times, topic, p)
		}
		if err := cmp.Or(err, lastErr, atErr); err != nil {
			return nil, app.Explain(err, "", "read %s-%d", topic, p)
		}
		out[p] = span{start: from.resolve(first.Offset, last.Offset, at.Offset), end: last.Offset}
	}
	return out, nil
}

// resolve returns the offset to start at; at is the one at the time, -1 for none.
func (w where) resolve(first, last, at int64) int64 {
	switch w.kind {
	case "end":
		return last
	case "offset":
		return w.n
	case "last":
		return max(first, last-w.n)
	case "time":
		if at >= 0 {
			return at
		}
		return last
	}
	return first
}

// choose returns the partitions to read: all, or the named ones if they exist.
func choose(topic string, have, wanted []int32) ([]int32, error) {
	if len(wanted) == 0 {
		return have, nil
	}
	for _, p := range wanted {
		if !slices.Contains(have, p) {
			return nil, app.NoPartition(topic, p, len(have))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(wanted))), nil
}

// String is for messages.
func (s span) String() string { return fmt.Sprintf("[%d, %d)", s.start, s.end) }
