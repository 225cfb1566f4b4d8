package consumer

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Describe fills a ConsumerGroupDescribe answer with the state as of an offset.
func (g *Group) Describe(asOf int64) kmsg.ConsumerGroupDescribeResponseGroup {
	d := kmsg.NewConsumerGroupDescribeResponseGroup()
	d.Group, d.State, d.Epoch, d.AssignmentEpoch = g.id, g.StateName(asOf), g.Epoch(asOf), g.AssignmentEpoch(asOf)
	d.AssignorName = g.AssignorName(asOf)
	for _, m := range g.sortedMembers(asOf) {
		target, _ := g.target.Get(m.ID, asOf)
		d.Members = append(d.Members, g.describeMember(m, target))
	}
	return d
}

func (g *Group) describeMember(m *Member, target assignor.Assignment) kmsg.ConsumerGroupDescribeResponseGroupMember {
	d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	d.MemberID, d.InstanceID, d.RackID, d.MemberEpoch = m.ID, m.InstanceID, m.RackID, m.Epoch
	d.ClientID, d.ClientHost, d.SubscribedTopics, d.SubscribedTopicRegex = m.ClientID, m.ClientHost, m.Topics, m.Regex
	// A member answers for its partitions until it has given them up.
	d.Assignment = g.named(partitionsOf(union(m.Assigned, m.Revoking)))
	d.TargetAssignment = g.named(target)
	if !m.UsesClassic() {
		d.MemberType = 1
	}
	return d
}

func partitionsOf(owned []Owned) assignor.Assignment {
	out := make(assignor.Assignment, len(owned))
	for i, o := range owned {
		out[i] = assignor.Partitions{TopicID: o.TopicID, Partitions: o.Partitions}
	}
	return out
}

// Dealt returns how many partitions of each topic the target assignment deals
// out; topics of which it leaves some out in between are not in it.
func (g *Group) Dealt() map[string]int32 {
	total, most := map[types.UUID]int32{}, map[types.UUID]int32{}
	for _, a := range g.target.All(latest) {
		for _, t := range a {
			total[t.TopicID] += int32(len(t.Partitions))
			most[t.TopicID] = max(most[t.TopicID], t.Partitions[len(t.Partitions)-1]+1)
		}
	}
	out := map[string]int32{}
	for id, n := range total {
		if name, ok := g.env.Metadata.Name(id); ok && n == most[id] {
			out[name] = n
		}
	}
	return out
}

// named adds the topics' names; topics that are gone are left out.
func (g *Group) named(in assignor.Assignment) kmsg.Assignment {
	out := kmsg.NewAssignment()
	for _, t := range in {
		name, ok := g.env.Metadata.Name(t.TopicID)
		if !ok {
			continue
		}
		tp := kmsg.NewAssignmentTopicPartition()
		tp.TopicID, tp.Topic, tp.Partitions = t.TopicID, name, t.Partitions
		out.TopicPartitions = append(out.TopicPartitions, tp)
	}
	return out
}

// AssignorName is the assignor that most members ask for, or the default.
func (g *Group) AssignorName(asOf int64) string {
	best, most := g.env.Config.Assignors[0], 0
	for _, name := range g.env.Config.Assignors {
		if n, _ := g.byChoice.Get(name, asOf); n > most {
			best, most = name, n
		}
	}
	return best
}
