package drill

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// look is how often the state of the group is looked at while waiting.
const look = 10 * time.Millisecond

// run is one protocol's rehearsal.
type run struct {
	o        Options
	protocol Protocol
	topic    string
	topicID  [16]byte
	group    string
	start    time.Time
	live     []*member
	dead     []*member
	next     int

	mu       sync.Mutex // guards what follows
	timeline *timeline
	ledger   *ledger
	commits  CommitResult
	repeated int64 // ledger.repeated when the event began
	broken   error
}

// Rebalance runs the drill for each protocol in turn. A protocol that the
// cluster lacks is marked, not an error; errors are what kept the drill from
// being carried out.
func Rebalance(ctx context.Context, o Options) (Result, error) {
	res := Result{Members: o.Members, Partitions: o.Partitions, Rate: o.Rate, Protocols: []ProtocolResult{}}
	if err := o.Validate(); err != nil {
		return res, err
	}
	c, err := connect(ctx, o)
	if err != nil {
		return res, err
	}
	defer c.close()
	for _, p := range o.Protocols {
		out, err := rehearse(ctx, c, o, p)
		if err != nil {
			return res, fmt.Errorf("%s: %w", p, err)
		}
		res.Protocols = append(res.Protocols, out)
	}
	return res, nil
}

func rehearse(ctx context.Context, c *cluster, o Options, p Protocol) (ProtocolResult, error) {
	out := ProtocolResult{Protocol: p, SessionMs: o.Session.Milliseconds(), HeartbeatMs: o.Heartbeat.Milliseconds(), Events: []Event{}}
	if p == Consumer {
		ok, err := c.has848(ctx)
		if err != nil || !ok {
			out.Unsupported = true
			return out, err
		}
	}
	name := "tidemark-drill-" + string(p) + "-" + suffix()
	r := &run{
		o: o, protocol: p, topic: name, group: name, start: time.Now(),
		timeline: newTimeline(o.Partitions), ledger: newLedger(o.Partitions), commits: CommitResult{Refused: map[string]int64{}},
	}
	var err error
	if r.topicID, err = c.createTopic(ctx, name, o); err != nil {
		return out, err
	}
	defer c.cleanUp(name)
	if p == Consumer {
		c.groupTimeouts(ctx, name, o, &out)
	}
	src, err := newSource(o, name)
	if err != nil {
		return out, err
	}
	defer src.close()
	defer r.closeAll()
	if err := r.events(ctx, &out); err != nil {
		return out, err
	}
	return out, r.account(ctx, c, src, &out)
}

func suffix() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// events starts the group and changes it three times.
func (r *run) events(ctx context.Context, out *ProtocolResult) error {
	r.o.say("%s: %d members, %d partitions", r.protocol, r.o.Members, r.o.Partitions)
	for range r.o.Members {
		if err := r.join(); err != nil {
			return err
		}
	}
	begun := time.Now()
	if ok, err := r.settle(ctx); err != nil || !ok {
		if err == nil {
			err = fmt.Errorf("the group did not come together within %v", time.Since(begun).Round(time.Second))
		}
		return err
	}
	for _, e := range []struct {
		name string
		do   func() error
	}{
		{"join", r.join},
		{"leave", func() error { r.pop(0).leave(); return nil }},
		{"kill", func() error { r.dead = append(r.dead, r.pop(0)); r.dead[0].kill(); return nil }},
	} {
		r.begin()
		began := time.Now()
		if err := e.do(); err != nil {
			return err
		}
		settled, err := r.settle(ctx)
		if err != nil {
			return err
		}
		ev := r.report(e.name, began, settled)
		out.Events = append(out.Events, ev)
		r.o.say("%s: %s: %d of %d partitions stopped, longest %.0f ms", r.protocol, e.name, ev.StoppedPartitions, r.o.Partitions, ev.LongestMs)
	}
	return nil
}

