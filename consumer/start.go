package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/consumer/internal/startpos"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
	"github.com/tidemark-io/tidemark/internal/types"
)

type fetchedKey struct {
	topic string
	id    types.UUID // when the answer has ids instead of names
	part  int32
}

type fetchedOffset struct {
	offset int64
	epoch  int32
	text   string
}

// onFetched keeps the commit metadata that the client itself has no use for.
func (l *loop) onFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	l.fetched = map[fetchedKey]fetchedOffset{}
	put := func(topic string, id [16]byte, part int32, o fetchedOffset, meta *string) {
		if meta != nil {
			o.text = *meta
		}
		k := fetchedKey{topic: topic, part: part}
		if topic == "" {
			k.id = id
		}
		l.fetched[k] = o
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				put(t.Topic, t.TopicID, p.Partition, fetchedOffset{p.Offset, p.LeaderEpoch, ""}, p.Metadata)
			}
		}
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			put(t.Topic, [16]byte{}, p.Partition, fetchedOffset{p.Offset, p.LeaderEpoch, ""}, p.Metadata)
		}
	}
	return nil
}

// bounds are what the cluster says about the topics of an assignment.
type bounds struct {
	logs        *logbounds.Bounds
	retentionMs map[string]int64
	group       kadm.OffsetResponses // only read when a new partition must be told from an old one
}

// begin is the decision about one partition.
type begin struct {
	tp               types.TopicPartition
	start            int64
	epoch            int32
	committed        int64
	restored         beacon.Set
	since            int32
	held             error
	d                startpos.Decision
	logStart, logEnd int64
	retentionMs      int64
	stoppedMs        int64
	foreign          string
	movedFrom        int64
	newPartition     bool
	hasBeacon        bool
	unknown          bool // the log bounds could not be read
}

// adjust decides where every newly assigned partition begins, before anything of
// it is fetched. An error makes the client rejoin and ask again.
func (l *loop) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-l.clientReady
	if len(offsets) == 0 {
		return offsets, nil
	}
	begun := time.Now()
	b, err := l.c.readBounds(ctx, offsets)
	if err != nil {
		return nil, err
	}
	var begins []begin
	for topic, ps := range offsets {
		since := l.sinceOf(b, topic)
		for partition := range ps {
			bg := l.decide(b, types.TopicPartition{Topic: topic, Partition: partition}, since)
			if bg.held == nil && l.cfg.OnAssigned != nil {
				if err := l.cfg.OnAssigned(ctx, topic, partition, bg.start); err != nil {
					bg.held = fmt.Errorf("OnAssigned refused %s at offset %d: %w", bg.tp, bg.start, err)
				}
			}
			ps[partition] = kgo.NewOffset().At(bg.start).WithEpoch(bg.epoch)
			begins = append(begins, bg)
		}
	}
	if !l.call(func() { l.beginAll(begins, nowMs()); l.total.AssignTime += time.Since(begun) }) {
		return nil, ErrClosed
	}
	return offsets, nil
}

// fetchedFor finds a partition in the last OffsetFetch answer, by name or by id.
func (l *loop) fetchedFor(b *bounds, tp types.TopicPartition) (fetchedOffset, bool) {
	if f, ok := l.fetched[fetchedKey{topic: tp.Topic, part: tp.Partition}]; ok {
		return f, true
	}
	f, ok := l.fetched[fetchedKey{id: b.logs.Topics[tp.Topic].ID, part: tp.Partition}]
	return f, ok
}

// sinceOf is how many partitions the topic had when the group first consumed it:
// the smallest count in any beacon of the group, else the count of now.
func (l *loop) sinceOf(b *bounds, topic string) int32 {
	since := int32(0)
	look := func(text string) {
		if bc, err := beacon.Decode(text); err == nil && bc.Since > 0 && (since == 0 || bc.Since < since) {
			since = bc.Since
		}
	}
	for _, o := range b.group[topic] {
		look(o.Metadata)
	}
	for partition := range int32(len(b.logs.Topics[topic].Partitions)) {
		if f, ok := l.fetchedFor(b, types.TopicPartition{Topic: topic, Partition: partition}); ok {
			look(f.text)
		}
	}
	return since
}

