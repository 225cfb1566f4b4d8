package fetchsession

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

func newCache(slots int) *Cache {
	var n uint32
	return NewCache(Options{MaxSessions: slots, Random: func() uint32 { n++; return n }})
}

func byName(topic string, p int32) types.TopicIDPartition {
	return types.TopicIDPartition{Topic: topic, Partition: p}
}

func asking(tps ...types.TopicIDPartition) (out []Partition) {
	for _, tp := range tps {
		out = append(out, Partition{TP: tp, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 100})
	}
	return out
}

func answer(tp types.TopicIDPartition, hw int64, bytes int) Answer {
	return Answer{TP: tp, HighWatermark: hw, RecordsBytes: bytes, PreferredReplica: -1}
}

// exchange runs one request whose partitions all answer with what data says.
func exchange(t *testing.T, c *Cache, r Request, data map[string]Answer) (id int32, listed string, code kerrors.Code) {
	t.Helper()
	if r.Version == 0 {
		r.Version = 12
	}
	x, code := c.Begin(r)
	if code != kerrors.None {
		return 0, "", code
	}
	var answers []Answer
	for _, p := range x.Partitions() {
		a, ok := data[p.TP.TopicPartition().String()]
		if !ok {
			a = answer(p.TP, 0, 0)
		}
		a.TP = p.TP
		answers = append(answers, a)
	}
	id, in, code := x.Filter(r.NowMs, answers)
	var names []string
	for i, yes := range in {
		if yes {
			names = append(names, answers[i].TP.TopicPartition().String())
		}
	}
	return id, strings.Join(names, " "), code
}

// TestC025_SessionBookkeeping is the field case, step by step.
func TestC025_SessionBookkeeping(t *testing.T) {
	c := newCache(10)
	tp := byName("t", 0)
	s, listed, code := exchange(t, c, Request{Partitions: asking(tp)}, nil)
	if s == 0 || listed != "t-0" || code != kerrors.None {
		t.Fatalf("(1) %d %q %v", s, listed, code)
	}
	if id, listed, code := exchange(t, c, Request{SessionID: s, Epoch: 1}, nil); id != s || listed != "" || code != kerrors.None {
		t.Fatalf("(2) %d %q %v", id, listed, code)
	}
	if _, _, code := exchange(t, c, Request{SessionID: s, Epoch: 5}, nil); code != kerrors.InvalidFetchSessionEpoch {
		t.Fatalf("(3) %v", code)
	}
	if _, _, code := exchange(t, c, Request{SessionID: s + 999, Epoch: 1}, nil); code != kerrors.FetchSessionIDNotFound {
		t.Fatalf("(4) %v", code)
	}
	if id, listed, code := exchange(t, c, Request{SessionID: s, Epoch: 2}, map[string]Answer{"t-0": answer(tp, 1, 70)}); id != s || listed != "t-0" || code != kerrors.None {
		t.Fatalf("(5) %d %q %v", id, listed, code)
	}
	id, listed, code := exchange(t, c, Request{SessionID: s, Epoch: 3, Forgotten: []types.TopicIDPartition{tp}}, nil)
	if id != 0 || listed != "" || code != kerrors.None || c.Len() != 0 || c.Partitions() != 0 {
		t.Fatalf("(6) %d %q %v, %d sessions", id, listed, code, c.Len())
	}
}

// TestKIP227_WhatIsListed walks through every reason to list a partition.
func TestKIP227_WhatIsListed(t *testing.T) {
	c := newCache(10)
	a, b := byName("t", 0), byName("t", 1)
	s, _, _ := exchange(t, c, Request{Partitions: asking(a, b)}, nil)
	for i, tc := range []struct {
		what string
		a    Answer
		want string
	}{
		{"nothing", answer(a, 0, 0), ""},
		{"records", answer(a, 0, 10), "t-0"},
		{"high watermark", answer(a, 5, 0), "t-0"},
		{"the same high watermark", answer(a, 5, 0), ""},
		{"log start", Answer{HighWatermark: 5, LogStartOffset: 2, PreferredReplica: -1}, "t-0"},
		{"an error", Answer{HighWatermark: 5, LogStartOffset: 2, PreferredReplica: -1, Code: kerrors.NotLeaderOrFollower}, "t-0"},
		{"an error again", Answer{HighWatermark: 5, LogStartOffset: 2, PreferredReplica: -1, Code: kerrors.NotLeaderOrFollower}, "t-0"},
		{"after the error", Answer{HighWatermark: 5, LogStartOffset: 2, PreferredReplica: -1}, "t-0"},
		{"preferred replica", Answer{HighWatermark: 5, LogStartOffset: 2, PreferredReplica: 3}, "t-0"},
		{"diverging", Answer{HighWatermark: 5, LogStartOffset: 2, PreferredReplica: -1, Diverging: true}, "t-0"},
		{"nothing again", Answer{HighWatermark: 5, LogStartOffset: 2, PreferredReplica: -1}, ""},
	} {
		_, listed, code := exchange(t, c, Request{SessionID: s, Epoch: int32(i + 1)}, map[string]Answer{"t-0": tc.a})
		if listed != tc.want || code != kerrors.None {
			t.Errorf("%s: listed %q, %v", tc.what, listed, code)
		}
	}
}

