package consumer

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/internal/assignment"
	"github.com/tidemark-io/tidemark/consumer/internal/commitplan"
	"github.com/tidemark-io/tidemark/consumer/internal/retry"
	"github.com/tidemark-io/tidemark/internal/types"
)

// loop is the one goroutine that owns the client, the partitions and the commits.
// Everything else reaches it through its channels; the fields below them are its
// own.
type loop struct {
	c           *Consumer
	cfg         *Config
	handler     Handler
	cl          *kgo.Client
	clientReady chan struct{} // closed when cl is set: callbacks may come earlier

	calls   chan func()
	results chan result
	polled  chan polled
	dead    chan struct{} // closed when the loop has returned

	parts    map[types.TopicPartition]*part
	order    []*part // round robin over the same parts
	turn     int
	stale    int // handlers of dropped assignments that have not returned
	retries  retryHeap
	budget   *retry.Budget
	pollStop context.CancelFunc // interrupts the poll under way, nil between two polls
	pollSkip bool               // the next poll shall not wait
	polls    int64              // taken in
	sizer    fetchSizer

	commit  *commitBatch // in flight, nil for none
	limit   int          // metadata limit, shrinks when the broker says so
	release *release     // revoke under way
	drains  []*drainWait
	drained bool // fetching is off on request

	membership  membership
	generations int64
	logLines    map[types.TopicPartition]bool
	deliver     bool  // false when closing: nothing new starts
	closeBy     int64 // bounds the drain of Close, 0 for none
	stopping    bool
	listing     bool
	listedMs    int64
	checkedMs   int64
	pausedMs    int64
	total       totals
	random      *rand.Rand

	// fetched is the last OffsetFetch answer; only the group's own goroutine
	// touches it, between onFetched and adjust.
	fetched map[fetchedKey]fetchedOffset
}

// part is one partition during one assignment. A dropped part is never used
// again: its context is done, and results that refer to it are stale.
type part struct {
	tp      types.TopicPartition
	a       *assignment.Assignment
	ctx     context.Context
	cancel  context.CancelCauseFunc
	dropped bool

	commit         commitplan.State
	member         commitplan.Member
	held           error
	seek           bool // fetched records are ignored until the client has moved
	paused         string
	logStart       int64
	logEnd, stable int64
	retentionMs    int64 // -1 none or unknown
	since          int32
	expired        int64
	sourceGone     bool
	repairing      bool
	assignedMs     int64
	stoppedMs      int64
	retried        int64
	logLine        bool
	linePrinted    string
	dirtyLine      bool
	unknown        bool // held because its log bounds could not be read yet
	isNew          bool // gained after the group first consumed the topic
}

type totals struct {
	Stats
	lastPollMs, lastCommitMs int64
	held                     string // the bound of all partitions that is reached
}

