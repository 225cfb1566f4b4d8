package consumer

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/consumer/internal/assignment"
)

// lines describes every partition as it is now.
func (l *loop) lines(now int64) []Line {
	out := make([]Line, 0, len(l.order))
	for _, p := range l.order {
		out = append(out, l.line(p, now))
	}
	return out
}

func (l *loop) line(p *part, now int64) Line {
	a := p.a
	ln := Line{
		Topic: p.tp.Topic, Partition: p.tp.Partition, LogStart: p.logStart, LogEnd: p.logEnd, LastStable: p.stable,
		Committed: p.commit.Committed, Effect: a.Effect(), Position: a.Position(),
		Queued: a.Count(assignment.Queued), Running: a.Count(assignment.Running), RetryWait: a.Count(assignment.RetryWait),
		Quarantining: a.Count(assignment.Quarantining), Bytes: a.Load().Bytes, CompletedAhead: a.CompletedAhead(),
		Oldest: Oldest{Offset: Absent}, Paused: p.paused, Held: p.held,
		Generation: a.Generation, GroupGeneration: p.member.Generation, Quarantined: a.Quarantined(), Expired: p.expired,
		SourceGone: p.sourceGone, AssignedAt: time.UnixMilli(p.assignedMs), Stopped: ms(p.stoppedMs),
	}
	if it := a.Oldest(); it != nil {
		ln.Oldest = Oldest{
			Offset: it.Offset, Age: ms(now - it.Delivered), Key: it.Key,
			Stage: it.Stage.String(), Attempts: it.Attempts, LastError: it.LastError,
		}
	}
	ages := a.StageAges(now)
	ln.OldestQueued, ln.OldestRunning, ln.OldestRetry = ms(ages[assignment.Queued]), ms(ages[assignment.Running]), ms(ages[assignment.RetryWait])
	if limit := l.cfg.ProcessingDeadline; limit > 0 {
		a.Each(func(it *assignment.Item) {
			if it.Stage == assignment.Running && ms(now-it.StageSince) > limit {
				ln.OverDeadline++
			}
		})
	}
	return ln
}

func ms(n int64) time.Duration { return time.Duration(max(n, 0)) * time.Millisecond }

// printLines writes the completion line of partitions that have it on and whose
// state changed.
func (l *loop) printLines() {
	for _, p := range l.order {
		if !p.logLine || !p.dirtyLine {
			continue
		}
		p.dirtyLine = false
		if s := completionLine(p.a); s != p.linePrinted {
			p.linePrinted = s
			l.cfg.Logger.Info(s, "group", l.cfg.Group, "topic", p.tp.Topic, "partition", p.tp.Partition, "generation", p.a.Generation)
		}
	}
}

// completionLine is delivered=[10,11,12] completed={11,12} next=10: what was
// delivered from the first unfinished record on, which of it is completed, and
// the offset that may be committed. Four or more offsets in a row are written as
// first..last. An offset that no record has is in neither list.
func completionLine(a *assignment.Assignment) string {
	var delivered, completed offsetList
	a.EachDelivered(func(o int64, done bool) {
		delivered.add(o)
		if done {
			completed.add(o)
		}
	})
	return "delivered=[" + delivered.String() + "] completed={" + completed.String() + "} next=" + strconv.FormatInt(a.Effect(), 10)
}

// maxListed bounds the parts of a list in a completion line.
const maxListed = 100

type offsetList struct {
	runs [][2]int64
	more int
}

func (ol *offsetList) add(o int64) {
	if n := len(ol.runs); n > 0 && ol.more == 0 && ol.runs[n-1][1]+1 == o {
		ol.runs[n-1][1] = o
		return
	}
	if len(ol.runs) == maxListed {
		ol.more++
		return
	}
	ol.runs = append(ol.runs, [2]int64{o, o})
}

// String lists the offsets.
func (ol *offsetList) String() string {
	var parts []string
	for _, r := range ol.runs {
		if r[1]-r[0] >= 3 {
			parts = append(parts, fmt.Sprintf("%d..%d", r[0], r[1]))
			continue
		}
		for o := r[0]; o <= r[1]; o++ {
			parts = append(parts, strconv.FormatInt(o, 10))
		}
	}
	if ol.more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", ol.more))
	}
	return strings.Join(parts, ",")
}

func (c *Consumer) stats(ctx context.Context) (Stats, error) {
	s := Stats{Membership: MembershipWaiting}
	err := c.onLoop(ctx, func(l *loop) { s = l.stats(nowMs()) })
	s.Sends = c.sends.counts()
	return s, err
}

func (l *loop) stats(now int64) Stats {
	s := l.total.Stats
	s.Membership = l.membership.state()
	s.SincePoll, s.SinceCommit = -1, -1
	if l.total.lastPollMs > 0 {
		s.SincePoll = ms(now - l.total.lastPollMs)
	}
	if l.total.lastCommitMs > 0 {
		s.SinceCommit = ms(now - l.total.lastCommitMs)
	}
	for _, p := range l.order {
		if it := p.a.Oldest(); it != nil {
			s.OldestInFlight = max(s.OldestInFlight, ms(now-it.Delivered))
		}
		s.OverDeadline += l.line(p, now).OverDeadline
	}
	return s
}

// WriteMetrics writes the lines and the totals in the Prometheus text format. A
// value that could not be read is left out, never 0.
func (c *Consumer) WriteMetrics(ctx context.Context, w io.Writer) error {
	lines, err := c.Line(ctx)
	if err != nil && lines == nil {
		return err
	}
	s, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, m := range lineMetrics {
		fmt.Fprintf(&b, "# HELP tidemark_%s %s\n# TYPE tidemark_%s %s\n", m.name, m.help, m.name, m.kind)
		for _, ln := range lines {
			m.write(&b, fmt.Sprintf("group=%q,topic=%q,partition=\"%d\"", c.cfg.Group, ln.Topic, ln.Partition), ln)
		}
	}
	for _, m := range totalMetrics {
		fmt.Fprintf(&b, "# HELP tidemark_%s %s\n# TYPE tidemark_%s %s\n", m.name, m.help, m.name, m.kind)
		m.write(&b, fmt.Sprintf("group=%q", c.cfg.Group), s)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
