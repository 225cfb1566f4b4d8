package quarantine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	format "github.com/tidemark-io/tidemark/consumer/quarantine"
	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/cli/lines"
	"github.com/tidemark-io/tidemark/internal/ops/effectsource"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
)

// handledGroup marks what was redriven or dropped in a quarantine topic.
func handledGroup(topic string) string { return survey.BookkeepingPrefix + topic }

// mark is what is handled in one partition: everything below next, and done
// above it.
type mark struct {
	next int64
	done beacon.Set
}

func (m mark) handled(offset int64) bool { return offset < m.next || m.done.Contains(offset) }

// with adds an offset. all are the offsets of the partition's records, ascending:
// next moves over those that are handled and over the gaps between them.
func (m mark) with(offset int64, all []int64) mark {
	out, waits := mark{next: m.next}, false
	for _, o := range all {
		switch handled := o == offset || m.handled(o); {
		case !handled:
			waits = true
		case waits:
			out.done = out.done.Add(o)
		default:
			out.next = max(out.next, o+1)
		}
	}
	return out
}

// contents is a quarantine topic as it is.
type contents struct {
	topic   string
	records []*kgo.Record // sorted by partition and offset
	marks   map[int32]mark
}

// maxRecords bounds what one command holds in memory.
const maxRecords = 100_000

func load(ctx context.Context, a *app.App, adm *app.Admin, topic string) (*contents, error) {
	c := &contents{topic: topic, marks: map[int32]mark{}}
	request, cancel := a.Request(ctx)
	committed, err := adm.FetchOffsets(request, handledGroup(topic))
	cancel()
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nothing was handled yet
		return nil, app.Explain(err, "", "group %s", handledGroup(topic))
	}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Topic != topic || o.Err != nil || o.At < 0 {
			return
		}
		m := mark{next: o.At}
		if b, err := beacon.Decode(o.Metadata); err == nil && b.Effect == o.At {
			m.done = b.Done
		}
		c.marks[o.Partition] = m
	})
	err = effectsource.ReadTopic(ctx, topic, adm.Raw, lines.Dial(a), func(r *kgo.Record) error {
		if len(c.records) == maxRecords {
			return fmt.Errorf("more than %d records: handle some of them first, with retention or \"tidemark topic\"", maxRecords)
		}
		c.records = append(c.records, r)
		return nil
	})
	if err != nil {
		return nil, app.Explain(err, "", "read %s", topic)
	}
	slices.SortFunc(c.records, func(x, y *kgo.Record) int {
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	})
	return c, nil
}

func (c *contents) handled(r *kgo.Record) bool { return c.marks[r.Partition].handled(r.Offset) }

// handle marks a record and commits the mark.
func (c *contents) handle(ctx context.Context, a *app.App, adm *app.Admin, r *kgo.Record) error {
	var all []int64
	for _, o := range c.records {
		if o.Partition == r.Partition {
			all = append(all, o.Offset)
		}
	}
	m := c.marks[r.Partition].with(r.Offset, all)
	b := beacon.Beacon{AtMs: time.Now().UnixMilli(), Position: all[len(all)-1] + 1, Effect: m.next, OldestOffset: -1, Done: m.done}
	text := beacon.Encode(b, beacon.BrokerLimit) // a mark has all the room there is
	if back, err := beacon.Decode(text); err != nil || back.Cut > 0 {
		return app.Refused("too many separate records of %s/%d are handled: the marks no longer fit a commit", c.topic, r.Partition).
			Fix("handle the oldest records first")
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: c.topic, Partition: r.Partition, At: m.next, LeaderEpoch: -1, Metadata: text})
	request, cancel := a.Request(ctx)
	defer cancel()
	answers, err := adm.CommitOffsets(request, handledGroup(c.topic), offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return app.Explain(err, "", "mark %s/%d offset %d as handled", c.topic, r.Partition, r.Offset)
	}
	c.marks[r.Partition] = m
	return nil
}

// entry is a quarantined record as it is printed.
type entry struct {
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Handled   bool    `json:"handled"`
	Key       *string `json:"key"`
	// Origin is null for a record that this format did not write.
	Origin *origin `json:"origin"`
	Error  string  `json:"error,omitempty"`
}

type origin struct {
	Topic         string `json:"topic"`
	Partition     int32  `json:"partition"`
	Offset        int64  `json:"offset"`
	Group         string `json:"group"`
	Attempts      int    `json:"attempts"`
	Reason        string `json:"reason"`
	QuarantinedMs int64  `json:"quarantined_at_ms"`
	Redrives      int    `json:"redrives"`
}

func (c *contents) entry(r *kgo.Record) entry {
	e := entry{Partition: r.Partition, Offset: r.Offset, Handled: c.handled(r)}
	if r.Key != nil {
		key := string(r.Key)
		e.Key = &key
	}
	o, ok, err := format.Parse(r.Headers)
	switch {
	case err != nil:
		e.Error = err.Error()
	case !ok:
		e.Error = "the record has no origin"
	default:
		e.Origin = &origin{o.Topic, o.Partition, o.Offset, o.Group, o.Attempts, o.Reason, o.QuarantinedMs, o.Redrives}
	}
	return e
}
