package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/consumer/internal/commitplan"
	"github.com/tidemark-io/tidemark/internal/types"
)

// commitTimeout bounds one commit request.
const commitTimeout = 30 * time.Second

// errFenced says that the member or generation changed between the snapshot and
// the request: nothing was sent.
var errFenced = errors.New("the group moved on before the commit was sent")

// commitEntry is one partition of a commit: offset, epoch and text are of one
// moment.
type commitEntry struct {
	p      *part
	offset int64
	epoch  int32
	text   string
}

// commitBatch is the commit in flight; there is never more than one.
type commitBatch struct {
	entries []commitEntry
	member  commitplan.Member
	cancel  context.CancelFunc
}

func (l *loop) intervals() commitplan.Intervals {
	return commitplan.Intervals{
		MovedMs: l.cfg.CommitInterval.Milliseconds(), BeaconMs: l.cfg.BeaconInterval.Milliseconds(), IdleMs: l.cfg.IdleBeaconInterval.Milliseconds(),
	}
}

func (l *loop) memberNow() commitplan.Member {
	id, generation := l.cl.GroupMetadata()
	return commitplan.Member{ID: id, Generation: generation}
}

// stepCommit sends what is due. During a revoke only the revoke commits.
func (l *loop) stepCommit(now int64) {
	if l.commit != nil || l.release != nil {
		return
	}
	m := l.memberNow()
	var due []*part
	for _, p := range l.order {
		next := p.a.Effect()
		moved := l.drained && next != p.commit.Committed && p.commit.Failures == 0
		if p.held == nil && (moved || p.commit.Due(now, next, p.a.Unfinished() > 0, m, l.intervals())) {
			due = append(due, p)
		}
	}
	if len(due) > 0 {
		l.sendCommit(due, m, now)
	}
}

// sendCommit takes one snapshot of the parts and sends it from a goroutine; the
// answer comes back as a message.
func (l *loop) sendCommit(parts []*part, m commitplan.Member, now int64) {
	b := &commitBatch{member: m}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	texts := map[types.TopicPartition]string{}
	for _, p := range parts {
		p.member = m
		e := commitEntry{p: p, offset: p.a.Effect(), epoch: p.a.EffectEpoch(), text: l.beaconOf(p, now)}
		b.entries = append(b.entries, e)
		if offsets[p.tp.Topic] == nil {
			offsets[p.tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.tp.Topic][p.tp.Partition] = kgo.EpochOffset{Epoch: e.epoch, Offset: e.offset}
		texts[p.tp] = e.text
		p.commit.Sent(now)
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	b.cancel, l.commit = cancel, b
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		if req.MemberID != m.ID || req.Generation != m.Generation {
			return errFenced
		}
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				text := texts[types.TopicPartition{Topic: t.Topic, Partition: t.Partitions[j].Partition}]
				t.Partitions[j].Metadata = &text
			}
		}
		return nil
	})
	go func() {
		var resp *kmsg.OffsetCommitResponse
		var err error
		l.cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, e error) {
			resp, err = r, e
			if r != nil {
				nameTopics(req, r)
			}
		})
		cancel()
		l.call(func() { l.committed(b, resp, err, nowMs()) })
	}()
}

// nameTopics puts names beside the ids of an answer (OffsetCommit v10).
func nameTopics(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	for i := range resp.Topics {
		for _, t := range req.Topics {
			if resp.Topics[i].Topic == "" && resp.Topics[i].TopicID == t.TopicID {
				resp.Topics[i].Topic = t.Topic
			}
		}
	}
}

func (l *loop) beaconOf(p *part, now int64) string {
	if l.limit <= 0 {
		return ""
	}
	b := p.a.Snapshot(now)
	b.Generation, b.Since, b.Paused = p.member.Generation, p.since, p.paused
	b.Retried, b.StoppedMs = p.retried, p.stoppedMs
	if l.total.lastPollMs > 0 {
		b.PollAgeMs = max(0, now-l.total.lastPollMs)
	}
	return beacon.Encode(b, l.limit)
}

// committed books the answer to the commit in flight.
func (l *loop) committed(b *commitBatch, resp *kmsg.OffsetCommitResponse, err error, now int64) {
	l.commit = nil
	codes := map[types.TopicPartition]int16{}
	if resp != nil {
		for _, t := range resp.Topics {
			for _, tp := range t.Partitions {
				codes[types.TopicPartition{Topic: t.Topic, Partition: tp.Partition}] = tp.ErrorCode
			}
		}
	}
	for _, e := range b.entries {
		code, answered := codes[e.p.tp]
		r, cause := commitplan.Defer, err
		switch {
		case err != nil:
			var ke *kerr.Error
			if errors.As(err, &ke) {
				r = commitplan.Classify(ke.Code)
			}
		case answered:
			r, cause = commitplan.Classify(code), kerr.ErrorForCode(code)
		default:
			cause = errors.New("the answer leaves the partition out")
		}
		l.bookCommit(e, b.member, r, cause, now)
	}
}

func (l *loop) bookCommit(e commitEntry, m commitplan.Member, r commitplan.Result, cause error, now int64) {
	if r == commitplan.Shrink {
		l.limit /= 2
		cause = fmt.Errorf("%w: beacons are now at most %d bytes", cause, l.limit)
		r = commitplan.Defer
	}
	switch r {
	case commitplan.OK:
		l.total.CommitsOK++
		l.total.lastCommitMs = now
	case commitplan.Lost:
		l.total.CommitsLost++
	default:
		l.total.CommitsDeferred++
	}
	if e.p.dropped {
		return
	}
	e.p.commit.Answered(now, e.offset, r, m)
	switch r {
	case commitplan.Lost:
		l.partEvent(EventCommitLost, e.p, e.offset, "", cause)
	case commitplan.Defer:
		l.partEvent(EventCommitDeferred, e.p, e.offset, "", cause)
	}
}

// drainWait is a Drain that waits. polls is how many polls were taken in when it
// began: the one under way then may still bring records.
type drainWait struct {
	done  chan struct{}
	polls int64
}

// stepDrains answers drains once everything delivered is closed and committed.
func (l *loop) stepDrains() {
	if len(l.drains) == 0 {
		return
	}
	for _, p := range l.order {
		if p.held == nil && (p.a.Unfinished() > 0 || p.commit.Committed != p.a.Effect()) {
			return
		}
	}
	var wait []*drainWait
	for _, d := range l.drains {
		if l.polls > d.polls {
			close(d.done)
		} else {
			wait = append(wait, d)
		}
	}
	l.drains = wait
}

func (c *Consumer) drain(ctx context.Context) error {
	d := &drainWait{done: make(chan struct{})}
	if err := c.onLoop(ctx, func(l *loop) {
		l.drained = true
		d.polls = l.polls
		l.interruptPoll()
		l.drains = append(l.drains, d)
	}); err != nil {
		return err
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
		return ErrClosed
	}
}

func (c *Consumer) resume(ctx context.Context) error {
	return c.onLoop(ctx, func(l *loop) { l.drained = false })
}
