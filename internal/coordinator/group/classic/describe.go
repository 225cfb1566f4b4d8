package classic

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe fills a DescribeGroups answer. Assignments and subscriptions are
// told of a stable group only.
func (g *Group) Describe() kmsg.DescribeGroupsResponseGroup {
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group, d.State, d.ProtocolType = g.id, g.state.String(), g.protocolType
	if g.state == Stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.Members() {
		dm := kmsg.NewDescribeGroupsResponseGroupMember()
		dm.MemberID, dm.InstanceID, dm.ClientID, dm.ClientHost = m.ID, m.InstanceID, m.ClientID, m.ClientHost
		dm.ProtocolMetadata, dm.MemberAssignment = []byte{}, notNil(m.Assignment)
		if g.state == Stable {
			dm.ProtocolMetadata = notNil(m.Metadata(g.protocol))
		}
		d.Members = append(d.Members, dm)
	}
	return d
}

// subscriptions are the topics of all members; nil when the group is not one of
// consumers, or speaks in a way that cannot be read (computeSubscribedTopics).
func (g *Group) subscriptions() map[string]struct{} {
	if g.protocolType != ProtocolType || len(g.members) > 0 && g.protocol == "" {
		return nil
	}
	out := map[string]struct{}{}
	for _, m := range g.members {
		s, ok := ParseSubscription(m.Metadata(g.protocol))
		if !ok {
			return nil
		}
		for _, t := range s.Topics {
			out[t] = struct{}{}
		}
	}
	return out
}
