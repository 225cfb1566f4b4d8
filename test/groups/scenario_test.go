package groups

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is one client's group on one broker while records flow.
type scenario struct {
	t     *testing.T
	p     peer
	k     kind
	topic string
	group string
	seen  *checker
	live  []*process
	n     int
}

// runScenario takes a group through scale-out, a rolling restart and a crash,
// then static members through a restart, and checks that no record was missed.
func runScenario(t *testing.T, p peer, k kind) {
	s := &scenario{t: t, p: p, k: k, topic: unique(t), group: unique(t), seen: newChecker()}
	createTopic(t, p, s.topic, partitions)
	f := startFeed(t, p, s.topic)
	s.add()
	s.add()
	s.flowing("two members")
	s.add()
	s.flowing("scale-out")
	for i := range min(k.rolls, 3) {
		s.remove(0, (*process).leave)
		s.add()
		s.flowing(fmt.Sprintf("rolling restart %d", i+1))
	}
	s.remove(0, (*process).crash)
	s.flowing("crash")
	s.finish(f)
	if k.static {
		s.staticRestart()
	}
}

func (s *scenario) add() *process {
	s.t.Helper()
	s.n++
	m := start(s.t, s.k, s.seen, fmt.Sprintf("%s-%d", s.group, s.n), s.p.bootstrap, s.topic, s.group, "")
	s.live = append(s.live, m)
	return m
}

func (s *scenario) remove(i int, how func(*process)) {
	m := s.live[i]
	s.live = slices.Delete(s.live, i, i+1)
	how(m)
}

// flowing waits until every member that lives reads and every partition moves on.
func (s *scenario) flowing(after string) {
	s.t.Helper()
	reads := map[*process]int{}
	for _, m := range s.live {
		reads[m] = s.seen.readBy(m.name)
	}
	before, began := s.seen.newestOf(), time.Now()
	defer func() { s.t.Logf("%s: flows again after %v", after, time.Since(began).Round(time.Millisecond)) }()
	wait(s.t, after+": every member reads and every partition moves", func() bool {
		for _, m := range s.live {
			if m.ended() {
				s.t.Fatalf("%s: %s ended", after, m.name)
			}
			if s.seen.readBy(m.name) <= reads[m] {
				return false
			}
		}
		now := s.seen.newestOf()
		for i := range now {
			if now[i] <= before[i] {
				return false
			}
		}
		return true
	})
}

// finish ends the feed, waits until all is read and ends the members.
func (s *scenario) finish(f *feed) {
	s.t.Helper()
	ends := f.finish(s.t, s.p)
	wait(s.t, "the members read to the end", func() bool { return len(s.seen.missing(ends)) == 0 || s.allEnded() })
	if lost := s.seen.missing(ends); len(lost) > 0 {
		s.t.Errorf("%d records missed: %v", len(lost), lost[:min(len(lost), 20)])
	}
	for _, m := range s.live {
		m.leave()
	}
	s.live = nil
	s.t.Logf("%d records, %d read again", total(ends), s.seen.repeated)
}

func (s *scenario) allEnded() bool {
	return !slices.ContainsFunc(s.live, func(m *process) bool { return !m.ended() })
}

func total(ends map[int32]int64) int64 {
	sum := int64(0)
	for n := range maps.Values(ends) {
		sum += n
	}
	return sum
}

// staticRestart: a static member that comes back within its session gets its
// partitions back, and the other one notices nothing (KIP-345).
func (s *scenario) staticRestart() {
	s.t.Helper()
	s.group += "-static"
	s.seen = newChecker()
	if strings.HasSuffix(s.k.name, "-consumer") {
		groupSession(s.t, s.p, s.group, staticSession)
	}
	f := startFeed(s.t, s.p, s.topic)
	a := start(s.t, s.k, s.seen, "static-a", s.p.bootstrap, s.topic, s.group, "a")
	b := start(s.t, s.k, s.seen, "static-b", s.p.bootstrap, s.topic, s.group, "b")
	s.live = []*process{a, b}
	wait(s.t, "two static members share the partitions", func() bool { return a.owned() == partitions/2 && b.owned() == partitions/2 })
	s.flowing("two static members")
	b.mu.Lock()
	noticed, had := len(b.events), maps.Clone(b.has)
	b.mu.Unlock()
	kept := a.keep()
	a.leave()
	back := start(s.t, s.k, s.seen, "static-a-again", s.p.bootstrap, s.topic, s.group, "a")
	s.live = []*process{back, b}
	s.flowing("static restart")
	if got := back.keep(); !slices.Equal(got, kept) {
		s.t.Errorf("the static member had %v and came back to %v", kept, got)
	}
	b.mu.Lock()
	if len(b.events) != noticed || !maps.Equal(b.has, had) {
		s.t.Errorf("the other static member noticed the restart: %q", b.events)
	}
	b.mu.Unlock()
	s.finish(f)
}

// keep lists what a member has.
func (p *process) keep() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.has))
}