func (l *loop) decide(b *bounds, tp types.TopicPartition, since int32) begin {
	bg := begin{tp: tp, epoch: -1, committed: Absent, since: since, retentionMs: -1, movedFrom: Absent}
	f, ok := l.fetchedFor(b, tp)
	if ok && f.offset >= 0 {
		bg.committed = f.offset
	}
	if ms, known := b.retentionMs[tp.Topic]; known {
		bg.retentionMs = ms
	}
	others := false
	for p, o := range b.group[tp.Topic] {
		others = others || p != tp.Partition && o.Err == nil && o.At >= 0
	}
	bg.newPartition = startpos.IsNew(tp.Partition, since, others && l.cfg.Start != StartNone)
	if bg.since == 0 { // nobody wrote it yet: from here on it is written
		bg.since = int32(len(b.logs.Topics[tp.Topic].Partitions))
		if others {
			bg.since = min(bg.since, tp.Partition)
		}
	}
	bg.logStart, bg.logEnd = at(b.logs.LogStart, tp.Topic, tp.Partition), at(b.logs.HighWatermark, tp.Topic, tp.Partition)
	switch {
	case bg.logStart != Absent && bg.logEnd != Absent:
		bg.d = startpos.Decide(startpos.Input{
			Committed: bg.committed, LogStart: bg.logStart, LogEnd: bg.logEnd,
			Policy: startpos.Policy(l.cfg.Start), New: bg.newPartition,
		})
		if bg.d.Held != "" {
			bg.held = &StartError{Topic: tp.Topic, Partition: tp.Partition, Offset: bg.committed, LogStart: bg.logStart, LogEnd: bg.logEnd, Reason: bg.d.Held}
		}
	case bg.committed != Absent: // if it is out of range the first fetch says so
		bg.d = startpos.Decision{Offset: bg.committed, UsesCommit: true}
	default: // one partition without a leader must not keep the others from starting
		bg.unknown = true
		bg.held = fmt.Errorf("the log bounds of %s cannot be read yet", tp)
	}
	bg.start = bg.d.Offset
	bg.readBeacon(f)
	return bg
}

// readBeacon takes from the commit metadata what an earlier owner left. Metadata
// of other software, and a set that belongs to another offset, are left alone:
// then everything from the committed offset on is read.
func (bg *begin) readBeacon(f fetchedOffset) {
	if bg.committed == Absent || f.text == "" {
		if bg.d.UsesCommit {
			bg.epoch = f.epoch
		}
		return
	}
	bc, err := beacon.Decode(f.text)
	if err != nil {
		bg.foreign = err.Error()
	} else {
		bg.hasBeacon = true
		bg.stoppedMs = max(0, nowMs()-bc.AtMs)
		if bc.Effect != bg.committed {
			bg.movedFrom = bc.Effect
		}
	}
	if !bg.d.UsesCommit {
		return
	}
	bg.epoch = f.epoch
	if err == nil && bc.Effect == bg.committed {
		bg.restored = bc.Done
	}
}

