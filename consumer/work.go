package consumer

import (
	"container/heap"
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/internal/assignment"
	"github.com/tidemark-io/tidemark/consumer/internal/retry"
)

// work is the payload of an item: the record and what the runtime decided on it.
type work struct {
	rec       Record
	sizeBytes int64
	cancel    context.CancelCauseFunc // of the running attempt
	// quarantine is why the record is to leave, once that is decided: then the
	// append is tried again, not the handler.
	quarantine string
	poison     bool // its context was ended because it holds up the window
	overtime   bool // it was reported as beyond the deadline
	held       bool // it was reported as held back from quarantine
}

// recordOverhead is what a delivered record costs beside its bytes.
const recordOverhead = 256

// newWork copies the record. What franz-go hands out aliases the buffer of a
// whole fetch, and one unfinished record would keep all of it in memory: the
// bound in bytes would then be none.
func newWork(r *kgo.Record, p *part) *work {
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	buf := make([]byte, 0, size)
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		at := len(buf)
		buf = append(buf, b...)
		return buf[at:len(buf):len(buf)]
	}
	w := &work{sizeBytes: int64(size) + recordOverhead}
	w.rec = Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch, Timestamp: r.Timestamp,
		Key: keep(r.Key), Value: keep(r.Value), Generation: p.a.Generation, GroupGeneration: p.member.Generation,
	}
	if len(r.Headers) > 0 {
		w.rec.Headers = make([]kgo.RecordHeader, len(r.Headers))
		for i, h := range r.Headers {
			w.rec.Headers[i] = kgo.RecordHeader{Key: strings.Clone(h.Key), Value: keep(h.Value)}
		}
	}
	return w
}

// result is what a handler returned.
type result struct {
	p     *part
	it    *assignment.Item
	out   Outcome
	panic any
	stack []byte
}

// start hands records to handlers, partition by partition in turn, while there is
// room. Handlers of dropped assignments that do not return take no room from
// live ones until there are as many of them as Concurrency.
func (l *loop) start(now int64) {
	if !l.deliver || len(l.order) == 0 {
		return
	}
	room := l.cfg.Concurrency - l.runningNow() - max(0, l.stale-l.cfg.Concurrency)
	for idle := 0; room > 0 && idle < len(l.order); {
		l.turn = (l.turn + 1) % len(l.order)
		p := l.order[l.turn]
		it := p.a.Next(now)
		if it == nil {
			idle++
			continue
		}
		idle = 0
		if w := it.Payload.(*work); w.quarantine != "" {
			l.appendQuarantine(p, it, now)
			continue
		}
		room--
		l.launch(p, it)
	}
}

func (l *loop) launch(p *part, it *assignment.Item) {
	w := it.Payload.(*work)
	ctx, cancel := context.WithCancelCause(p.ctx)
	stop := func() {}
	if d := l.cfg.ProcessingDeadline; d > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, d, ErrProcessingDeadline)
	}
	w.cancel, w.overtime = cancel, false
	rec := w.rec
	rec.Attempt = it.Attempts + 1
	go func() {
		r := result{p: p, it: it}
		func() {
			defer func() {
				if r.panic = recover(); r.panic != nil {
					r.stack = debug.Stack()
				}
			}()
			r.out = l.handler(ctx, rec)
		}()
		stop()
		cancel(nil)
		select {
		case l.results <- r:
		case <-l.dead:
		}
	}()
}

// finish acts on what a handler returned.
func (l *loop) finish(r result, now int64) {
	p, it := r.p, r.it
	if p.dropped || !p.a.Owns(it) {
		if p.dropped {
			l.stale--
		}
		l.total.Stale++
		l.partEvent(EventStale, p, it.Offset, fmt.Sprintf("outcome %q of generation %d came after its assignment ended", r.out.String(), p.a.Generation), nil)
		return
	}
	it.Attempts++
	p.dirtyLine = true
	w := it.Payload.(*work)
	if r.panic != nil {
		r.out = Outcome{kind: outcomeRetry, reason: fmt.Sprintf("panic: %v", r.panic)}
		l.partEvent(EventPanic, p, it.Offset, fmt.Sprintf("%v\n%s", r.panic, r.stack), nil)
	}
	switch {
	case r.out.kind == outcomeDone:
		p.a.Close(it, now)
		l.budget.Success(now)
		l.total.Done++
	case r.out.kind == outcomeQuarantine:
		l.quarantine(p, it, r.out.reason, now)
	case w.poison:
		l.quarantine(p, it, "held up its partition: "+r.out.reason, now)
	case l.cfg.MaxAttempts > 0 && it.Attempts >= l.cfg.MaxAttempts:
		l.quarantine(p, it, fmt.Sprintf("%d attempts: %s", it.Attempts, r.out.reason), now)
	default:
		l.total.Retried++
		p.retried++
		l.waitRetry(p, it, r.out.after, r.out.reason, now)
	}
}

// waitRetry puts an item to wait, unless its source would be gone by then: then a
// copy in quarantine is what is left of it after a restart.
func (l *loop) waitRetry(p *part, it *assignment.Item, after time.Duration, reason string, now int64) {
	w := it.Payload.(*work)
	delay := after.Milliseconds()
	if after <= 0 {
		delay = retry.DelayMs(it.Attempts, l.cfg.RetryBackoff.Milliseconds(), l.cfg.RetryBackoffMax.Milliseconds(), l.random.Float64())
	}
	due := now + delay
	gone := retry.SourceExpires(w.rec.Timestamp.UnixMilli(), p.retentionMs, due) || it.Offset < p.logStart
	if gone && w.quarantine == "" && l.cfg.QuarantineTopic != "" && l.budget.Take(now) {
		w.quarantine = "retention removes the source before the next attempt: " + reason
		l.appendQuarantine(p, it, now)
		return
	}
	p.a.Wait(it, now, reason)
	heap.Push(&l.retries, retryItem{due, p, it})
}

// wakeRetries brings back what is due.
func (l *loop) wakeRetries(now int64) {
	for len(l.retries) > 0 && l.retries[0].dueMs <= now {
		r := heap.Pop(&l.retries).(retryItem)
		r.p.a.Due(r.it, now)
	}
}

type retryItem struct {
	dueMs int64
	p     *part
	it    *assignment.Item
}

type retryHeap []retryItem

func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].dueMs < h[j].dueMs }
func (h retryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is container/heap's.
func (h *retryHeap) Push(x any) { *h = append(*h, x.(retryItem)) }

// Pop is container/heap's.
func (h *retryHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = retryItem{}
	*h = old[:n]
	return x
}

// forget removes the waits of a dropped assignment.
func (h *retryHeap) forget(p *part) {
	keep := (*h)[:0]
	for _, r := range *h {
		if r.p != p {
			keep = append(keep, r)
		}
	}
	clear((*h)[len(keep):])
	*h = keep
	heap.Init(h)
}
