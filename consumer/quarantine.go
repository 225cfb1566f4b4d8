package consumer

import (
	"container/heap"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/internal/assignment"
	"github.com/tidemark-io/tidemark/consumer/internal/retry"
	format "github.com/tidemark-io/tidemark/consumer/quarantine"
)

// quarantine lets a record go when there is a topic and budget for it; otherwise
// the record stays and its handler runs again later, because a downstream that
// refuses everything must not drain the topic into quarantine.
func (l *loop) quarantine(p *part, it *assignment.Item, reason string, now int64) {
	if l.cfg.QuarantineTopic == "" || !l.budget.Take(now) {
		why := "the budget is spent"
		if l.cfg.QuarantineTopic == "" {
			why = "there is no quarantine topic"
		}
		l.total.QuarantineHeld++
		if w := it.Payload.(*work); !w.held { // each further try says nothing new
			w.held = true
			l.partEvent(EventQuarantineHeld, p, it.Offset, why+": "+reason, nil)
		}
		p.a.Wait(it, now, "quarantine held, "+why+": "+reason)
		heap.Push(&l.retries, retryItem{now + l.backoffMs(it.Attempts), p, it})
		return
	}
	it.Payload.(*work).quarantine = reason
	l.appendQuarantine(p, it, now)
}

func (l *loop) backoffMs(attempts int) int64 {
	return retry.DelayMs(attempts, l.cfg.RetryBackoff.Milliseconds(), l.cfg.RetryBackoffMax.Milliseconds(), l.random.Float64())
}

// appendQuarantine sends the copy. The item is closed only when that append is
// acknowledged; until then it holds the effect watermark.
func (l *loop) appendQuarantine(p *part, it *assignment.Item, now int64) {
	p.a.Quarantine(it, now)
	w := it.Payload.(*work)
	rec := &kgo.Record{
		Topic: l.cfg.QuarantineTopic, Key: w.rec.Key, Value: w.rec.Value,
		Headers: format.Append(w.rec.Headers, format.Origin{
			Topic: p.tp.Topic, Partition: p.tp.Partition, Offset: it.Offset, LeaderEpoch: w.rec.LeaderEpoch,
			TimestampMs: w.rec.Timestamp.UnixMilli(), Group: l.cfg.Group, Attempts: it.Attempts,
			Reason: w.quarantine, QuarantinedMs: now,
		}),
	}
	// TryProduce never waits for room: the loop must not, since room comes from
	// answers that it has to take.
	l.c.prod.TryProduce(context.Background(), rec, func(_ *kgo.Record, err error) {
		go l.call(func() { l.quarantined(p, it, err, nowMs()) })
	})
}

func (l *loop) quarantined(p *part, it *assignment.Item, err error, now int64) {
	if p.dropped || !p.a.Owns(it) {
		// The next owner reads the record again and may quarantine it twice; the
		// origin headers name it.
		l.total.Stale++
		return
	}
	p.dirtyLine = true
	w := it.Payload.(*work)
	if err != nil {
		l.partEvent(EventQuarantineHeld, p, it.Offset, "the quarantine append failed", err)
		p.a.Wait(it, now, fmt.Sprintf("quarantine append: %v", err))
		heap.Push(&l.retries, retryItem{now + l.backoffMs(max(it.Attempts, 1)), p, it})
		return
	}
	p.a.Close(it, now)
	l.total.Quarantined++
	l.partEvent(EventQuarantined, p, it.Offset, w.quarantine, nil)
}

// inspectMs is how often running records are looked at.
const inspectMs = 200

// inspect looks for heads that hold up their partition, for handlers beyond the
// deadline and for those that do not return at all.
func (l *loop) inspect(now int64) {
	if now-l.checkedMs < inspectMs {
		return
	}
	l.checkedMs = now
	for _, p := range l.order {
		if p.held != nil || p.a.IntakeClosed() {
			continue
		}
		if l.cfg.PoisonHead && p.a.PoisonHead(l.cfg.PartitionWindow) {
			l.poison(p, now)
		}
		if l.cfg.ProcessingDeadline > 0 {
			l.overtime(p, now)
		}
	}
}

// poison ends the attempt at a head that keeps a nearly finished window from
// moving; a head that waits for a retry leaves at once.
func (l *loop) poison(p *part, now int64) {
	it := p.a.Oldest()
	w := it.Payload.(*work)
	switch it.Stage {
	case assignment.Running:
		if !w.poison {
			w.poison = true
			l.partEvent(EventPoison, p, it.Offset, "the window is full and nearly all of it is completed", nil)
			w.cancel(ErrPoisonHead)
		}
	case assignment.RetryWait:
		if w.quarantine != "" || !l.budget.Take(now) {
			return
		}
		l.partEvent(EventPoison, p, it.Offset, "the window is full and nearly all of it is completed", nil)
		l.retries.take(it)
		w.quarantine = "held up its partition: " + it.LastError
		l.appendQuarantine(p, it, now)
	}
}

func (l *loop) overtime(p *part, now int64) {
	deadline := l.cfg.ProcessingDeadline.Milliseconds()
	p.a.Each(func(it *assignment.Item) {
		if it.Stage != assignment.Running || now-it.StageSince <= deadline {
			return
		}
		w := it.Payload.(*work)
		if !w.overtime {
			w.overtime = true
			l.total.DeadlinePassed++
			l.partEvent(EventDeadline, p, it.Offset, "the handler runs beyond the processing deadline; its context has ended", nil)
		}
		if stuck := l.cfg.StuckAfter; stuck > 0 && now-it.StageSince > deadline+stuck.Milliseconds() {
			l.partEvent(EventStuck, p, it.Offset, "the handler ignores the end of its context: leaving the group", nil)
			l.c.fail(fmt.Errorf("%w: %s offset %d, %v after its deadline", ErrStuck, p.tp, it.Offset, stuck))
		}
	})
}

// take removes the wait of one item.
func (h *retryHeap) take(it *assignment.Item) {
	for i, r := range *h {
		if r.it == it {
			heap.Remove(h, i)
			return
		}
	}
}
