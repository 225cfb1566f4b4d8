package consumer

import (
	"iter"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/metahash"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/timeline"
	"github.com/tidemark-io/tidemark/internal/types"
)

const latest = timeline.Latest

// Metadata is the topics of the cluster.
type Metadata interface {
	// Version grows whenever a topic, its partitions or their racks change.
	Version() int64
	Topic(name string) (assignor.Topic, bool)
	// GrownTimeMs is when a partition was added to a topic that was there; 0 when
	// the topic began with it, or that is not known.
	GrownTimeMs(topic string, partition int32) int64
	Name(id types.UUID) (string, bool)
	// Names yields every topic's name in ascending order.
	Names() iter.Seq[string]
}

// Config is the settings of consumer groups.
type Config struct {
	MaxSize        int      // group.consumer.max.size
	Assignors      []string // group.consumer.assignors; the first is the default
	RegexRefreshMs int64    // group.consumer.regex.refresh.interval.ms
	Observe        coordinator.Observer
	// Resolve has a task resolved elsewhere and handed back to the shard. By
	// default nobody does it, and expressions match nothing.
	Resolve func(*RegexTask)
	// Of returns the settings of one group (config resource type GROUP, over the
	// broker's).
	Of func(group string) GroupConfig
}

// GroupConfig is the settings that a group may have of its own.
type GroupConfig struct {
	SessionMs, HeartbeatMs, AssignmentIntervalMs int64
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		MaxSize: 1<<31 - 1, Assignors: []string{"uniform", "range"}, RegexRefreshMs: 600_000,
		Resolve: func(*RegexTask) {},
		Of: func(string) GroupConfig {
			return GroupConfig{SessionMs: 45_000, HeartbeatMs: 5_000, AssignmentIntervalMs: 1_000}
		},
	}
}

// Env is what the groups of one shard share.
type Env struct {
	Config   *Config
	Timers   *timers.Set
	Metadata Metadata

	hashes    map[string]int64 // of topics, as of hashesAt
	hashAt    int64
	resolving map[string]*RegexTask // looks under way, by group
}

// hash returns the hash of a topic; false when it does not exist.
func (e *Env) hash(name string) (int64, bool) {
	t, ok := e.Metadata.Topic(name)
	if !ok {
		return 0, false
	}
	if v := e.Metadata.Version(); v != e.hashAt || e.hashes == nil {
		e.hashes, e.hashAt = map[string]int64{}, v
	}
	h, ok := e.hashes[name]
	if !ok {
		racks := t.Racks
		if racks == nil {
			racks = func(int32) []string { return nil }
		}
		h = metahash.Topic(t.ID, name, t.Partitions, racks)
		e.hashes[name] = h
	}
	return h, true
}

// meta is the group's epoch and the hash of the metadata it stands for.
type meta struct {
	epoch int32
	hash  int64
}

// targetMeta says which epoch the target assignment is for, and when it was made.
type targetMeta struct {
	epoch       int32
	timestampMs int64
}

// The epochs of a group without records.
var (
	initialMeta   = meta{epoch: 1}
	initialTarget = targetMeta{epoch: 1}
)

// resolved is what a regular expression matched.
type resolved struct {
	topics      []string // ascending
	version     int64
	timestampMs int64
}

type unit struct {
	topic     types.UUID
	partition int32
}

// Group is one consumer group.
type Group struct {
	id  string
	env *Env

	// What the log says.
	meta        *timeline.Map[struct{}, meta]
	targetMeta  *timeline.Map[struct{}, targetMeta]
	members     *timeline.Map[string, *Member]
	target      *timeline.Map[string, assignor.Assignment]
	regexes     *timeline.Map[string, resolved]
	oldMetadata *timeline.Map[struct{}, struct{}] // a ConsumerGroupPartitionMetadata record is in the log

	// What follows from it.
	owners    *timeline.Map[unit, string]   // member ids
	static    *timeline.Map[string, string] // instance id -> member id
	byTopic   *timeline.Map[string, int]    // members that name a topic
	byRegex   *timeline.Map[string, int]    // members that subscribe to an expression
	byChoice  *timeline.Map[string, int]    // members that ask for an assignor
	protocols *timeline.Map[string, int]    // classic members per protocol; "" counts them all

	soft soft
}

// soft is the state that is not in the log.
type soft struct {
	// The metadata was last looked at in this version, for this group epoch.
	freshVersion int64
	freshEpoch   int32
	fresh        bool
	revoking     map[string]int32 // member -> epoch in which its rebalance timeout started
	stats        stats
}