func (r *run) join() error {
	m, err := r.newMember(r.next)
	if err != nil {
		return err
	}
	r.next++
	r.live = append(r.live, m)
	return nil
}

func (r *run) pop(i int) *member {
	m := r.live[i]
	r.live = append(r.live[:i:i], r.live[i+1:]...)
	return m
}

func (r *run) closeAll() {
	var wg sync.WaitGroup
	for _, m := range r.live {
		wg.Go(m.leave)
	}
	for _, m := range r.dead {
		wg.Go(m.bury)
	}
	wg.Wait()
}

func (r *run) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeline.begin(time.Since(r.start))
	r.commits = CommitResult{Refused: map[string]int64{}}
	r.repeated = r.ledger.repeated
}

// settle waits until every partition runs, every member that can have one has
// one, and nothing has changed for a while. false means that it took too long.
func (r *run) settle(ctx context.Context) (bool, error) {
	deadline := time.Now().Add(r.o.Timeout)
	t := time.NewTicker(look)
	defer t.Stop()
	for time.Now().Before(deadline) {
		still, err := r.still()
		if still || err != nil {
			return still, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-t.C:
		}
	}
	return false, nil
}

func (r *run) still() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	running, counts := r.timeline.running()
	return running && len(counts) == min(len(r.live), r.o.Partitions) && time.Since(r.start)-r.timeline.changed >= r.o.Settle, r.broken
}

func (r *run) report(name string, began time.Time, settled bool) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	list, quiet := r.timeline.stops(now, memberName)
	ev := Event{
		Event: name, Members: len(r.live), Settled: settled, SettledMs: ms(r.timeline.changed - began.Sub(r.start)), QuietMs: ms(quiet),
		Commits: r.commits, Repeated: r.ledger.repeated - r.repeated, Stops: list, StoppedPartitions: len(list),
	}
	if !settled {
		ev.SettledMs = ms(now - began.Sub(r.start))
	}
	if ev.Stops == nil {
		ev.Stops = []PartitionStop{}
	}
	for _, s := range list {
		ev.StoppedMs += s.StoppedMs
		ev.LongestMs = max(ev.LongestMs, s.StoppedMs)
		if !s.Moved {
			ev.KeptStopped++
		}
	}
	return ev
}

// account stops the records, lets the members read to the end and compares.
func (r *run) account(ctx context.Context, c *cluster, src *source, out *ProtocolResult) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	if err := src.finish(ctx); err != nil {
		return fmt.Errorf("flush the producer: %w", err)
	}
	out.Produced, out.ProduceErrors = src.produced.Load(), src.failed.Load()
	ends, err := c.ends(ctx, r.topic, r.o.Partitions)
	if err != nil {
		return err
	}
	t := time.NewTicker(look)
	defer t.Stop()
	for waiting := true; waiting; {
		r.mu.Lock()
		out.Repeated = r.ledger.repeated
		waiting = !r.ledger.complete(ends)
		r.mu.Unlock()
		if !waiting {
			return nil
		}
		select {
		case <-ctx.Done():
			waiting = false
		case <-t.C:
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.Missed, out.MissedAt = r.ledger.missed(ends)
	return nil
}

func (r *run) processed(p int32, member int, offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeline.processed(p, member, time.Since(r.start))
	if err := r.ledger.processed(p, offset); err != nil && r.broken == nil {
		r.broken = err
	}
}

func (r *run) assigned(parts []int32, member int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range parts {
		r.timeline.assign(p, member, time.Since(r.start))
	}
}

func (r *run) released(parts []int32, member int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range parts {
		r.timeline.release(p, member, time.Since(r.start))
	}
}

func (r *run) died(member int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeline.releaseAll(member, time.Since(r.start))
}

// commitDone counts a partition's commit; code is empty when it was accepted.
func (r *run) commitDone(code string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits.LongestMs = max(r.commits.LongestMs, ms(took))
	if code == "" {
		r.commits.Accepted++
		return
	}
	r.commits.Refused[code]++
}