func newLoop(c *Consumer, h Handler) *loop {
	l := &loop{
		c: c, cfg: &c.cfg, handler: h, clientReady: make(chan struct{}),
		calls: make(chan func()), results: make(chan result, c.cfg.Concurrency), polled: make(chan polled), dead: make(chan struct{}),
		parts: map[types.TopicPartition]*part{}, limit: c.cfg.MetadataLimit, deliver: true,
		logLines: map[types.TopicPartition]bool{}, random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	l.sizer.largest = int32(min(max(c.cfg.PartitionBytes/4, 64<<10), int64(c.cfg.FetchBytes)))
	l.sizer.now = l.sizer.largest
	q := c.cfg.QuarantineBudget
	l.budget = retry.NewBudget(q.Free, q.PerSuccess, q.Window.Milliseconds())
	if q.Unlimited {
		l.budget = retry.Unlimited()
	}
	return l
}

func nowMs() int64 { return time.Now().UnixMilli() }

// resultsBatch bounds how many results one turn takes before it acts on them.
const resultsBatch = 256

// run is the loop: it never waits for I/O, only for messages.
func (l *loop) run() {
	defer close(l.dead)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !l.stopping {
		select {
		case fn := <-l.calls:
			fn()
		case r := <-l.results:
			l.finish(r, nowMs())
			l.finishMore()
		case p := <-l.polled:
			l.intake(p, nowMs())
		case <-timer.C:
		}
		wait := l.step(nowMs())
		timer.Reset(wait)
	}
	for _, p := range slices.Clone(l.order) {
		l.drop(p, ErrClosed)
	}
}

func (l *loop) finishMore() {
	now := nowMs()
	for range resultsBatch {
		select {
		case r := <-l.results:
			l.finish(r, now)
		default:
			return
		}
	}
}

// step does everything that state or time calls for and returns how long nothing
// will be due.
func (l *loop) step(now int64) time.Duration {
	l.wakeRetries(now)
	l.inspect(now)
	l.start(now)
	l.pauseLevel(now)
	l.stepRelease(now)
	l.stepCommit(now)
	l.stepDrains()
	l.refreshBounds(now)
	l.printLines()
	return l.nextWake(now)
}

// maxWait bounds how long the loop sleeps: state is level-triggered, and a turn
// a second puts right what no message announced.
const maxWait = time.Second

func (l *loop) nextWake(now int64) time.Duration {
	at := now + maxWait.Milliseconds()
	if len(l.retries) > 0 {
		at = min(at, l.retries[0].dueMs)
	}
	if l.release != nil {
		at = min(at, l.release.nextMs(now))
	}
	if l.commit == nil && l.release == nil {
		for _, p := range l.order {
			if p.held != nil {
				continue
			}
			due := p.commit.NextMs(p.a.Effect(), p.a.Unfinished() > 0, l.intervals())
			if due <= now { // it was due in this turn and could not be sent
				due = now + retryTurnMs
			}
			at = min(at, due)
		}
	}
	return time.Duration(max(at-now, 1)) * time.Millisecond
}

// retryTurnMs is the pause before the loop looks again at something that is due
// and cannot be done yet.
const retryTurnMs = 50

// call runs fn on the loop and waits; it reports false when the loop has ended.
func (l *loop) call(fn func()) bool {
	done := make(chan struct{})
	select {
	case l.calls <- func() { fn(); close(done) }:
	case <-l.dead:
		return false
	}
	select {
	case <-done:
		return true
	case <-l.dead:
		return false
	}
}

// add makes p the object of its partition, dropping one that is there.
func (l *loop) add(p *part) {
	if old := l.parts[p.tp]; old != nil {
		l.drop(old, ErrPartitionTaken)
	}
	l.parts[p.tp] = p
	at, _ := slices.BinarySearchFunc(l.order, p, func(a, b *part) int {
		if c := strings.Compare(a.tp.Topic, b.tp.Topic); c != 0 {
			return c
		}
		return int(a.tp.Partition) - int(b.tp.Partition)
	})
	l.order = slices.Insert(l.order, at, p)
}

// drop forgets an assignment whole: its counts go with it, its handlers are told,
// and what they return later changes nothing.
func (l *loop) drop(p *part, cause error) {
	if p.dropped {
		return
	}
	p.dropped = true
	p.a.CloseIntake()
	l.stale += p.a.Count(assignment.Running)
	p.cancel(cause)
	delete(l.parts, p.tp)
	l.order = slices.DeleteFunc(l.order, func(o *part) bool { return o == p })
	l.retries.forget(p)
}

func (l *loop) event(e Event) {
	if l.cfg.Events != nil {
		l.cfg.Events(e)
		return
	}
	args := []any{"group", l.cfg.Group}
	if e.Topic != "" {
		args = append(args, "topic", e.Topic, "partition", e.Partition)
	}
	if e.Offset != Absent {
		args = append(args, "offset", e.Offset)
	}
	if e.Detail != "" {
		args = append(args, "detail", e.Detail)
	}
	if e.Err != nil {
		args = append(args, "err", e.Err)
	}
	switch e.Kind {
	case EventAssigned, EventRevoked, EventCommitDeferred:
		l.cfg.Logger.Info("consumer: "+string(e.Kind), args...)
	default:
		l.cfg.Logger.Warn("consumer: "+string(e.Kind), args...)
	}
}

func (l *loop) partEvent(kind EventKind, p *part, offset int64, detail string, err error) {
	l.event(Event{Kind: kind, Topic: p.tp.Topic, Partition: p.tp.Partition, Offset: offset, Detail: detail, Err: err})
}
