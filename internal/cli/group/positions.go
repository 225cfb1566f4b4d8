package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

// position is where a group stands in one partition. A nil number was reported
// by nobody.
type position struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	LogStart  *int64 `json:"log_start"`
	Committed *int64 `json:"committed"`
	// Position and Effect come from the commit metadata of consumers that write
	// a beacon there; other clients keep their position to themselves.
	Position   *int64 `json:"position"`
	Effect     *int64 `json:"effect,omitempty"`
	ReportedMs *int64 `json:"reported_ms,omitempty"` // time of that report
	LogEnd     *int64 `json:"log_end"`
	// Uncommitted is log end less committed: the number that Kafka's tools call lag.
	Uncommitted *int64  `json:"uncommitted"`
	Epoch       int32   `json:"leader_epoch"`
	Metadata    string  `json:"metadata,omitempty"`
	Member      string  `json:"member,omitempty"`
	Instance    *string `json:"instance,omitempty"`
	Problem     string  `json:"problem,omitempty"`

	unread bool // Problem is a reading that failed
}

// positions joins commits, assignments and log ends.
func positions(ctx context.Context, adm *app.Admin, v view) ([]position, error) {
	commits, err := adm.FetchOffsets(ctx, v.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // a KIP-848 fetch knows no group that is not there
		return nil, app.Explain(err, "", "offsets of group %s", v.Group)
	}
	owners := v.owners()
	seen := map[string]map[int32]*position{}
	at := func(topic string, p int32) *position {
		if seen[topic] == nil {
			seen[topic] = map[int32]*position{}
		}
		if seen[topic][p] == nil {
			seen[topic][p] = &position{Topic: topic, Partition: p, Epoch: -1}
		}
		return seen[topic][p]
	}
	commits.Each(func(o kadm.OffsetResponse) {
		if row := at(o.Topic, o.Partition); o.Err != nil {
			row.Problem, row.unread = o.Err.Error(), true
		} else if o.At >= 0 {
			row.commit(o.Offset)
		}
	})
	for topic, ps := range owners {
		for p, m := range ps {
			row := at(topic, p)
			row.Member, row.Instance = m.ID, m.Instance
		}
	}
	return withLogs(ctx, adm, seen)
}

func (r *position) commit(o kadm.Offset) {
	r.Committed, r.Epoch, r.Metadata = &o.At, o.LeaderEpoch, o.Metadata
	if b, err := beacon.Decode(o.Metadata); err == nil {
		r.Position, r.Effect, r.ReportedMs = &b.Position, &b.Effect, &b.AtMs
	}
}

func withLogs(ctx context.Context, adm *app.Admin, seen map[string]map[int32]*position) ([]position, error) {
	topics := []string{}
	for t := range seen {
		topics = append(topics, t)
	}
	if len(topics) == 0 {
		return []position{}, nil
	}
	logs, err := logbounds.Read(ctx, adm.Raw, topics...)
	if err != nil {
		return nil, app.Explain(err, "", "log starts and ends")
	}
	out := []position{}
	for _, ps := range seen {
		for _, row := range ps {
			row.logs(logs)
			out = append(out, *row)
		}
	}
	slices.SortFunc(out, func(a, b position) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	return out, nil
}

func (r *position) logs(logs *logbounds.Bounds) {
	start, err := logs.Find(logs.LogStart, r.Topic, r.Partition)
	end, endErr := logs.Find(logs.HighWatermark, r.Topic, r.Partition)
	if err = cmp.Or(err, endErr); err != nil {
		r.Problem = err.Error()
		// That there is no such topic or partition is an answer, and known.
		r.unread = !errors.Is(err, logbounds.ErrNoPartition) && !errors.Is(err, kerr.UnknownTopicOrPartition)
		return
	}
	r.LogStart, r.LogEnd = &start.Offset, &end.Offset
	if r.Committed == nil {
		return
	}
	uncommitted := end.Offset - *r.Committed
	r.Uncommitted = &uncommitted
	switch {
	case *r.Committed < start.Offset:
		r.Problem = app.Plural(start.Offset-*r.Committed, "record") + " deleted before the group read them"
	case uncommitted < 0:
		r.Problem = "committed beyond the log end"
	}
}

// unread is an error when a reading of some rows failed: what was asked for was
// shown in part.
func unread(rows []position) error {
	n, first := 0, ""
	for _, r := range rows {
		if r.unread {
			if n++; n == 1 {
				first = fmt.Sprintf("%s/%d: %s", r.Topic, r.Partition, r.Problem)
			}
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return app.Inconclusive("not read: %s", first)
	}
	return app.Inconclusive("%d partitions were not read, the first is %s", n, first)
}

// number prints a reported number, or a dash.
func number(n *int64) any {
	if n == nil {
		return "-"
	}
	return *n
}
