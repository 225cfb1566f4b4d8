package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/line"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

// EffectSource tells effect watermarks from outside a group. It is asked once
// per survey, for all partitions that the group has committed in.
type EffectSource interface {
	// Watermarks returns the next offset without an effect, or why it was not found.
	// A partition that the source knows nothing about has no entry.
	Watermarks(ctx context.Context, group string, want []kadm.Offset) (kadm.ListedOffsets, error)
}

// Surveyor reads groups.
type Surveyor struct {
	cl      *kgo.Client
	adm     *kadm.Client
	dates   *dates
	effects EffectSource
}

// Options of a Surveyor.
type Options struct {
	// Dial are options of the client that reads single records for their
	// timestamps. Without them no ages of records are read.
	Dial []kgo.Opt
	// Effects is asked for effect watermarks; nil takes the beacons'.
	Effects EffectSource
}

// New returns a surveyor that asks through cl.
func New(cl *kgo.Client, o Options) *Surveyor {
	s := &Surveyor{cl: cl, adm: kadm.NewClient(cl), effects: o.Effects}
	if o.Dial != nil {
		s.dates = &dates{dial: o.Dial, known: map[place]int64{}}
	}
	return s
}

// Group is one group as it was found.
type Group struct {
	Name  string
	State string // empty when the cluster did not tell
	// Members is absent when the cluster did not tell.
	Members  boundary.Offset
	Readings []line.Reading
	// At is the time of this tool's clock when the last offset was read.
	At time.Time
}

// BookkeepingPrefix starts the names of groups in which "tidemark quarantine"
// marks what it handled. Nobody consumes with them, so they are no news.
const BookkeepingPrefix = "tidemark.quarantine."

// Names lists the groups that commit offsets, sorted.
func (s *Surveyor) Names(ctx context.Context) ([]string, error) {
	listed, err := s.adm.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range listed.Sorted() {
		// Share groups have no committed offsets; other protocol types than
		// "consumer" (Connect workers) commit none. Simple consumers have none.
		if g.GroupType == "share" || strings.HasPrefix(g.Group, BookkeepingPrefix) || g.ProtocolType != "" && g.ProtocolType != "consumer" {
			continue
		}
		names = append(names, g.Group)
	}
	return names, nil
}

// Read surveys one group. The error is about the group as a whole; what failed
// for a partition is in its reading.
func (s *Surveyor) Read(ctx context.Context, group string) (Group, error) {
	g := Group{Name: group}
	owners := s.describe(ctx, &g)
	// Committed first, ends second: the ends can only be later, so that no gap is
	// negative for want of time (kafka_exporter#76).
	committed, err := s.adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return g, err
	}
	readings := map[string]map[int32]*line.Reading{}
	at := func(topic string, partition int32) *line.Reading {
		if readings[topic] == nil {
			readings[topic] = map[int32]*line.Reading{}
		}
		r := readings[topic][partition]
		if r == nil {
			r = &line.Reading{Group: group, Topic: topic, Partition: partition, State: g.State, NoCommit: true}
			readings[topic][partition] = r
		}
		return r
	}
	for topic, partitions := range owners {
		for partition, owner := range partitions {
			at(topic, partition).Owner = owner
		}
	}
	committed.Each(func(o kadm.OffsetResponse) {
		r := at(o.Topic, o.Partition)
		// While a group is not stable a topic may be on its way to the next owner.
		r.Left = g.State == "Stable" && len(owners) > 0 && owners[o.Topic] == nil
		readCommit(r, o)
	})
	topics := make([]string, 0, len(readings))
	for topic := range readings {
		topics = append(topics, topic)
	}
	g.At = time.Now()
	if len(topics) > 0 {
		s.readEnds(ctx, topics, readings)
		g.At = time.Now()
		s.readEffects(ctx, group, committed, readings)
	}
	for _, partitions := range readings {
		for _, r := range partitions {
			g.Readings = append(g.Readings, *r)
		}
	}
	slices.SortFunc(g.Readings, func(a, b line.Reading) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return g, nil
}

// readCommit takes the committed offset and its beacon.
func readCommit(r *line.Reading, o kadm.OffsetResponse) {
	if o.Err != nil {
		r.NoCommit = false
		r.Problems = append(r.Problems, "committed offset: "+o.Err.Error())
		return
	}
	if o.At < 0 { // -1 is "no commit", not an offset (kafka_exporter#28)
		return
	}
	r.NoCommit = false
	r.Committed = boundary.At(o.At)
	b, err := beacon.Decode(o.Metadata)
	switch {
	case err == nil:
		r.Beacon = &b
	case errors.Is(err, beacon.ErrCorrupt):
		r.Problems = append(r.Problems, err.Error())
	}
}