// readBounds asks for partitions, log bounds and retention of the topics; what it
// needs is asked again a few times before the assignment fails.
func (c *Consumer) readBounds(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (*bounds, error) {
	topics := make([]string, 0, len(offsets))
	uncommitted := false
	for t, ps := range offsets {
		topics = append(topics, t)
		for _, o := range ps {
			uncommitted = uncommitted || o.EpochOffset().Offset < 0
		}
	}
	var b *bounds
	var err error
	for try := range 4 {
		if b, err = c.readBoundsOnce(ctx, topics, uncommitted); err == nil {
			return b, nil
		}
		select {
		case <-time.After(time.Duration(100<<try) * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.logs == nil || uncommitted && b.group == nil {
		return nil, fmt.Errorf("consumer: read the bounds of %v: %w", topics, err)
	}
	return b, nil // some partitions are missing in it
}

// readBoundsOnce returns what it could read, and an error unless that is all.
func (c *Consumer) readBoundsOnce(ctx context.Context, topics []string, group bool) (*bounds, error) {
	b := &bounds{}
	logs, err := logbounds.Read(ctx, c.prod, topics...)
	if err != nil {
		return b, err
	}
	b.logs = logs
	if err = logs.Err(); group {
		var failed error
		if b.group, failed = c.adm.FetchOffsets(ctx, c.cfg.Group); failed != nil {
			b.group, err = nil, errors.Join(err, failed)
		}
	}
	b.retentionMs = c.retentions(ctx, topics)
	return b, err
}

// retentions reads retention.ms of topics that delete by time. Without the right
// to read configurations retention is unknown, and then no record is judged by it.
func (c *Consumer) retentions(ctx context.Context, topics []string) map[string]int64 {
	out := map[string]int64{}
	configs, err := c.adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil && len(topics) > 1 { // kadm gives up at the first topic that may not be read
		configs = nil
		for _, topic := range topics {
			if one, err := c.adm.DescribeTopicConfigs(ctx, topic); err == nil {
				configs = append(configs, one...)
			}
		}
	}
	for _, rc := range configs {
		if ms, ok := retentionOf(rc); ok {
			out[rc.Name] = ms
		}
	}
	return out
}

// retentionOf returns retention.ms of a topic that deletes by time.
func retentionOf(rc kadm.ResourceConfig) (int64, bool) {
	deletes, ms := true, int64(-1)
	for _, cfg := range rc.Configs {
		switch {
		case cfg.Value == nil:
		case cfg.Key == "cleanup.policy":
			deletes = *cfg.Value != "compact"
		case cfg.Key == "retention.ms":
			ms, _ = strconv.ParseInt(*cfg.Value, 10, 64)
		}
	}
	return ms, deletes && rc.Err == nil
}

// beginAll makes the objects of a new assignment.
func (l *loop) beginAll(begins []begin, now int64) {
	for _, bg := range begins {
		p := l.newPart(bg.tp, bg.start, bg.epoch, bg.restored, now)
		p.held, p.since, p.retentionMs, p.expired = bg.held, bg.since, bg.retentionMs, bg.d.Expired
		p.logStart, p.logEnd, p.stoppedMs = bg.logStart, bg.logEnd, bg.stoppedMs
		p.unknown, p.isNew = bg.unknown, bg.newPartition
		p.commit.Committed = bg.committed
		l.add(p)
		if l.cfg.InstanceID != "" && bg.hasBeacon {
			l.total.StaticWait = max(l.total.StaticWait, time.Duration(bg.stoppedMs)*time.Millisecond)
		}
		l.beginEvents(p, bg)
		if p.unknown {
			l.repair(p)
		}
	}
	l.pausedMs = 0
	l.pauseLevel(now) // before the client fetches anything
}

func (l *loop) beginEvents(p *part, bg begin) {
	detail := fmt.Sprintf("log %d..%d", bg.logStart, bg.logEnd)
	switch {
	case bg.held != nil:
		l.partEvent(EventHeld, p, bg.committed, detail, bg.held)
		return
	case bg.d.Truncated:
		l.partEvent(EventTruncated, p, bg.committed, fmt.Sprintf("the committed offset is past the log end; beginning at %d; %s", bg.start, detail), nil)
	case bg.d.Expired > 0:
		l.partEvent(EventExpired, p, bg.committed, fmt.Sprintf("retention removed %d offsets unread; beginning at %d; %s", bg.d.Expired, bg.start, detail), nil)
	}
	if bg.foreign != "" {
		l.partEvent(EventForeign, p, bg.committed, bg.foreign, nil)
	}
	if bg.movedFrom != Absent {
		l.partEvent(EventMoved, p, bg.committed, fmt.Sprintf("the beacon says %d: somebody moved the offset", bg.movedFrom), nil)
	}
	l.partEvent(EventAssigned, p, bg.start, detail, nil)
}