func TestSessionChangesAndOrder(t *testing.T) {
	c := newCache(10)
	a, b, d := byName("t", 0), byName("t", 1), byName("t", 2)
	s, _, _ := exchange(t, c, Request{Partitions: asking(a, b)}, nil)
	// The one that gave data goes to the end: the others are read first.
	exchange(t, c, Request{SessionID: s, Epoch: 1}, map[string]Answer{"t-0": answer(a, 1, 10)})
	moved := Partition{TP: b, FetchOffset: 7, MaxBytes: 5}
	x, code := c.Begin(Request{Version: 12, SessionID: s, Epoch: 2, Partitions: append(asking(d), moved)})
	if code != kerrors.None {
		t.Fatal(code)
	}
	var got []string
	for _, p := range x.Partitions() {
		got = append(got, fmt.Sprintf("%s@%d", p.TP.TopicPartition(), p.FetchOffset))
	}
	if d := cmp.Diff([]string{"t-1@7", "t-0@0", "t-2@0"}, got); d != "" {
		t.Fatal(d)
	}
	// A second request moves the epoch on: the first one's answer is stale.
	c.Begin(Request{Version: 12, SessionID: s, Epoch: 3})
	if id, listed, code := x.Filter(0, []Answer{answer(a, 9, 1)}); id != s || listed[0] || code != kerrors.InvalidFetchSessionEpoch {
		t.Fatalf("stale answer: %d %v %v", id, listed, code)
	}
}

func TestFullAndFinalEpochs(t *testing.T) {
	c := newCache(10)
	a := byName("t", 0)
	s, _, _ := exchange(t, c, Request{Partitions: asking(a)}, nil)
	s2, _, _ := exchange(t, c, Request{SessionID: s, Partitions: asking(a)}, nil)
	if s2 == 0 || s2 == s || c.Len() != 1 {
		t.Fatalf("a full request replaces the session: %d then %d, %d sessions", s, s2, c.Len())
	}
	if id, listed, _ := exchange(t, c, Request{SessionID: s2, Epoch: -1, Partitions: asking(a)}, nil); id != 0 || listed != "t-0" || c.Len() != 0 {
		t.Fatalf("the final epoch closes it: %d %q, %d sessions", id, listed, c.Len())
	}
	if got := nextEpoch(1<<31 - 1); got != 1 {
		t.Fatalf("the epoch wraps to %d", got)
	}
	if got := nextEpoch(-1); got != -1 {
		t.Fatalf("the final epoch goes on to %d", got)
	}
}

// TestKIP516_SidesOfVersion13: a session stays with names or with ids.
func TestKIP516_SidesOfVersion13(t *testing.T) {
	c := newCache(10)
	id := types.UUID{1}
	named, _, _ := exchange(t, c, Request{Version: 12, Partitions: asking(byName("t", 0))}, nil)
	ids, _, _ := exchange(t, c, Request{Version: 13, Partitions: asking(types.TopicIDPartition{TopicID: id})}, nil)
	if _, _, code := exchange(t, c, Request{Version: 13, SessionID: named, Epoch: 1}, nil); code != kerrors.FetchSessionTopicIDError {
		t.Fatalf("names to ids: %v", code)
	}
	if _, _, code := exchange(t, c, Request{Version: 12, SessionID: ids, Epoch: 1}, nil); code != kerrors.FetchSessionTopicIDError {
		t.Fatalf("ids to names: %v", code)
	}
	// A name that was unknown at first is filled in once the metadata has it.
	x, code := c.Begin(Request{Version: 13, SessionID: ids, Epoch: 1, TopicName: func(u types.UUID) (string, bool) { return "late", u == id }})
	if code != kerrors.None || x.Partitions()[0].TP.Topic != "late" {
		t.Fatalf("%v %+v", code, x.Partitions())
	}
	// An update without the name keeps it.
	x, _ = c.Begin(Request{Version: 13, SessionID: ids, Epoch: 2, Partitions: asking(types.TopicIDPartition{TopicID: id})})
	if len(x.Partitions()) != 1 || x.Partitions()[0].TP.Topic != "late" {
		t.Fatalf("%+v", x.Partitions())
	}
}

