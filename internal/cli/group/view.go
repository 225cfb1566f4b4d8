package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Types of groups as ListGroups names them.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// view is a group as its coordinator sees it, whatever its type.
type view struct {
	Group       string `json:"group"`
	Type        string `json:"type"` // classic or consumer
	State       string `json:"state"`
	Coordinator int32  `json:"coordinator"`
	// Protocol is the name that members of a classic group agreed on; it is
	// empty for a KIP-848 group, where the coordinator assigns.
	Protocol     string `json:"protocol,omitempty"`
	ProtocolType string `json:"protocol_type,omitempty"`
	Assignor     string `json:"assignor,omitempty"`
	// Epoch grows when members or topics change; AssignmentEpoch is the epoch
	// that the newest assignment was made for. Both are absent for classic groups:
	// their generation is on no describe request.
	Epoch           *int32   `json:"epoch,omitempty"`
	AssignmentEpoch *int32   `json:"assignment_epoch,omitempty"`
	Members         []member `json:"members"`
}

type member struct {
	ID         string   `json:"member"`
	Instance   *string  `json:"instance,omitempty"` // group.instance.id (KIP-345)
	Client     string   `json:"client"`
	Host       string   `json:"host"`
	Rack       *string  `json:"rack,omitempty"`
	Protocol   string   `json:"protocol"` // what this member speaks: classic or consumer
	Epoch      *int32   `json:"epoch,omitempty"`
	State      string   `json:"state"`
	Subscribed []string `json:"subscribed,omitempty"`
	Regex      *string  `json:"subscribed_regex,omitempty"`
	Assigned   []owned  `json:"assigned"`
	Target     []owned  `json:"target,omitempty"` // KIP-848: what it shall have
}

type owned struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// active reports whether the group has members: then its offsets are theirs.
func (v view) active() bool { return len(v.Members) > 0 }

// owners maps every assigned partition to its member.
func (v view) owners() map[string]map[int32]member {
	out := map[string]map[int32]member{}
	for _, m := range v.Members {
		for _, t := range m.Assigned {
			if out[t.Topic] == nil {
				out[t.Topic] = map[int32]member{}
			}
			for _, p := range t.Partitions {
				out[t.Topic][p] = m
			}
		}
	}
	return out
}

// fromConsumer makes a view of a KIP-848 group.
func fromConsumer(g kmsg.ConsumerGroupDescribeResponseGroup, coordinator int32) view {
	v := view{
		Group: g.Group, Type: typeConsumer, State: g.State, Coordinator: coordinator, ProtocolType: "consumer",
		Assignor: g.AssignorName, Epoch: &g.Epoch, AssignmentEpoch: &g.AssignmentEpoch, Members: []member{},
	}
	for _, m := range g.Members {
		has, shall := toSet(m.Assignment.TopicPartitions), toSet(m.TargetAssignment.TopicPartitions)
		row := member{
			ID: m.MemberID, Instance: m.InstanceID, Client: m.ClientID, Host: m.ClientHost, Rack: m.RackID, Protocol: typeConsumer,
			Epoch: &m.MemberEpoch, Subscribed: slices.Sorted(slices.Values(m.SubscribedTopics)), Regex: m.SubscribedTopicRegex,
			State: reconciliation(has, shall, m.MemberEpoch, g.AssignmentEpoch), Assigned: fromSet(has), Target: fromSet(shall),
		}
		if m.MemberType == 0 { // KIP-848 migration: a classic member in a consumer group
			row.Protocol = typeClassic
		}
		v.Members = append(v.Members, row)
	}
	slices.SortFunc(v.Members, func(a, b member) int { return strings.Compare(name(a.ID, a.Instance), name(b.ID, b.Instance)) })
	return v
}

// reconciliation says how far a KIP-848 member is on the way to its target. The
// coordinator keeps that state but puts it on no response, so it is read from
// epochs and assignments as the KIP defines them.
func reconciliation(has, shall kadm.TopicsSet, epoch, assignmentEpoch int32) string {
	extra, missing := count(has, shall), count(shall, has)
	switch {
	case epoch < 0:
		return "away (static)"
	case extra > 0:
		return fmt.Sprintf("revoking %d", extra)
	case missing > 0:
		return fmt.Sprintf("waiting for %d", missing)
	case epoch < assignmentEpoch:
		return "catching up"
	}
	return "stable"
}

func toSet(list []kmsg.AssignmentTopicPartition) kadm.TopicsSet {
	out := kadm.TopicsSet{}
	for _, t := range list {
		out.Add(t.Topic, t.Partitions...)
	}
	return out
}

// count is how many partitions of a are not in b.
func count(a, b kadm.TopicsSet) int {
	n := 0
	a.Each(func(t string, p int32) {
		if !b.Lookup(t, p) {
			n++
		}
	})
	return n
}

// fromClassic makes a view of a classic group.
func fromClassic(g kadm.DescribedGroup) view {
	v := view{
		Group: g.Group, Type: typeClassic, State: g.State, Coordinator: g.Coordinator.NodeID,
		Protocol: g.Protocol, ProtocolType: g.ProtocolType, Assignor: g.Protocol, Members: []member{},
	}
	for _, m := range g.Members {
		row := member{ID: m.MemberID, Instance: m.InstanceID, Client: m.ClientID, Host: m.ClientHost, Protocol: typeClassic, Assigned: []owned{}}
		row.State = classicState(g.State)
		if j, ok := m.Join.AsConsumer(); ok {
			row.Subscribed = slices.Sorted(slices.Values(j.Topics))
		}
		if as, ok := m.Assigned.AsConsumer(); ok {
			row.Assigned = fromAssignment(as)
		}
		v.Members = append(v.Members, row)
	}
	return v
}

// classicState: all members of a classic group are in the same round.
func classicState(group string) string {
	switch group {
	case "Stable":
		return "stable"
	case "PreparingRebalance":
		return "joining"
	case "CompletingRebalance":
		return "awaiting sync"
	}
	return "-"
}

func fromAssignment(as *kmsg.ConsumerMemberAssignment) []owned {
	set := kadm.TopicsSet{}
	for _, t := range as.Topics {
		set.Add(t.Topic, t.Partitions...)
	}
	return fromSet(set)
}

func fromSet(s kadm.TopicsSet) []owned {
	out := []owned{}
	for _, t := range s.Sorted() {
		out = append(out, owned{t.Topic, t.Partitions})
	}
	return out
}
