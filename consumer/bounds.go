package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/consumer/internal/startpos"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

// listTimeout bounds a listing of log bounds.
const listTimeout = 15 * time.Second

// at returns a listed offset, Absent when it could not be read.
func at(m kadm.ListedOffsets, topic string, partition int32) int64 {
	if o, ok := m.Lookup(topic, partition); ok && o.Err == nil && o.Offset >= 0 {
		return o.Offset
	}
	return Absent
}

func (l *loop) topics() (out []string) {
	for _, p := range l.order {
		if n := len(out); n == 0 || out[n-1] != p.tp.Topic {
			out = append(out, p.tp.Topic)
		}
	}
	return out
}

// refreshBounds lists the log bounds now and then: a paused or idle partition has
// no fetches that would tell that retention has reached it.
func (l *loop) refreshBounds(now int64) {
	if l.listing || len(l.order) == 0 || now-l.listedMs < l.cfg.BeaconInterval.Milliseconds() {
		return
	}
	l.listing, l.listedMs = true, now
	topics := l.topics()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
		defer cancel()
		b, _ := logbounds.Read(ctx, l.c.prod, topics...) // what failed keeps its last value
		l.call(func() {
			l.listing = false
			for _, p := range l.order {
				l.applyBounds(p, b)
			}
		})
	}()
}

func (l *loop) applyBounds(p *part, b *logbounds.Bounds) {
	set := func(v *int64, o int64) {
		if o != Absent {
			*v = o
		}
	}
	set(&p.logStart, at(b.LogStart, p.tp.Topic, p.tp.Partition))
	set(&p.logEnd, at(b.HighWatermark, p.tp.Topic, p.tp.Partition))
	set(&p.stable, at(b.LastStable, p.tp.Topic, p.tp.Partition))
	it := p.a.Oldest()
	gone := it != nil && it.Offset < p.logStart
	if gone && !p.sourceGone {
		l.partEvent(EventSourceGone, p, it.Offset, fmt.Sprintf("the log now starts at %d: after a restart this record could not be read again", p.logStart), nil)
	}
	p.sourceGone = gone
}

// repair asks where the log is after a fetch was out of its range.
func (l *loop) repair(p *part) {
	if p.repairing {
		return
	}
	p.repairing = true
	go func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
			b, _ := logbounds.Read(ctx, l.c.prod, p.tp.Topic)
			cancel()
			start, end := at(b.LogStart, p.tp.Topic, p.tp.Partition), at(b.HighWatermark, p.tp.Topic, p.tp.Partition)
			again := start == Absent || end == Absent
			if !l.call(func() {
				if again = again && !p.dropped; !again {
					p.repairing = false
					if !p.dropped {
						l.repaired(p, start, end, nowMs())
					}
				}
			}) || !again {
				return
			}
			select {
			case <-time.After(time.Second):
			case <-l.dead:
				return
			}
		}
	}()
}

// repaired moves a partition whose position is outside its log, by the rules of
// the start.
func (l *loop) repaired(p *part, start, end, now int64) {
	p.logStart, p.logEnd = start, end
	if p.unknown {
		l.begun(p, now)
		return
	}
	position := p.a.Position()
	d := startpos.Decide(startpos.Input{Committed: position, LogStart: start, LogEnd: end, Policy: startpos.Policy(l.cfg.Start)})
	switch {
	case d.Held != "":
		p.held = &StartError{Topic: p.tp.Topic, Partition: p.tp.Partition, Offset: position, LogStart: start, LogEnd: end, Reason: d.Held}
		l.partEvent(EventHeld, p, position, "", p.held)
	case d.Truncated:
		l.partEvent(EventTruncated, p, position, fmt.Sprintf("the position is past the log end %d; going on at %d", end, d.Offset), nil)
		l.rebuild(p, d.Offset, now)
	default:
		// Records that are delivered stay: below the log start this is the last copy.
		if p.expired += d.Expired; d.Expired > 0 {
			l.partEvent(EventExpired, p, position, fmt.Sprintf("retention removed %d offsets unread; going on at %d", d.Expired, d.Offset), nil)
		}
		p.a.Advance(d.Offset)
		p.seek = true
		l.interruptPoll()
	}
}

// begun starts a partition whose log bounds could not be read when it was
// assigned.
func (l *loop) begun(p *part, now int64) {
	p.unknown, p.held = false, nil
	d := startpos.Decide(startpos.Input{Committed: p.commit.Committed, LogStart: p.logStart, LogEnd: p.logEnd, Policy: startpos.Policy(l.cfg.Start), New: p.isNew})
	if d.Held != "" {
		p.held = &StartError{Topic: p.tp.Topic, Partition: p.tp.Partition, Offset: p.commit.Committed, LogStart: p.logStart, LogEnd: p.logEnd, Reason: d.Held}
		l.partEvent(EventHeld, p, p.commit.Committed, "", p.held)
		return
	}
	p.a.Advance(d.Offset) // nothing was delivered yet
	p.seek = true
	l.interruptPoll()
	l.partEvent(EventAssigned, p, d.Offset, fmt.Sprintf("log %d..%d", p.logStart, p.logEnd), nil)
}

// lines takes one snapshot of the loop first and lists log ends after it.
func (c *Consumer) lines(ctx context.Context) ([]Line, error) {
	var out []Line
	if err := c.onLoop(ctx, func(l *loop) { out = l.lines(nowMs()) }); err != nil {
		return nil, err
	}
	var topics []string
	for _, ln := range out {
		if !slices.Contains(topics, ln.Topic) {
			topics = append(topics, ln.Topic)
		}
	}
	if len(topics) == 0 {
		return out, nil
	}
	b, err := logbounds.Read(ctx, c.prod, topics...)
	if err != nil {
		return out, err
	}
	for i := range out {
		ln := &out[i]
		ln.LogStart, ln.LogEnd, ln.LastStable = at(b.LogStart, ln.Topic, ln.Partition), at(b.HighWatermark, ln.Topic, ln.Partition), at(b.LastStable, ln.Topic, ln.Partition)
	}
	return out, b.Err()
}