func TestEviction(t *testing.T) {
	c := newCache(2)
	open := func(now int64, follower bool, n int) int32 {
		var tps []types.TopicIDPartition
		for p := range n {
			tps = append(tps, byName("t", int32(p)))
		}
		id, _, _ := exchange(t, c, Request{NowMs: now, Follower: follower, Partitions: asking(tps...)}, nil)
		return id
	}
	first, second := open(0, false, 2), open(1000, false, 3)
	if open(2000, false, 9) != 0 {
		t.Fatal("a young session was pushed out by a consumer")
	}
	// A follower pushes out the smallest consumer session, however young.
	if open(3000, true, 1) == 0 || c.Evictions() != 1 {
		t.Fatal("a follower got no session")
	}
	if _, _, code := exchange(t, c, Request{NowMs: 3000, SessionID: first, Epoch: 1}, nil); code != kerrors.FetchSessionIDNotFound {
		t.Fatalf("the smaller session is still there: %v", code)
	}
	// In use for longer than the limit: a larger consumer session wins over it,
	// a smaller one does not.
	exchange(t, c, Request{NowMs: 130_000, SessionID: second, Epoch: 1}, nil)
	c.touch(mustSession(c, true), 130_000)
	if open(131_000, false, 2) != 0 {
		t.Fatal("a smaller session pushed out a larger one")
	}
	if open(131_000, false, 4) == 0 {
		t.Fatal("a larger session got no place")
	}
	// Idle beyond the limit: anybody's place is free.
	if open(300_000, false, 1) == 0 {
		t.Fatal("a stale session keeps its place")
	}
	if c.Len() != 2 {
		t.Fatalf("%d sessions", c.Len())
	}
}

func mustSession(c *Cache, privileged bool) *session {
	for _, s := range c.sessions {
		if s.privileged == privileged {
			return s
		}
	}
	return nil
}

// TestPropertyBounds: the cache never holds more than its slots, counts its
// partitions right, and a client that keeps to its epochs is served.
func TestPropertyBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCache(3)
		now := int64(0)
		type client struct{ id, epoch int32 }
		var clients []client
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "n")
				var ps []Partition
				for p := range n {
					ps = append(ps, asking(byName("t", int32(p)))...)
				}
				x, _ := c.Begin(Request{NowMs: now, Version: 12, Follower: rapid.Bool().Draw(t, "follower"), Partitions: ps})
				answers := make([]Answer, len(ps))
				for i := range ps {
					answers[i] = answer(ps[i].TP, 0, 0)
				}
				if id, _, _ := x.Filter(now, answers); id != 0 {
					clients = append(clients, client{id, 1})
				}
			},
			"go on": func(t *rapid.T) {
				if len(clients) == 0 {
					t.Skip("no client yet: another action is drawn")
				}
				i := rapid.IntRange(0, len(clients)-1).Draw(t, "client")
				cl := &clients[i]
				_, alive := c.sessions[cl.id]
				x, code := c.Begin(Request{NowMs: now, Version: 12, SessionID: cl.id, Epoch: cl.epoch, Partitions: asking(byName("u", 0))})
				if alive != (code == kerrors.None) {
					t.Fatalf("session alive %t, answer %v", alive, code)
				}
				if alive {
					cl.epoch++
					if _, _, code := x.Filter(now, nil); code != kerrors.None {
						t.Fatal(code)
					}
				}
			},
			"time": func(t *rapid.T) { now += rapid.Int64Range(1, 200_000).Draw(t, "ms") },
			"": func(t *rapid.T) {
				n := 0
				for _, s := range c.sessions {
					n += len(s.partitions)
				}
				if c.Len() > 3 || c.Partitions() != n || c.lastUsed.Len() != c.Len() {
					t.Fatalf("%d sessions, %d partitions counted as %d, %d ranked", c.Len(), n, c.Partitions(), c.lastUsed.Len())
				}
			},
		})
	})
}