// describe fills in state and members and returns who owns which partition. A
// cluster that does not serve the requests leaves them unknown.
func (s *Surveyor) describe(ctx context.Context, g *Group) map[string]map[int32]string {
	owners := map[string]map[int32]string{}
	own := func(topics kadm.TopicsSet, owner string) {
		topics.Each(func(topic string, partition int32) {
			if topic == "" { // an id whose topic is gone
				return
			}
			if owners[topic] == nil {
				owners[topic] = map[int32]string{}
			}
			owners[topic][partition] = owner
		})
	}
	classic, err := s.adm.DescribeGroups(ctx, g.Name)
	d, ok := classic[g.Name]
	known := err == nil && ok && d.Err == nil && d.State != "Dead"
	// A classic group that has had members has a protocol type. Without one it is a
	// KIP-848 group, which this request does not describe, or it holds the commits
	// of a simple consumer, which may well be running: calling that "Empty" would
	// mean stopped.
	if known && d.ProtocolType != "" {
		g.State, g.Members = d.State, boundary.At(int64(len(d.Members)))
		for _, m := range d.Members {
			own(classicAssignment(m), memberName(m.InstanceID, m.ClientID, m.ClientHost))
		}
		return owners
	}
	modern, err := s.adm.DescribeConsumerGroups(ctx, g.Name)
	if d, ok := modern[g.Name]; err == nil && ok && d.Err == nil {
		g.State, g.Members = d.State, boundary.At(int64(len(d.Members)))
		for _, m := range d.Members {
			own(m.Assignment, memberName(m.InstanceID, m.ClientID, m.ClientHost))
		}
		return owners
	}
	if known || ok && (d.State == "Dead" || errors.Is(d.Err, kerr.GroupIDNotFound)) {
		g.Members = boundary.At(0) // nobody heartbeats; a simple consumer does not
	}
	return owners
}

func classicAssignment(m kadm.DescribedGroupMember) kadm.TopicsSet {
	set := kadm.TopicsSet{}
	if a, ok := m.Assigned.AsConsumer(); ok {
		for _, t := range a.Topics {
			set.Add(t.Topic, t.Partitions...)
		}
	}
	return set
}

func memberName(instance *string, client, host string) string {
	if instance != nil && *instance != "" {
		return *instance + host
	}
	return client + host // Kafka's hosts start with a slash
}

// readEnds lists log start, high watermark and last stable offset.
func (s *Surveyor) readEnds(ctx context.Context, topics []string, readings map[string]map[int32]*line.Reading) {
	b, err := logbounds.Read(ctx, s.cl, topics...)
	for _, list := range []struct {
		name   string
		listed kadm.ListedOffsets
		field  func(*line.Reading) *boundary.Offset
	}{
		{"log start", b.LogStart, func(r *line.Reading) *boundary.Offset { return &r.LogStart }},
		{"last stable offset", b.LastStable, func(r *line.Reading) *boundary.Offset { return &r.LastStable }},
		{"high watermark", b.HighWatermark, func(r *line.Reading) *boundary.Offset { return &r.HighWatermark }},
	} {
		for topic, partitions := range readings {
			for partition, r := range partitions {
				o, failed := b.Find(list.listed, topic, partition)
				if cause := cmp.Or(err, failed); cause != nil {
					r.Problems = append(r.Problems, list.name+": "+cause.Error())
					continue
				}
				*list.field(r) = boundary.At(o.Offset)
			}
		}
	}
}

func (s *Surveyor) readEffects(ctx context.Context, group string, committed kadm.OffsetResponses, readings map[string]map[int32]*line.Reading) {
	if s.effects == nil {
		return
	}
	var want []kadm.Offset
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil {
			want = append(want, o.Offset)
		}
	})
	marks, err := s.effects.Watermarks(ctx, group, want)
	for topic, partitions := range readings {
		for partition, r := range partitions {
			v, ok := marks.Lookup(topic, partition)
			switch cause := cmp.Or(err, v.Err); {
			case cause != nil:
				r.Problems = append(r.Problems, "effects: "+cause.Error())
			case ok:
				r.Effect = boundary.At(v.Offset)
			}
		}
	}
}

// Judge reads the dates of the records at the boundaries and judges every
// reading of a group.
func (s *Surveyor) Judge(ctx context.Context, g *Group, o line.Options) []line.Line {
	o.NowMs = g.At.UnixMilli()
	if s.dates != nil {
		s.date(ctx, g.Readings, o)
	}
	lines := make([]line.Line, len(g.Readings))
	for i, r := range g.Readings {
		lines[i] = line.Judge(r, o)
	}
	return lines
}

// date fills in the timestamps: the place of the next record depends on what the
// line makes of the beacon, so the line is judged once without them.
func (s *Surveyor) date(ctx context.Context, readings []line.Reading, o line.Options) {
	var want []place
	for i := range readings {
		l := line.Judge(readings[i], o)
		for _, at := range places(&l) {
			want = append(want, at)
		}
	}
	s.dates.read(ctx, want)
	for i := range readings {
		l := line.Judge(readings[i], o)
		at := places(&l)
		if p, ok := at["unread"]; ok {
			readings[i].UnreadMs = s.dates.at(p)
		}
		if p, ok := at["committed"]; ok {
			readings[i].UncommittedMs = s.dates.at(p)
		}
	}
}

// places are the offsets of a line whose records have ages worth telling.
func places(l *line.Line) map[string]place {
	out := map[string]place{}
	add := func(name string, at, gap boundary.Offset) {
		n, _ := gap.Get()
		if v, ok := at.Get(); ok && n > 0 {
			if start, ok := l.LogStart.Get(); ok {
				v = max(v, start)
			}
			out[name] = place{l.Topic, l.Partition, v}
		}
	}
	add("unread", l.Position, l.Unread)
	add("committed", l.Committed, l.Uncommitted)
	return out
}

// Find reads one group's reading of a partition.
func (g *Group) Find(topic string, partition int32) (int, error) {
	for i, r := range g.Readings {
		if r.Topic == topic && r.Partition == partition {
			return i, nil
		}
	}
	var have []string
	for _, r := range g.Readings {
		have = append(have, fmt.Sprintf("%s/%d", r.Topic, r.Partition))
	}
	if len(have) == 0 {
		return 0, fmt.Errorf("group %s has no commits and no members", g.Name)
	}
	return 0, fmt.Errorf("group %s has no line for %s/%d; it has %s", g.Name, topic, partition, strings.Join(have[:min(len(have), 8)], ", "))
}
