package classic

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// ProtocolType is the protocol type of consumers.
const ProtocolType = "consumer"

// State is where a group stands (ClassicGroupState).
type State int8

// The states of a classic group.
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
	Dead
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// Config is the settings of classic groups.
type Config struct {
	MaxSize                 int   // group.max.size
	InitialRebalanceDelayMs int64 // group.initial.rebalance.delay.ms
	NewMemberJoinTimeoutMs  int64 // not a setting in Kafka: 5 minutes
	Observe                 coordinator.Observer
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{MaxSize: 1<<31 - 1, InitialRebalanceDelayMs: 3000, NewMemberJoinTimeoutMs: 5 * 60_000}
}

// Group is one classic group.
type Group struct {
	id     string
	cfg    *Config
	timers *timers.Set

	state, previous State
	stateSinceMs    int64 // wall clock; -1: unknown
	generation      int32
	protocolType    string // "": none
	protocol        string // "": none chosen
	leader          string // "": none

	members      map[string]*Member
	static       map[string]string // instance id -> member id
	pendingJoin  map[string]struct{}
	pendingSync  map[string]struct{}
	awaitingJoin int            // members parked in JoinGroup
	supported    map[string]int // members per protocol
	nextSeq      uint64

	// subscribed topics; nil: not known (ClassicGroup.subscribedTopics).
	subscribed map[string]struct{}

	// The initial rebalance is extended while members come (delay, remaining).
	newMemberAdded                     bool
	initialDelayMs, initialRemainingMs int64

	stats stats
}

// New returns an empty group.
func New(id string, now coordinator.Now, cfg *Config, t *timers.Set) *Group {
	return &Group{
		id: id, cfg: cfg, timers: t, state: Empty, previous: Dead, stateSinceMs: now.WallMs,
		members: map[string]*Member{}, static: map[string]string{}, supported: map[string]int{},
		pendingJoin: map[string]struct{}{}, pendingSync: map[string]struct{}{},
	}
}

// ID returns the group's name.
func (g *Group) ID() string { return g.id }

// State returns where the group stands.
func (g *Group) State() State { return g.state }

// Generation returns the current generation.
func (g *Group) Generation() int32 { return g.generation }

// ProtocolType returns the members' protocol type, "" when there was none yet.
func (g *Group) ProtocolType() string { return g.protocolType }

// Protocol returns the chosen protocol, "" when none is chosen.
func (g *Group) Protocol() string { return g.protocol }

// Size returns the number of members, pending ids not counted.
func (g *Group) Size() int { return len(g.members) }

// StateSinceMs is when the group came into its state; -1 when not known.
func (g *Group) StateSinceMs() int64 { return g.stateSinceMs }

// Simple reports a group that only ever stored offsets.
func (g *Group) Simple() bool {
	return g.protocolType == "" && g.state == Empty && len(g.pendingJoin) == 0
}

// SubscribedTo reports whether a member may read topic. A consumer group whose
// subscriptions cannot be read counts as subscribed to everything.
func (g *Group) SubscribedTo(topic string) bool {
	if g.subscribed == nil {
		return g.protocolType == ProtocolType
	}
	_, ok := g.subscribed[topic]
	return ok
}

// KnowsSubscriptions reports whether the subscribed topics are known.
func (g *Group) KnowsSubscriptions() bool { return g.subscribed != nil }

// Members returns the members in the order in which they joined.
func (g *Group) Members() []*Member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *Member) int { return cmp.Compare(a.seq, b.seq) })
}

// Member returns a member.
func (g *Group) Member(id string) (*Member, bool) {
	m, ok := g.members[id]
	return m, ok
}

// StaticMember returns the member id of an instance.
func (g *Group) StaticMember(instance string) (string, bool) {
	id, ok := g.static[instance]
	return id, ok
}

func (g *Group) transition(now coordinator.Now, to State) {
	g.previous, g.state, g.stateSinceMs = g.state, to, now.WallMs
}

func (g *Group) tell(what, member string) {
	g.cfg.Observe.Tell(coordinator.Event{Group: g.id, What: what, Member: member, Epoch: g.generation, Size: len(g.members)})
}

func (g *Group) key(k timers.Kind, member string) timers.Key {
	return timers.Key{Kind: k, Group: g.id, Member: member}
}

