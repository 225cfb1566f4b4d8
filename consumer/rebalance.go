package consumer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/consumer/internal/assignment"
	"github.com/tidemark-io/tidemark/consumer/internal/commitplan"
	"github.com/tidemark-io/tidemark/consumer/internal/dispatch"
	"github.com/tidemark-io/tidemark/internal/types"
)

// release is a revoke under way: intake closed, handlers draining, then one last
// commit while the partitions are still ours, then the drop. The order matters:
// dropping before the commit would make every clean hand-over a replay
// (PostHog/posthog#59391).
type release struct {
	parts      []*part
	drainUntil int64 // running handlers are waited for until then
	giveUpAt   int64 // the commit is waited for until then
	sent       bool
	done       chan struct{}
}

// commitGrace is how long the last commit of a revoke may take after the drain.
const commitGrace = 5 * time.Second

// leaveStaticEpoch is the epoch of a static member that means to come back
// (KIP-848).
const leaveStaticEpoch = -2

// onRevoked is the client's callback for an ordered hand-over. It returns when the
// partitions are committed and dropped.
func (l *loop) onRevoked(_ context.Context, _ *kgo.Client, m map[string][]int32) {
	<-l.clientReady
	begun := time.Now()
	var r *release
	ok := l.call(func() {
		l.membership.revoked(partitionsIn(m), l.cfg.Protocol)
		r = l.beginRelease(m, nowMs())
	})
	if !ok || r == nil {
		return
	}
	select {
	case <-r.done:
	case <-l.dead:
		return
	}
	l.call(func() { l.total.RevokeTime += time.Since(begun) })
}

func (l *loop) beginRelease(m map[string][]int32, now int64) *release {
	parts := l.live(m)
	if len(parts) == 0 {
		return nil
	}
	for _, p := range parts {
		p.a.CloseIntake()
	}
	drain := now + l.cfg.DrainTimeout.Milliseconds()
	if l.closeBy > 0 {
		drain = min(drain, l.closeBy)
	}
	l.release = &release{parts: parts, drainUntil: drain, giveUpAt: drain + commitGrace.Milliseconds(), done: make(chan struct{})}
	return l.release
}

// nextMs is when the release acts by time alone.
func (r *release) nextMs(now int64) int64 {
	if now < r.drainUntil {
		return r.drainUntil
	}
	return min(r.giveUpAt, now+50) // a refused commit is tried again
}

// stepRelease moves a revoke on as far as it can go now.
func (l *loop) stepRelease(now int64) {
	r := l.release
	if r == nil {
		return
	}
	busy := false
	for _, p := range r.parts {
		busy = busy || !p.dropped && p.a.Busy() > 0
	}
	switch {
	case busy && now < r.drainUntil:
		return
	case l.commit != nil:
		if now >= r.giveUpAt {
			l.commit.cancel() // its answer comes at once, as an error
		}
		return
	}
	var behind []*part
	for _, p := range r.parts {
		// One commit; then only what was deferred. What finishes after its snapshot is
		// late: the next owner runs it again.
		if !p.dropped && p.held == nil && (!r.sent || p.commit.Failures > 0) && now < r.giveUpAt {
			behind = append(behind, p)
		}
	}
	if len(behind) > 0 {
		if m := l.memberNow(); !r.sent || behind[0].commit.Due(now, behind[0].a.Effect(), true, m, l.intervals()) {
			r.sent = true
			l.sendCommit(behind, m, now)
		}
		if l.commit != nil || behind[0].commit.Failures > 0 {
			return
		}
	}
	l.endRelease(r)
}

func (l *loop) endRelease(r *release) {
	for _, p := range r.parts {
		if p.dropped {
			continue
		}
		l.total.Revokes++
		l.partEvent(EventRevoked, p, p.commit.Committed, "", nil)
		l.drop(p, ErrPartitionTaken)
	}
	l.release = nil
	close(r.done)
}

// onLost is the client's callback when the membership is gone: another member may
// own the partitions already. Drop them and never commit.
func (l *loop) onLost(_ context.Context, _ *kgo.Client, m map[string][]int32) {
	<-l.clientReady
	l.call(func() {
		begun := time.Now()
		l.membership.lost()
		lost := l.live(m)
		for _, p := range lost {
			l.total.Losts++
			l.partEvent(EventLost, p, p.commit.Committed, "", nil)
			l.drop(p, ErrPartitionTaken)
		}
		if l.commit != nil && len(lost) > 0 {
			l.commit.cancel()
		}
		l.total.LostTime += time.Since(begun)
	})
}

// onAssigned is the client's callback before offsets are fetched; adjust does the
// work when they are known.
func (l *loop) onAssigned(_ context.Context, _ *kgo.Client, m map[string][]int32) {
	<-l.clientReady
	n := partitionsIn(m)
	l.call(func() {
		l.total.Assigns += int64(n)
		l.membership.assigned(n)
	})
}

func (l *loop) newPart(tp types.TopicPartition, start int64, epoch int32, restored beacon.Set, now int64) *part {
	l.generations++
	p := &part{
		tp: tp, logStart: Absent, logEnd: Absent, stable: Absent, retentionMs: -1, assignedMs: now,
		member: l.memberNow(), logLine: l.logLine(tp),
		a: assignment.New(assignment.Options{
			Generation: l.generations, Start: start, StartEpoch: epoch, Order: dispatch.Order(l.cfg.Order), Restored: restored,
		}),
	}
	p.commit.Committed = Absent
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

func (l *loop) logLine(tp types.TopicPartition) bool {
	if on, set := l.logLines[tp]; set {
		return on
	}
	return l.cfg.LogCompletion != nil && l.cfg.LogCompletion(tp.Topic, tp.Partition)
}

// leave drains and commits within ctx, leaves the group and ends the loop.
func (l *loop) leave(ctx context.Context) {
	l.call(func() {
		l.deliver = false
		l.closeBy = nowMs() + l.cfg.DrainTimeout.Milliseconds()
		if at, ok := ctx.Deadline(); ok {
			l.closeBy = min(l.closeBy, at.UnixMilli())
		}
	})
	// The leave revokes everything through onRevoked, whose commit has its own
	// bound: the caller's context bounds only the drain, so that a short one does
	// not cost the commit.
	bound, cancel := context.WithTimeout(context.Background(), l.cfg.DrainTimeout+commitGrace+openTimeout)
	defer cancel()
	member := l.memberNow()
	_ = l.cl.LeaveGroupContext(bound)
	l.leaveStatic(bound, member)
	l.call(func() { l.stopping = true })
	<-l.dead
	l.cl.CloseAllowingRebalance()
}

// leaveStatic says in a KIP-848 group that a static member is away for a while, so
// that the next process with its id gets the partitions at once. franz-go (1.22.3,
// leave848) sends epoch -2 for that and forgets the id, which brokers refuse: the
// id would stay taken until the session ends.
func (l *loop) leaveStatic(ctx context.Context, m commitplan.Member) {
	if l.cfg.Protocol != ProtocolConsumer || l.cfg.InstanceID == "" || m.Generation < 0 {
		return
	}
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = l.cfg.Group, m.ID, leaveStaticEpoch, &l.cfg.InstanceID
	_, _ = req.RequestWith(ctx, l.cl) // refused or lost: the session ends by itself
}
