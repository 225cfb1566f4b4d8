package effectsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

// Row is one statement of a source: that the record at Offset is closed, or,
// where Effect is set, that everything below Effect is.
type Row struct {
	Topic     string
	Partition int32
	Offset    int64
	Effect    *int64
	// Outcome says how the record ended; see closed.
	Outcome string
}

// closed reports whether an outcome closes a record. Sources that have no
// outcomes list only what is done.
func closed(outcome string) bool {
	switch strings.ToLower(outcome) {
	case "", "done", "applied", "duplicate", "quarantined":
		return true
	}
	return false
}

// loader gives every row that a source has for a group to add.
type loader func(ctx context.Context, group string, add func(Row) error) error

// Source is one or several places where effects are listed; they count together.
type Source struct {
	cl    logbounds.Client
	dial  []kgo.Opt
	loads []loader
}

// Options of Open.
type Options struct {
	// Client lists log ends, Dial are options of the client that reads the log.
	Client logbounds.Client
	Dial   []kgo.Opt
	// Query is the SQL query of database sources. Its columns are found by name:
	// topic, partition and offset, or topic, partition and effect. $1 is the group.
	// Empty takes the inbox of package consumer/effect, where the scope is the
	// group by convention.
	Query string
}

// Open makes a source of specs: "file:PATH", "topic:NAME", "sqlite:PATH" or
// "postgres://...". A path without a scheme is a file.
func Open(specs []string, o Options) (*Source, error) {
	s := &Source{cl: o.Client, dial: o.Dial}
	for _, spec := range specs {
		scheme, rest, ok := strings.Cut(spec, ":")
		switch {
		case ok && scheme == "file":
			s.loads = append(s.loads, fromFile(rest))
		case ok && scheme == "topic":
			s.loads = append(s.loads, fromTopic(rest, o.Client, o.Dial))
		case ok && scheme == "sqlite":
			s.loads = append(s.loads, fromSQL("sqlite", "file:"+rest+"?mode=ro", o))
		case ok && (scheme == "postgres" || scheme == "postgresql"):
			s.loads = append(s.loads, fromSQL("pgx", spec, o))
		case !ok || strings.HasPrefix(spec, ".") || strings.HasPrefix(spec, "/"):
			s.loads = append(s.loads, fromFile(spec))
		default:
			return nil, fmt.Errorf("effects source %q: it can be file:PATH, topic:NAME, sqlite:PATH or postgres://HOST/NAME", spec)
		}
	}
	return s, nil
}

// partitionState is what the source says about one partition.
type partitionState struct {
	set  runs
	mark int64 // everything below is closed; -1 when the source gave none
	low  int64 // lowest offset named, the beginning of what the source knows
}

func (p *partitionState) add(r Row) error {
	if r.Effect != nil {
		p.mark = max(p.mark, *r.Effect)
		return nil
	}
	if r.Offset < 0 {
		return fmt.Errorf("offset %d is negative", r.Offset)
	}
	if p.low < 0 || r.Offset < p.low {
		p.low = r.Offset
	}
	return p.set.add(r.Offset)
}

// next is the first offset at or above from that no row closes.
func (p *partitionState) next(from int64) int64 { return p.set.after(max(from, p.mark)) }

// Watermarks returns the first record without an effect, per partition of want
// that the source names at all; a partition for which it was not found has an
// error. A partition is walked from the lower of its committed offset and the
// source's lowest one: what lies before both is taken to be somebody else's.
func (s *Source) Watermarks(ctx context.Context, group string, want []kadm.Offset) (kadm.ListedOffsets, error) {
	known := map[string]map[int32]*partitionState{}
	for _, load := range s.loads {
		if err := load(ctx, group, func(r Row) error { return addRow(known, r) }); err != nil {
			return nil, err
		}
	}
	want = slices.DeleteFunc(slices.Clone(want), func(o kadm.Offset) bool { return known[o.Topic][o.Partition] == nil })
	if len(want) == 0 {
		return nil, nil
	}
	logs, err := s.logs(ctx, want)
	if err != nil {
		return nil, err
	}
	w := walker{known: known, ends: logs.LastStable, at: map[string]map[int32]int64{}, marks: marks{}}
	for _, o := range want {
		p := known[o.Topic][o.Partition]
		from := p.low
		if o.At >= 0 && (from < 0 || o.At < from) {
			from = o.At
		}
		if p.mark >= 0 { // the source's own word, even where the commit is ahead of it
			from = p.mark
		}
		at := p.next(max(from, 0))
		end, err := logs.Find(logs.LastStable, o.Topic, o.Partition)
		switch {
		case err != nil: // whether a number that is missing is a record is not known
			w.marks.fail(o.Topic, o.Partition, err)
		case at >= end.Offset:
			w.marks.put(o.Topic, o.Partition, at)
		default:
			w.going(o.Topic, o.Partition, at)
		}
	}
	return kadm.ListedOffsets(w.marks), w.run(ctx, s.dial)
}

