package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// TestG1_PropertyGroups drives groups of both protocols, apart and mixed, through
// joins, farewells, crashes, lost writes, changes of topics and moves of the
// coordinator. At every moment no partition is read by two members, the state is
// the replay of the log and committed offsets do not go back; when the storm is
// over, every partition has an owner and the members agree.
func TestG1_PropertyGroups(t *testing.T) {
	for _, kinds := range [][]bool{{false}, {true}, {false, true}} {
		t.Run(fmt.Sprint("classic ", kinds), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t)
				w.c.set("a", 4)
				w.c.set("b", 3)
				s := &storm{w: w, kinds: kinds, committed: map[types.TopicPartition]int64{}}
				t.Repeat(map[string]func(*rapid.T){
					"join": s.join, "leave": s.leave, "crash": s.crash, "beat": s.beat, "time": s.time, "lost write": s.lostWrite,
					"topics": s.topics, "coordinator moves": s.moves, "commit": s.commit, "stale commit": s.staleCommit,
					"expressions resolved": func(*rapid.T) { s.w.resolve() }, "": s.check,
				})
				w.fail = false
				s.settle(t)
			})
		})
	}
}

type storm struct {
	w         *world
	kinds     []bool
	committed map[types.TopicPartition]int64
}

func (s *storm) join(t *rapid.T) {
	if len(s.w.members) >= 6 {
		return
	}
	var instance *string
	if n := rapid.IntRange(0, 5).Draw(t, "instance"); n < 2 && !slices.ContainsFunc(s.w.members, func(m *client) bool {
		return m.instance != nil && *m.instance == fmt.Sprint("i", n)
	}) {
		instance = str(fmt.Sprint("i", n))
	}
	m := s.w.client(rapid.SampledFrom(s.kinds).Draw(t, "classic"), instance, "a", "b")
	if !m.classic && rapid.IntRange(0, 3).Draw(t, "regex") == 0 {
		m.topics, m.regex = nil, str("[ab]") // the same topics by an expression
	}
	m.beat()
}

func (s *storm) pick(t *rapid.T) *client {
	if len(s.w.members) == 0 {
		return nil
	}
	return rapid.SampledFrom(s.w.members).Draw(t, "member")
}

func (s *storm) leave(t *rapid.T) {
	if m := s.pick(t); m != nil && !m.joining {
		m.leave()
	}
}

func (s *storm) crash(t *rapid.T) {
	if m := s.pick(t); m != nil {
		m.gone()
	}
}

func (s *storm) beat(t *rapid.T) {
	if m := s.pick(t); m != nil {
		m.beat()
	}
}

// time passes in steps in which every live member is heard of.
func (s *storm) time(t *rapid.T) {
	for range rapid.IntRange(1, 20).Draw(t, "steps of 3 s") {
		s.w.pass(3000)
		for _, m := range slices.Clone(s.w.members) {
			m.beat()
		}
	}
}

func (s *storm) lostWrite(*rapid.T) { s.w.fail = true }

func (s *storm) topics(t *rapid.T) {
	topic := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
	if n, ok := s.w.c.partitions[topic]; ok && n < 8 {
		s.w.c.set(topic, n+1)
	}
}

func (s *storm) moves(*rapid.T) {
	s.w.fail = false
	s.w.move()
}

// commit moves a member's position on and stores it.
func (s *storm) commit(t *rapid.T) {
	m := s.pick(t)
	if m == nil || len(m.owned) == 0 || m.joining {
		return
	}
	tp := slices.SortedFunc(maps.Keys(m.owned), comparePartitions)[0]
	m.owned[tp]++
	at := m.owned[tp]
	switch code := m.commit(tp, at, m.epoch); code {
	case kerrors.None:
		if at < s.committed[tp] {
			t.Fatalf("%v goes back from %d to %d", tp, s.committed[tp], at)
		}
		s.committed[tp] = at
	case kerrors.CoordinatorNotAvailable, kerrors.StaleMemberEpoch, kerrors.IllegalGeneration, kerrors.RebalanceInProgress, kerrors.UnknownMemberID:
	default:
		t.Fatalf("commit of %v: %v", tp, code)
	}
}

// staleCommit is a member that commits what another one reads.
func (s *storm) staleCommit(t *rapid.T) {
	m, o := s.pick(t), s.pick(t)
	if m == nil || m == o || m.classic || o.classic || m.epoch < 2 {
		return
	}
	for _, tp := range slices.SortedFunc(maps.Keys(o.owned), comparePartitions) {
		if _, mine := m.owned[tp]; mine {
			continue
		}
		if code := m.commit(tp, 0, m.epoch-1); code == kerrors.None {
			t.Fatalf("%s commits %v in epoch %d, which %s reads", m.id, tp, m.epoch-1, o.id)
		}
	}
}

func (s *storm) oneReader(t *rapid.T) {
	readers := map[types.TopicPartition]string{}
	for _, m := range s.w.members {
		for tp := range m.owned {
			if other, taken := readers[tp]; taken {
				t.Fatalf("%v is read by %s and %s", tp, other, m.id)
			}
			readers[tp] = m.id
		}
	}
}

func (s *storm) check(t *rapid.T) {
	s.oneReader(t)
	if want, got := s.w.replayed().dump(latest), s.w.s.dump(latest); !maps.Equal(want, got) {
		t.Fatalf("state is not the replay of its log:\n%s", cmp.Diff(want, got))
	}
	for tp, want := range s.committed {
		if got := flatten(s.w.s.FetchOffsets(fetchReq("g", tp.Topic, tp.Partition), s.w.next, false))[0].Offset; got != want {
			t.Fatalf("%v was committed at %d, is at %d", tp, want, got)
		}
	}
}

// settle lets the group come to rest and looks at what it came to.
func (s *storm) settle(t *rapid.T) {
	for range 60 {
		s.w.pass(3000)
		s.w.resolve()
		for _, m := range slices.Clone(s.w.members) {
			m.beat()
		}
		s.oneReader(t)
	}
	s.check(t)
	if len(s.w.members) == 0 {
		return
	}
	read := map[types.TopicPartition]bool{}
	low, high := 1<<30, 0
	for _, m := range s.w.members {
		low, high = min(low, len(m.owned)), max(high, len(m.owned))
		for tp := range m.owned {
			read[tp] = true
		}
	}
	for topic, n := range s.w.c.partitions {
		for p := range n {
			if !read[types.TopicPartition{Topic: topic, Partition: p}] {
				t.Fatalf("nobody reads %s-%d: %s", topic, p, s.describe())
			}
		}
	}
	consumers := !slices.ContainsFunc(s.w.members, func(m *client) bool { return m.classic })
	if consumers && high > low+1 {
		t.Fatalf("members have %d to %d partitions: %s", low, high, s.describe())
	}
}

func (s *storm) describe() string {
	out := ""
	if g := s.w.s.consumerGroup("g", latest); g != nil {
		out += fmt.Sprintf("%s epoch %d assignment %d; ", g.StateName(latest), g.Epoch(latest), g.AssignmentEpoch(latest))
	}
	if c := s.w.s.live["g"]; c != nil {
		out += fmt.Sprintf("%s generation %d; ", c.State(), c.Generation())
	}
	for _, m := range s.w.members {
		out += fmt.Sprintf("%s epoch %d joining %v has %v; ", m.id, m.epoch, m.joining, m.owned)
	}
	return out
}
