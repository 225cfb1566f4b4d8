package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// lossyNet connects three nodes: it drops, repeats and holds back messages as a
// seeded source says.
type lossyNet struct {
	mu    sync.Mutex
	rng   *rand.Rand
	nodes map[int32]*Node
	tapes map[int32]*tape
	cut   map[int32]bool // unreachable
	loss  int            // percent
	held  []heldMessage
}

type heldMessage struct {
	to int32
	m  *raftpb.Message
}

type port struct {
	net  *lossyNet
	self int32
}

func (p port) Send(to Voter, m *raftpb.Message) { p.net.send(p.self, to.NodeID, m) }

func (p port) FetchSnapshot(_ context.Context, from Voter, id SnapshotID, position int64, maxBytes int) ([]byte, int64, error) {
	p.net.mu.Lock()
	n, cut := p.net.nodes[from.NodeID], p.net.cut[from.NodeID] || p.net.cut[p.self]
	p.net.mu.Unlock()
	if n == nil || cut {
		return nil, 0, fmt.Errorf("unreachable")
	}
	c, err := n.ReadSnapshot(id, position, min(maxBytes, 100))
	return c.Data, c.TotalBytes, err
}

func (w *lossyNet) send(from, to int32, m *raftpb.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut[from] || w.cut[to] || w.rng.IntN(100) < w.loss {
		return
	}
	w.held = append(w.held, heldMessage{to, m})
	if w.rng.IntN(100) < w.loss {
		w.held = append(w.held, heldMessage{to, m})
	}
	if w.loss > 0 && w.rng.IntN(4) == 0 && len(w.held) > 1 { // overtake
		i := w.rng.IntN(len(w.held))
		w.held[i], w.held[len(w.held)-1] = w.held[len(w.held)-1], w.held[i]
	}
}

// flush delivers what is under way.
func (w *lossyNet) flush() {
	w.mu.Lock()
	held := w.held
	w.held = nil
	w.mu.Unlock()
	for _, h := range held {
		w.mu.Lock()
		n, cut := w.nodes[h.to], w.cut[h.to]
		w.mu.Unlock()
		if n != nil && !cut {
			ctx, cancel := context.WithTimeout(context.Background(), testPatience)
			_ = n.Step(ctx, h.m) // a stopped node refuses
			cancel()
		}
	}
}

type trio struct {
	t     *testing.T
	net   *lossyNet
	disks map[int32]*vfs.Mem
	ticks map[int32]chan time.Time
}

func trioVoters() []Voter {
	var out []Voter
	for id := int32(1); id <= 3; id++ {
		out = append(out, Voter{NodeID: id, DirectoryID: types.UUID{0: byte(id)}})
	}
	return out
}

func newTrio(t *testing.T, seed uint64) *trio {
	c := &trio{
		t: t, disks: map[int32]*vfs.Mem{}, ticks: map[int32]chan time.Time{},
		net: &lossyNet{
			rng: rand.New(rand.NewPCG(seed, 1)), nodes: map[int32]*Node{}, tapes: map[int32]*tape{}, cut: map[int32]bool{},
		},
	}
	for _, v := range trioVoters() {
		c.disks[v.NodeID] = vfs.NewMem()
		if err := Format(c.disks[v.NodeID], testDir, FormatOptions{Voters: trioVoters(), Bootstrap: bootstrapRecords(), NowMs: 1}); err != nil {
			t.Fatal(err)
		}
		c.open(v.NodeID)
	}
	return c
}

func (c *trio) open(id int32) {
	c.ticks[id] = make(chan time.Time)
	n, err := Open(Options{
		FS: c.disks[id], Dir: testDir, NodeID: id, DirectoryID: types.UUID{0: byte(id)},
		SegmentBytes: 2000, RetentionBytes: 1, Transport: port{c.net, id}, Tick: c.ticks[id],
		NowMs: func() int64 { return 1_700_000_000_000 },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	l := newTape()
	c.net.mu.Lock()
	c.net.nodes[id], c.net.tapes[id] = n, l
	c.net.mu.Unlock()
	n.Start(l)
}

func (c *trio) node(id int32) (*Node, *tape) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	return c.net.nodes[id], c.net.tapes[id]
}

// step lets time pass everywhere and delivers messages.
func (c *trio) step() {
	for id := int32(1); id <= 3; id++ {
		if n, _ := c.node(id); n != nil {
			select {
			case c.ticks[id] <- time.Time{}:
			case <-n.done:
			}
		}
		c.net.flush()
	}
}

// until steps until cond holds.
func (c *trio) until(what string, cond func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(testPatience)
	for !cond() {
		c.step()
		if time.Now().After(deadline) {
			for id := int32(1); id <= 3; id++ {
				if n, l := c.node(id); n != nil {
					c.t.Logf("node %d: %+v, %d names", id, n.Status(), len(l.topicNames()))
				}
			}
			c.t.Fatalf("%s: waited too long", what)
		}
	}
}

func (c *trio) leader() *Node {
	for id := int32(1); id <= 3; id++ {
		n, _ := c.node(id)
		c.net.mu.Lock()
		cut := c.net.cut[id]
		c.net.mu.Unlock()
		if n != nil && !cut && n.Status().IsLeader {
			return n
		}
	}
	return nil
}

// awaitLeader steps until there is a leader, and returns that one: it may step
// down at any moment after.
func (c *trio) awaitLeader() *Node {
	c.t.Helper()
	var n *Node
	c.until("a leader", func() bool { n = c.leader(); return n != nil })
	return n
}

// propose keeps trying until some leader takes the record.
func (c *trio) propose(name string) {
	c.until("propose "+name, func() bool {
		n := c.leader()
		if n == nil {
			return false
		}
		_, err := n.Propose(topics(name), true)
		return err == nil
	})
}

func (c *trio) has(id int32, name string) bool {
	_, l := c.node(id)
	return slices.Contains(l.topicNames(), name)
}

func (c *trio) setLoss(percent int) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.net.loss = percent
}