func (g *Group) add(m *Member, to JoinWaiter) {
	if m.InstanceID != nil {
		g.static[*m.InstanceID] = m.ID
	}
	if len(g.members) == 0 {
		g.protocolType = m.protocolType
	}
	if g.leader == "" {
		g.leader = m.ID
	}
	g.nextSeq++
	m.seq = g.nextSeq
	g.members[m.ID] = m
	g.count(m, 1)
	g.park(m, to)
	delete(g.pendingJoin, m.ID)
}

// remove takes out a member or a pending id.
func (g *Group) remove(id string) {
	if m, ok := g.members[id]; ok {
		delete(g.members, id)
		g.count(m, -1)
		g.park(m, nil)
		if m.InstanceID != nil {
			delete(g.static, *m.InstanceID)
		}
	}
	if g.leader == id {
		g.leader = ""
		if rest := g.Members(); len(rest) > 0 {
			g.leader = rest[0].ID
		}
	}
	delete(g.pendingJoin, id)
	delete(g.pendingSync, id)
}

func (g *Group) count(m *Member, by int) {
	for _, p := range m.Protocols {
		g.supported[p.Name] += by
		if g.supported[p.Name] == 0 {
			delete(g.supported, p.Name)
		}
	}
}

// park notes who waits for the end of the join phase; nil: nobody any more.
func (g *Group) park(m *Member, to JoinWaiter) {
	switch {
	case to != nil && m.join == nil:
		g.awaitingJoin++
	case to == nil && m.join != nil:
		g.awaitingJoin--
	}
	m.join = to
}

// validate finds a member (ClassicGroup.validateMember).
func (g *Group) validate(memberID string, instance *string) (*Member, kerrors.Code) {
	if instance != nil {
		switch current, ok := g.static[*instance]; {
		case !ok:
			return nil, kerrors.UnknownMemberID
		case current != memberID:
			return nil, kerrors.FencedInstanceID
		}
	}
	m, ok := g.members[memberID]
	if !ok {
		return nil, kerrors.UnknownMemberID
	}
	return m, kerrors.None
}

// supports reports whether a member with these protocols may be in the group.
func (g *Group) supports(protocolType string, protocols []Protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return protocolType == g.protocolType && slices.ContainsFunc(protocols, func(p Protocol) bool {
		return g.supported[p.Name] == len(g.members)
	})
}

// selectProtocol lets each member vote for the first of its protocols that all
// members support. Between protocols with equal votes the oldest member's order
// decides (in Kafka the order of a hash map).
func (g *Group) selectProtocol() string {
	members := g.Members()
	votes := map[string]int{}
	for _, m := range members {
		for _, p := range m.Protocols {
			if g.supported[p.Name] == len(members) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, p := range members[0].Protocols {
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}

// allJoined reports that the join phase need not wait for anybody.
func (g *Group) allJoined() bool { return len(g.members) == g.awaitingJoin && len(g.pendingJoin) == 0 }

// minRebalanceMs keeps members that allow no time at all from turning the group
// round and round.
const minRebalanceMs int32 = 100

// maxRebalanceMs is how long the slowest member may take to rejoin.
func (g *Group) maxRebalanceMs() int64 {
	most := minRebalanceMs
	for _, m := range g.members {
		most = max(most, m.RebalanceMs)
	}
	return int64(most)
}

// touch starts a member's session anew.
func (g *Group) touch(now coordinator.Now, m *Member) {
	g.timers.Set(g.key(timers.ClassicSession, m.ID), now.TickMs+int64(m.SessionMs))
	m.seenMs = now.TickMs
}

// Kill makes the group dead: its timers are gone, and whoever is still parked is
// answered by the effects that it returns.
func (g *Group) Kill(now coordinator.Now) []coordinator.Effect {
	return g.kill(now, kerrors.NotCoordinator)
}

func (g *Group) kill(now coordinator.Now, code kerrors.Code) []coordinator.Effect {
	var out coordinator.Output
	for _, m := range g.Members() {
		if m.join != nil {
			g.answerJoin(&out, m, joinError(m.ID, code))
		}
		if m.sync != nil {
			g.answerSync(&out, m, syncError(code))
		}
		g.timers.Cancel(g.key(timers.ClassicSession, m.ID))
	}
	for id := range g.pendingJoin {
		g.timers.Cancel(g.key(timers.ClassicSession, id))
	}
	g.timers.Cancel(g.key(timers.ClassicJoin, ""))
	g.timers.Cancel(g.key(timers.ClassicSync, ""))
	g.transition(now, Dead)
	return out.Effects
}

// Pending reports member ids that were given out and have not joined yet.
func (g *Group) Pending() bool { return len(g.pendingJoin) > 0 }
