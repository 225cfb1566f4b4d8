package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// describeNotFoundVersion is the first DescribeGroups that says
// GROUP_ID_NOT_FOUND (KIP-1043); older ones show a Dead group.
const describeNotFoundVersion = 6

// Group types as ListGroups names them.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// DescribeGroup answers DescribeGroups for one group. A group of another
// protocol is not found (C034), nor a simple one that is not committed yet.
func (s *Shard) DescribeGroup(now coordinator.Now, id string, version int16, committed int64) kmsg.DescribeGroupsResponseGroup {
	if c := s.classicGroup(now, id); c != nil {
		return c.Describe()
	}
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group = id
	if _, ok := s.group(id, committed); ok && s.consumerGroup(id, latest) == nil {
		d.State = classic.Empty.String()
		return d
	}
	d.State = classic.Dead.String()
	if version >= describeNotFoundVersion {
		d.ErrorCode = int16(kerrors.GroupIDNotFound)
		msg := "Group " + id + " not found."
		d.ErrorMessage = &msg
	}
	return d
}

// ListGroups lists the groups that match the filters of req; empty filters
// match everything, and case does not matter.
func (s *Shard) ListGroups(now coordinator.Now, req *kmsg.ListGroupsRequest, committed int64) []kmsg.ListGroupsResponseGroup {
	var out []kmsg.ListGroupsResponseGroup
	for _, id := range s.sortedGroups() {
		if _, ok := s.group(id, committed); !ok && s.live[id] == nil {
			continue // not committed yet
		}
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.GroupType, g.GroupState = id, typeClassic, classic.Empty.String()
		if cg := s.consumerGroup(id, committed); cg != nil {
			g.GroupType, g.ProtocolType, g.GroupState = typeConsumer, classic.ProtocolType, cg.StateName(committed)
		} else if c := s.classicGroup(now, id); c != nil {
			g.ProtocolType, g.GroupState = c.ProtocolType(), c.State().String()
		}
		if matches(req.StatesFilter, g.GroupState) && matches(req.TypesFilter, g.GroupType) {
			out = append(out, g)
		}
	}
	return out
}

func matches(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(strings.TrimSpace(f), value) })
}
