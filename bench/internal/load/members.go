package load

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// GroupOptions describe a consumer group (KIP-848) of members that do nothing
// but heartbeat.
type GroupOptions struct {
	Addr, Group string
	Topics      []string
	Partitions  int           // of all topics together
	Conns       int           // shared by the members
	Every       time.Duration // between two heartbeats of a member
}

// Group is such a group at work: raw requests over few connections, since a
// thousand clients would take the box for themselves. A member has one heartbeat
// under way; it gives up what it is told to give up at once, and says so with
// the next heartbeat, without a pause, as clients do.
type Group struct {
	o       GroupOptions
	conns   []*groupConn
	beats   atomic.Int64
	nonstop atomic.Bool
	closing atomic.Bool
	wg      sync.WaitGroup

	mu      sync.Mutex // guards the tally
	members []*groupMember
	counts  map[int]int   // members by number of partitions
	epochs  map[int32]int // members by epoch
	owned   int           // partitions of all members
	settled time.Time     // since when; zero: not
	err     error
}

// groupMember belongs to whoever has it: the writer, the queue, the reader.
type groupMember struct {
	conn       *groupConn
	id         string
	epoch      int32
	assignment []kmsg.ConsumerGroupHeartbeatRequestTopic
	owns       int
	report     bool // the next heartbeat lists the partitions
}

type groupConn struct {
	*Conn
	ready, sent chan *groupMember
}

// maxPerConn bounds the members of one connection.
const maxPerConn = 4096

// StartGroup finds the coordinator, connects, and returns a group without
// members.
func StartGroup(o GroupOptions) (*Group, error) {
	if err := awaitCoordinator(o.Addr, o.Group); err != nil {
		return nil, err
	}
	g := &Group{o: o, counts: map[int]int{}, epochs: map[int32]int{}}
	for range o.Conns {
		c, err := Dial(o.Addr)
		if err != nil {
			g.Close()
			return nil, err
		}
		gc := &groupConn{Conn: c, ready: make(chan *groupMember, maxPerConn), sent: make(chan *groupMember, maxPerConn)}
		g.conns = append(g.conns, gc)
		g.wg.Go(func() { g.write(gc) })
		g.wg.Go(func() { g.read(gc) })
	}
	return g, nil
}

// awaitCoordinator makes the broker create __consumer_offsets and waits until it
// serves the group.
func awaitCoordinator(addr, group string) error {
	c, err := Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline := time.Now().Add(adminTimeoutMs * time.Millisecond)
	for {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.SetVersion(3)
		find.CoordinatorKey = group
		found := kmsg.NewPtrFindCoordinatorResponse()
		if err := c.Do(find, found); err != nil {
			return err
		}
		code := found.ErrorCode
		if code == 0 {
			fetch := kmsg.NewPtrOffsetFetchRequest()
			fetch.SetVersion(7)
			fetch.Group = group
			fetched := kmsg.NewPtrOffsetFetchResponse()
			if err := c.Do(fetch, fetched); err != nil {
				return err
			}
			if code = fetched.ErrorCode; code == 0 {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no coordinator for %s: error %d", group, code)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Join adds members, all at once.
func (g *Group) Join(n int) {
	g.mu.Lock()
	first := len(g.members)
	for i := range n {
		m := &groupMember{id: fmt.Sprintf("member-%05d", first+i), conn: g.conns[(first+i)%len(g.conns)], report: true}
		g.members = append(g.members, m)
		g.count(m, +1)
	}
	joining := g.members[first:]
	g.settled = time.Time{}
	g.mu.Unlock()
	for _, m := range joining {
		m.conn.ready <- m
	}
}

// Nonstop says whether members heartbeat again as soon as they are answered.
func (g *Group) Nonstop(on bool) { g.nonstop.Store(on) }

// Beats returns how many heartbeats were answered.
func (g *Group) Beats() int64 { return g.beats.Load() }

// AwaitSettled waits until every member is in the same epoch and each partition
// has one owner, fairly shared, and returns when that was.
func (g *Group) AwaitSettled(within time.Duration) (time.Time, error) {
	deadline := time.Now().Add(within)
	for {
		g.mu.Lock()
		at, err, owned, epochs := g.settled, g.err, g.owned, len(g.epochs)
		g.mu.Unlock()
		switch {
		case err != nil:
			return at, err
		case !at.IsZero():
			return at, g.checkOwners()
		case time.Now().After(deadline):
			return at, fmt.Errorf("not settled within %v: %d of %d partitions owned, members in %d epochs", within, owned, g.o.Partitions, epochs)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// checkOwners looks for partitions with two owners.
func (g *Group) checkOwners() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	type unit struct {
		topic     [16]byte
		partition int32
	}
	owners := map[unit]string{}
	for _, m := range g.members {
		for _, t := range m.assignment {
			for _, p := range t.Partitions {
				u := unit{t.TopicID, p}
				if other, taken := owners[u]; taken {
					return fmt.Errorf("partition %d of %x belongs to %s and %s", p, t.TopicID, other, m.id)
				}
				owners[u] = m.id
			}
		}
	}
	return nil
}

// Close ends the connections; the members do not say farewell.
func (g *Group) Close() {
	g.closing.Store(true)
	for _, c := range g.conns {
		c.Close()
		c.ready <- nil
	}
	g.wg.Wait()
}

func (g *Group) fail(err error) {
	if errors.Is(err, net.ErrClosed) && g.closing.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = errors.Join(g.err, err)
}