// New returns a group without members; reg orders its changes.
func New(id string, env *Env, reg *timeline.Registry) *Group {
	return &Group{
		id: id, env: env,
		meta:        timeline.NewMap[struct{}, meta](reg),
		targetMeta:  timeline.NewMap[struct{}, targetMeta](reg),
		members:     timeline.NewMap[string, *Member](reg),
		target:      timeline.NewMap[string, assignor.Assignment](reg),
		regexes:     timeline.NewMap[string, resolved](reg),
		oldMetadata: timeline.NewMap[struct{}, struct{}](reg),
		owners:      timeline.NewMap[unit, string](reg),
		static:      timeline.NewMap[string, string](reg),
		byTopic:     timeline.NewMap[string, int](reg),
		byRegex:     timeline.NewMap[string, int](reg),
		byChoice:    timeline.NewMap[string, int](reg),
		protocols:   timeline.NewMap[string, int](reg),
		soft:        soft{revoking: map[string]int32{}},
	}
}

// Known reports that the log says anything of the group.
func (g *Group) Known(asOf int64) bool {
	if _, ok := g.meta.Get(struct{}{}, asOf); ok {
		return true
	}
	if _, ok := g.targetMeta.Get(struct{}{}, asOf); ok {
		return true
	}
	for range g.members.All(asOf) {
		return true
	}
	for range g.target.All(asOf) {
		return true
	}
	for range g.regexes.All(asOf) {
		return true
	}
	_, ok := g.oldMetadata.Get(struct{}{}, asOf)
	return ok
}

// Size returns the number of members.
func (g *Group) Size() int { return g.members.Len() }

// Epoch returns the group epoch.
func (g *Group) Epoch(asOf int64) int32 { return g.metaAt(asOf).epoch }

// AssignmentEpoch returns the epoch of the target assignment.
func (g *Group) AssignmentEpoch(asOf int64) int32 { return g.targetAt(asOf).epoch }

func (g *Group) metaAt(asOf int64) meta {
	if m, ok := g.meta.Get(struct{}{}, asOf); ok {
		return m
	}
	return initialMeta
}

func (g *Group) targetAt(asOf int64) targetMeta {
	if m, ok := g.targetMeta.Get(struct{}{}, asOf); ok {
		return m
	}
	return initialTarget
}

// Member returns a member.
func (g *Group) Member(id string, asOf int64) (*Member, bool) { return g.members.Get(id, asOf) }

// StaticMember returns the member of an instance.
func (g *Group) StaticMember(instance string) (*Member, bool) {
	id, ok := g.static.Get(instance, latest)
	if !ok {
		return nil, false
	}
	return g.members.Get(id, latest)
}

// sortedMembers lists the members by id.
func (g *Group) sortedMembers(asOf int64) []*Member {
	out := make([]*Member, 0, g.members.Len())
	for _, m := range g.members.All(asOf) {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *Member) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// StateName names the group's state (ConsumerGroupState).
func (g *Group) StateName(asOf int64) string {
	assigned := g.AssignmentEpoch(asOf)
	name, found := "Stable", false
	for _, m := range g.members.All(asOf) {
		found = true
		if !m.reconciledTo(assigned) {
			name = "Reconciling"
		}
	}
	switch {
	case !found:
		return "Empty"
	case g.Epoch(asOf) > assigned:
		return "Assigning"
	}
	return name
}

// SubscribedTo reports whether a member reads topic.
func (g *Group) SubscribedTo(topic string) bool {
	if n, _ := g.byTopic.Get(topic, latest); n > 0 {
		return true
	}
	for _, r := range g.regexes.All(latest) {
		if _, ok := slices.BinarySearch(r.topics, topic); ok {
			return true
		}
	}
	return false
}

// ClassicMembers returns how many members speak the classic protocol.
func (g *Group) ClassicMembers() int {
	n, _ := g.protocols.Get("", latest)
	return n
}

// SupportsProtocol reports whether every classic member supports one of names.
func (g *Group) SupportsProtocol(names []string) bool {
	if g.Size() == 0 {
		return len(names) > 0
	}
	all := g.ClassicMembers()
	return slices.ContainsFunc(names, func(n string) bool {
		have, _ := g.protocols.Get(n, latest)
		return n != "" && have == all
	})
}

func (g *Group) tell(what, member string, minor bool) {
	g.env.Config.Observe.Tell(coordinator.Event{
		Group: g.id, What: what, Member: member, Epoch: g.Epoch(latest), Size: g.Size(), Minor: minor,
	})
}

func (g *Group) key(k timers.Kind, member string) timers.Key {
	return timers.Key{Kind: k, Group: g.id, Member: member}
}

// cancelTimers forgets every timer of a member.
func (g *Group) cancelTimers(member string) {
	for _, k := range []timers.Kind{timers.ConsumerSession, timers.ConsumerRebalance, timers.ConsumerJoin, timers.ConsumerSync} {
		g.env.Timers.Cancel(g.key(k, member))
	}
	delete(g.soft.revoking, member)
}

func (e *Env) groupHash(topics []int64) int64 { return metahash.Group(topics) }
