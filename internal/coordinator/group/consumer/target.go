package consumer

import (
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/types"
)

// change is one request's view of the group: the members as they are, but for
// one that the request brings, changes or replaces.
type change struct {
	g       *Group
	now     coordinator.Now
	member  *Member // as it will be; nil when nobody changes
	old     *Member // as it was; nil for a new member
	removed string  // the id that member replaces, "" for none
	out     coordinator.Output
	// regexes holds what this step makes of expressions, over the group's own;
	// nil means that the expression is gone.
	regexes map[string]*resolved
}

func (c *change) write(r ...coordinator.Record) { c.out.Records = append(c.out.Records, r...) }

// resolution returns what an expression matches, in this request's view.
func (c *change) resolution(expression string) (resolved, bool) {
	if r, ok := c.regexes[expression]; ok {
		if r == nil {
			return resolved{}, false
		}
		return *r, true
	}
	return c.g.regexes.Get(expression, latest)
}

// subscriptions returns the names of the topics that a member may read.
func (c *change) subscriptions(m *Member) []string {
	r, ok := c.resolution(m.regex())
	switch {
	case m.regex() == "" || !ok || len(r.topics) == 0:
		return m.Topics
	case len(m.Topics) == 0:
		return r.topics
	}
	both := append(slices.Clone(m.Topics), r.topics...)
	slices.Sort(both)
	return slices.Compact(both)
}

// topicIDs returns the ids of the topics among names that exist, ascending.
func (c *change) topicIDs(names []string) []types.UUID {
	out := make([]types.UUID, 0, len(names))
	for _, n := range names {
		if t, ok := c.g.env.Metadata.Topic(n); ok {
			out = append(out, t.ID)
		}
	}
	slices.SortFunc(out, assignor.CompareIDs)
	return out
}

// members yields the members as they will be.
func (c *change) members() []*Member {
	all := c.g.sortedMembers(latest)
	if c.member == nil {
		return all
	}
	all = slices.DeleteFunc(all, func(m *Member) bool { return m.ID == c.removed || m.ID == c.member.ID })
	i, _ := slices.BinarySearchFunc(all, c.member.ID, func(m *Member, id string) int { return strings.Compare(m.ID, id) })
	return slices.Insert(all, i, c.member)
}

// topics returns the names that the group subscribes to, ascending.
func (c *change) topics() []string {
	seen := map[string]struct{}{}
	for _, m := range c.members() {
		for _, t := range m.Topics {
			seen[t] = struct{}{}
		}
		if r, ok := c.resolution(m.regex()); ok && m.regex() != "" {
			for _, t := range r.topics {
				seen[t] = struct{}{}
			}
		}
	}
	out := make([]string, 0, len(seen))
	for t := range seen {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

// metadataHash is the hash of the topics that the group subscribes to.
func (c *change) metadataHash() int64 {
	var hashes []int64
	for _, t := range c.topics() {
		if h, ok := c.g.env.hash(t); ok {
			hashes = append(hashes, h)
		}
	}
	return c.g.env.groupHash(hashes)
}

// bump writes a new group epoch if force says so or the metadata changed, and
// returns the group epoch.
func (c *change) bump(force bool) meta {
	m := c.g.metaAt(latest)
	hash := c.metadataHash()
	if force || hash != m.hash {
		m = meta{epoch: m.epoch + 1, hash: hash}
		c.write(c.g.epochRecord(m))
		c.g.soft.stats.started(c.now)
	}
	c.g.soft.fresh, c.g.soft.freshVersion, c.g.soft.freshEpoch = true, c.g.env.Metadata.Version(), m.epoch
	return m
}

// stale reports that the metadata has to be looked at again: it changed, or what
// was written when it was looked at last is lost.
func (c *change) stale() bool {
	s := &c.g.soft
	return !s.fresh || s.freshVersion != c.g.env.Metadata.Version() || c.g.metaAt(latest).epoch < s.freshEpoch
}

// assignorName is the assignor that most members ask for.
func (c *change) assignorName() string {
	votes := map[string]int{}
	best, fallback := "", c.g.env.Config.Assignors[0]
	for _, m := range c.members() {
		if m.Assignor != nil {
			votes[*m.Assignor]++
		}
	}
	for _, name := range c.g.env.Config.Assignors {
		if votes[name] > votes[best] {
			best = name
		}
	}
	if best == "" {
		return fallback
	}
	return best
}

// targetOf returns the target assignment of a member; a static member that
// replaces another one has the other's.
func (c *change) targetOf(id string) (assignor.Assignment, bool) {
	if c.removed != "" && c.member != nil && id == c.member.ID {
		id = c.removed
	}
	return c.g.target.Get(id, latest)
}

// retarget computes a new target assignment when the group epoch asks for one
// and the last is old enough (KIP-1263). It returns the assignment epoch and the
// changed member's target.
func (c *change) retarget(groupEpoch int32) (epoch int32, target assignor.Assignment) {
	last := c.g.targetAt(latest)
	interval := c.g.env.Config.Of(c.g.id).AssignmentIntervalMs
	if last.epoch >= groupEpoch || last.timestampMs != 0 && interval != 0 && c.now.WallMs < last.timestampMs+interval {
		if c.member != nil {
			target, _ = c.targetOf(c.member.ID)
		}
		return last.epoch, target
	}
	in := assignor.Input{Topics: map[types.UUID]assignor.Topic{}}
	members := c.members()
	ids := map[string][]types.UUID{} // members mostly share their subscription
	for _, m := range members {
		in.Members = append(in.Members, c.assignorMember(m, ids))
	}
	for _, name := range c.topics() {
		if t, ok := c.g.env.Metadata.Topic(name); ok {
			in.Topics[t.ID] = t
		}
	}
	assign, _ := assignor.ByName(c.assignorName())
	for i, a := range assign(in) {
		id := members[i].ID
		if old, ok := c.targetOf(id); !ok || !a.Equal(old) || c.removed != "" && id == c.member.ID {
			c.write(c.g.targetRecord(id, a))
		}
		if c.member != nil && id == c.member.ID {
			target = a
		}
	}
	c.write(c.g.targetMetaRecord(targetMeta{epoch: groupEpoch, timestampMs: c.now.WallMs}))
	c.g.soft.stats.retargeted(members)
	c.g.tell("new target assignment", "", true)
	return groupEpoch, target
}

func (c *change) assignorMember(m *Member, ids map[string][]types.UUID) assignor.Member {
	am := assignor.Member{ID: m.ID}
	if m.InstanceID != nil {
		am.InstanceID = *m.InstanceID
	}
	if m.RackID != nil {
		am.Rack = *m.RackID
	}
	am.Target, _ = c.targetOf(m.ID)
	names := c.subscriptions(m)
	key := joined(names)
	topics, ok := ids[key]
	if !ok {
		topics = c.topicIDs(names)
		ids[key] = topics
	}
	am.Topics = topics
	return am
}

// joined is a key for a list of names, which do not contain commas.
func joined(names []string) string {
	n := 0
	for _, s := range names {
		n += len(s) + 1
	}
	b := make([]byte, 0, n)
	for _, s := range names {
		b = append(append(b, s...), ',')
	}
	return string(b)
}
