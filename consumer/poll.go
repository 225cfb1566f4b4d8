package consumer

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/internal/assignment"
	"github.com/tidemark-io/tidemark/internal/types"
)

// pollRecords bounds one poll. What a fetch holds beyond it stays in the client.
const pollRecords = 500

// polled is what one poll brought. Until taken is closed no rebalance callback
// can run (BlockRebalanceOnPoll), so a record can never reach an assignment other
// than the one it was fetched for.
type polled struct {
	fetches kgo.Fetches
	taken   chan seeks
}

// seeks are positions that the client must move to before it polls again.
type seeks map[string]map[int32]kgo.EpochOffset

// pollForever always has a poll under way, also when everything is paused: it is
// where errors come from. It is the loop's arm: it owns nothing.
func (l *loop) pollForever() {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		size := 0
		if !l.call(func() { size = l.beginPoll(cancel) }) {
			cancel()
			return
		}
		p := polled{l.cl.PollRecords(ctx, size), make(chan seeks, 1)}
		cancel()
		select {
		case l.polled <- p:
		case <-l.dead:
			l.cl.AllowRebalance()
			return
		}
		select {
		case s := <-p.taken:
			if len(s) > 0 {
				l.cl.SetOffsets(s)
			}
		case <-l.dead:
		}
		l.cl.AllowRebalance()
		if p.fetches.IsClientClosed() {
			return
		}
	}
}

// beginPoll notes how the poll that is about to begin is interrupted, and returns how
// many records it may bring.
func (l *loop) beginPoll(cancel context.CancelFunc) (size int) {
	if l.pollStop = cancel; l.pollSkip {
		cancel()
		l.pollSkip = false
	}
	return l.pollSize()
}

// pollSize is how many records the next poll may bring: what is left below the
// bound of all, and no more than the bound of one partition. It is never 0, since
// errors come by polls too; what is paused brings nothing anyway.
func (l *loop) pollSize() int {
	room := l.cfg.TotalRecords
	for _, p := range l.order {
		room -= p.a.Unfinished()
	}
	return max(1, min(room, l.cfg.PartitionRecords, pollRecords))
}

// intake takes a poll in. Everything in it belongs to the assignments that are in
// l.parts now.
func (l *loop) intake(p polled, now int64) {
	move := seeks{}
	l.total.lastPollMs = now
	l.polls++
	p.fetches.EachPartition(func(ftp kgo.FetchTopicPartition) {
		pt := l.parts[types.TopicPartition{Topic: ftp.Topic, Partition: ftp.Partition}]
		if ftp.Err != nil {
			l.fetchError(pt, ftp.Topic, ftp.Partition, ftp.Err, now)
			pt = l.parts[types.TopicPartition{Topic: ftp.Topic, Partition: ftp.Partition}]
		}
		if pt == nil {
			return
		}
		if len(ftp.Records) > 0 {
			pt.logStart, pt.logEnd, pt.stable = ftp.LogStartOffset, ftp.HighWatermark, ftp.LastStableOffset
		}
		if pt.held == nil && !pt.seek {
			l.deliverAll(pt, ftp.Records, now)
		}
	})
	for _, pt := range l.order {
		if pt.seek {
			topic := move[pt.tp.Topic]
			if topic == nil {
				topic = map[int32]kgo.EpochOffset{}
				move[pt.tp.Topic] = topic
			}
			topic[pt.tp.Partition] = kgo.EpochOffset{Epoch: -1, Offset: pt.a.Position()}
			pt.seek = false // the next poll comes after the move
		}
	}
	l.pollStop = nil // what interrupts from here on means the next poll
	p.taken <- move
}