// marks are the watermarks that were found, and why others were not.
type marks kadm.ListedOffsets

func (m marks) set(o kadm.ListedOffset) {
	if m[o.Topic] == nil {
		m[o.Topic] = map[int32]kadm.ListedOffset{}
	}
	m[o.Topic][o.Partition] = o
}

func (m marks) put(topic string, partition int32, at int64) {
	m.set(kadm.ListedOffset{Topic: topic, Partition: partition, Offset: at})
}

func (m marks) fail(topic string, partition int32, err error) {
	m.set(kadm.ListedOffset{Topic: topic, Partition: partition, Offset: -1, Err: err})
}

func addRow(known map[string]map[int32]*partitionState, r Row) error {
	if !closed(r.Outcome) {
		return nil
	}
	if known[r.Topic] == nil {
		known[r.Topic] = map[int32]*partitionState{}
	}
	p := known[r.Topic][r.Partition]
	if p == nil {
		p = &partitionState{mark: -1, low: -1}
		known[r.Topic][r.Partition] = p
	}
	if err := p.add(r); err != nil {
		return fmt.Errorf("%s/%d: %w", r.Topic, r.Partition, err)
	}
	return nil
}

func (s *Source) logs(ctx context.Context, want []kadm.Offset) (*logbounds.Bounds, error) {
	var topics []string
	for _, o := range want {
		if !slices.Contains(topics, o.Topic) {
			topics = append(topics, o.Topic)
		}
	}
	return logbounds.Read(ctx, s.cl, topics...)
}

// Bounds of a walk through the log.
const (
	walkTimeout = 15 * time.Second
	walkRecords = 2_000_000
)

var errWalk = errors.New("the log was not read to its first record without an effect within the bounds")

// walker reads each partition from where the source's first gap is, until a
// record that has no effect, or the end.
type walker struct {
	known map[string]map[int32]*partitionState
	ends  kadm.ListedOffsets
	at    map[string]map[int32]int64 // where to go on
	marks marks
}

func (w *walker) going(topic string, partition int32, at int64) {
	if w.at[topic] == nil {
		w.at[topic] = map[int32]int64{}
	}
	w.at[topic][partition] = at
}

// stop fails every partition that is not decided.
func (w *walker) stop(err error) {
	for topic, partitions := range w.at {
		for partition := range partitions {
			w.marks.fail(topic, partition, err)
		}
	}
}

func (w *walker) run(ctx context.Context, dial []kgo.Opt) error {
	start := map[string]map[int32]kgo.Offset{}
	left := 0
	for topic, partitions := range w.at {
		start[topic] = map[int32]kgo.Offset{}
		for partition, at := range partitions {
			start[topic][partition] = kgo.NewOffset().At(at)
			left++
		}
	}
	if left == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, walkTimeout)
	defer cancel()
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, dial...), kgo.ConsumePartitions(start), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxWait(250*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for records := 0; left > 0; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil || records > walkRecords {
			w.stop(errWalk)
			return nil
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if _, open := w.at[p.Topic][p.Partition]; !open {
				return
			}
			records += len(p.Records)
			if w.take(p) {
				delete(w.at[p.Topic], p.Partition)
				cl.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
				left--
			}
		})
	}
	return nil
}

// take goes on through the records of one fetch; it returns true when the
// partition is decided.
func (w *walker) take(p kgo.FetchTopicPartition) bool {
	state, at := w.known[p.Topic][p.Partition], w.at[p.Topic][p.Partition]
	if p.Err != nil {
		w.marks.fail(p.Topic, p.Partition, p.Err)
		return true
	}
	for _, r := range p.Records {
		if r.Offset >= state.next(r.Offset) && !r.Attrs.IsControl() {
			w.marks.put(p.Topic, p.Partition, r.Offset)
			return true
		}
		at = r.Offset + 1
	}
	end, _ := w.ends.Lookup(p.Topic, p.Partition)
	if at = state.next(at); at >= end.Offset {
		w.marks.put(p.Topic, p.Partition, at)
		return true
	}
	w.going(p.Topic, p.Partition, at)
	return false
}