func (c *trio) setCut(id int32, cut bool) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.net.cut[id] = cut
}

func (c *trio) close() {
	for id := int32(1); id <= 3; id++ {
		if n, _ := c.node(id); n != nil {
			if err := n.Close(); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// sameLogs compares the bytes of the logs from the highest start on.
func (c *trio) sameLogs() {
	c.t.Helper()
	var from int64
	for id := int32(1); id <= 3; id++ {
		n, _ := c.node(id)
		from = max(from, n.meta.store.StartOffset())
	}
	read := func(id int32) string {
		n, _ := c.node(id)
		var all []byte
		for off := from; off < n.meta.store.EndOffset(); {
			data, err := n.meta.store.Read(off, 1<<20)
			if err != nil || len(data) == 0 {
				c.t.Fatalf("node %d: read at %d: %v", id, off, err)
			}
			all = append(all, data...)
			for len(data) > 0 {
				m, _ := batchBounds(data)
				off, data = m.end, data[m.size:]
			}
		}
		return string(all)
	}
	one := read(1)
	for id := int32(2); id <= 3; id++ {
		if read(id) != one {
			c.t.Fatalf("the logs of nodes 1 and %d differ from offset %d on", id, from)
		}
	}
}

// TestThreeVotersReachTheSameLog runs a quorum of three over a network that
// loses, repeats and reorders, with a leader cut off and a node restarted after
// a crash that has to catch up by a snapshot.
func TestThreeVotersReachTheSameLog(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed) // raft draws its election jitter there
			c := newTrio(t, seed)
			defer c.close()
			c.setLoss(20)
			for i := range 5 {
				c.propose(name(i))
			}
			c.until("first records", func() bool { return c.has(1, name(4)) || c.has(2, name(4)) || c.has(3, name(4)) })
			c.cutLeader()
			c.crashAndSnapshot()
			c.setLoss(0)
			c.propose("last")
			c.until("all have the last record", func() bool { return c.has(1, "last") && c.has(2, "last") && c.has(3, "last") })
			c.until("equal ends", func() bool {
				a, _ := c.node(1)
				b, _ := c.node(2)
				d, _ := c.node(3)
				return a.durableEnd.Load() == b.durableEnd.Load() && b.durableEnd.Load() == d.durableEnd.Load()
			})
			c.sameLogs()
			for id := int32(1); id <= 3; id++ {
				if _, l := c.node(id); len(l.gaps) > 0 {
					t.Errorf("node %d: %v", id, l.gaps)
				}
			}
		})
	}
}

// cutLeader isolates the leader with a proposal that must be lost or kept by
// everybody, has the others go on, and heals.
func (c *trio) cutLeader() {
	old := c.awaitLeader()
	c.setCut(old.opts.NodeID, true)
	_, _ = old.Propose(topics("orphan"), true) // may or may not survive
	c.propose("fresh")
	c.setCut(old.opts.NodeID, false)
	c.until("the old leader follows", func() bool { return c.has(old.opts.NodeID, "fresh") })
}

// crashAndSnapshot stops a follower without warning, lets the others take
// snapshots and drop their logs, and brings it back.
func (c *trio) crashAndSnapshot() {
	down := c.awaitLeader().opts.NodeID%3 + 1
	n, _ := c.node(down)
	c.net.mu.Lock()
	c.net.nodes[down] = nil
	c.net.mu.Unlock()
	left := c.disks[down].CrashClone(vfs.CrashOptions{UnsyncedPercent: 50, Seed: 7})
	if err := n.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.disks[down] = left
	for round := range 3 {
		for i := range 20 {
			c.propose(fmt.Sprintf("round%d-%d", round, i))
		}
		last := fmt.Sprintf("round%d-19", round)
		for id := int32(1); id <= 3; id++ {
			if id == down {
				continue
			}
			c.until("records before a snapshot", func() bool { return c.has(id, last) })
			n, l := c.node(id)
			if _, err := n.TakeSnapshot(imageOf(c.t, l)); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.open(down)
	c.until("the restarted node caught up", func() bool { return c.has(down, "round2-19") })
	if _, l := c.node(down); l.snapshot.Offset == 0 {
		c.t.Error("the restarted node did not need a snapshot; the test lost its point")
	}
}