func (l *loop) deliverAll(pt *part, records []*kgo.Record, now int64) {
	var bytes int64
	for _, r := range records {
		bytes += int64(len(r.Key) + len(r.Value))
	}
	if share := l.sizer.add(len(records), bytes, l.cfg.PartitionRecords); share > 0 {
		l.cl.UpdateFetchMaxBytes(l.cfg.FetchBytes, share)
	}
	for _, r := range records {
		if r.Attrs.IsControl() {
			pt.a.Advance(r.Offset + 1)
			pt.dirtyLine = true
			continue
		}
		w := newWork(r, pt)
		switch pt.a.Deliver(now, r.Offset, r.LeaderEpoch, w.rec.Key, w.sizeBytes, w) {
		case assignment.Accepted:
			l.total.Delivered++
		case assignment.Restored:
			l.total.Delivered++
			l.total.Restored++
		case assignment.Regressed:
			// Offsets below the position again: the log was cut and written anew. Begin
			// a new assignment there; results for the old log must not count.
			l.partEvent(EventTruncated, pt, r.Offset, "records came again below the position", nil)
			l.rebuild(pt, r.Offset, now)
			return
		case assignment.Refused:
			return // being given away: not delivered, so the next owner reads it
		}
		pt.dirtyLine = true
	}
}

// rebuild replaces an assignment object from the given offset on. What was not
// finished below it is read again; what was finished below it stays finished.
func (l *loop) rebuild(old *part, from int64, now int64) {
	start := min(old.a.Effect(), from)
	done := old.a.CompletedSet()
	keep := done[:0]
	for _, r := range done {
		if r.Last = min(r.Last, from-1); r.First <= r.Last {
			keep = append(keep, r)
		}
	}
	p := l.newPart(old.tp, start, -1, keep, now)
	p.commit, p.member, p.since, p.retentionMs = old.commit, old.member, old.since, old.retentionMs
	p.logStart, p.logEnd, p.stable, p.expired = old.logStart, old.logEnd, old.stable, old.expired
	p.assignedMs, p.stoppedMs, p.logLine = old.assignedMs, old.stoppedMs, old.logLine
	p.seek = true
	l.add(p)
	l.interruptPoll()
}

// interruptPoll makes a poll return now, so that pending seeks are done and drains
// end: the one under way or, between two polls, the next, which may find everything
// paused and would wait for ever.
func (l *loop) interruptPoll() {
	if l.pollStop == nil {
		l.pollSkip = true
		return
	}
	l.pollStop()
}

// fetchError sorts out what a poll reports besides records.
func (l *loop) fetchError(pt *part, topic string, partition int32, err error, now int64) {
	var lost *kgo.ErrDataLoss
	var session *kgo.ErrGroupSession
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
	case errors.As(err, &session):
		l.event(Event{Kind: EventGroupError, Offset: Absent, Err: err})
	case pt == nil:
		l.event(Event{Kind: EventFetchError, Topic: topic, Partition: partition, Offset: Absent, Err: err})
	case errors.As(err, &lost):
		// The client found where the logs part and goes on from there by itself.
		l.partEvent(EventTruncated, pt, lost.ConsumedTo, "", err)
		if lost.ResetTo < pt.a.Position() {
			l.rebuild(pt, lost.ResetTo, now)
		}
	case errors.Is(err, kerr.OffsetOutOfRange):
		l.repair(pt)
	default:
		l.partEvent(EventFetchError, pt, pt.a.Position(), "", err)
	}
}

// runningNow counts handlers of live assignments.
func (l *loop) runningNow() (n int) {
	for _, p := range l.order {
		n += p.a.Count(assignment.Running)
	}
	return n
}

func (l *loop) setLogCompletion(topic string, partition int32, on bool) {
	tp := types.TopicPartition{Topic: topic, Partition: partition}
	l.logLines[tp] = on
	if p := l.parts[tp]; p != nil {
		p.logLine, p.dirtyLine = on, true
	}
}

// live returns the parts of a callback's map that are still ours.
func (l *loop) live(m map[string][]int32) (out []*part) {
	for topic, partitions := range m {
		for _, partition := range partitions {
			if p := l.parts[types.TopicPartition{Topic: topic, Partition: partition}]; p != nil {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b *part) int { return int(a.tp.Partition) - int(b.tp.Partition) })
	return out
}
