package diff

import (
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *gen) group() string {
	if g.one(12) {
		return "other"
	}
	return pick(g, "g1", "g1", "g2")
}

func (g *gen) offsetCommit() step {
	version := g.version(kmsg.OffsetCommit)
	group, topic, gen, member := g.group(), g.topic(), pick(g, int32(-1), -1, -1, 0, 3, -2), pick(g, "", "", "", "m")
	part, offset, epoch := g.partition(), int64(pick(g, 0, 5, 100, -1, -5, math.MaxInt64)), pick(g, int32(-1), 0, 4)
	meta := pick(g, nil, ptr(""), ptr("m"), ptr(strings.Repeat("é", 4096)))
	if gen < 0 {
		member = "" // a member's commit has a generation
	}
	return g.step(kmsg.OffsetCommit, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation, req.MemberID = s.topic(group), gen, member
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = s.topic(topic), s.id(topic)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = part, offset, epoch, meta
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) offsetFetch() step {
	version := g.version(kmsg.OffsetFetch)
	groups, topic, parts, all, stable := []string{g.group(), g.group()}, g.topic(), []int32{g.partition(), g.partition()}, g.one(3), g.one(3)
	if groups[0] == groups[1] {
		groups = groups[:1]
	}
	member, epoch := pick(g, nil, nil, nil, ptr("m")), pick(g, int32(-1), -1, -1, 0, 5)
	return g.step(kmsg.OffsetFetch, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = s.topic(groups[0]), stable
		if !all || version < 2 {
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: s.topic(topic), Partitions: parts}}
		}
		for _, name := range groups {
			og := kmsg.NewOffsetFetchRequestGroup()
			og.Group, og.MemberID, og.MemberEpoch = s.topic(name), member, epoch
			if !all {
				t := kmsg.NewOffsetFetchRequestGroupTopic()
				t.Topic, t.TopicID, t.Partitions = s.topic(topic), s.id(topic), parts
				og.Topics = append(og.Topics, t)
			}
			req.Groups = append(req.Groups, og)
		}
		return req
	})
}

func (g *gen) offsetDelete() step {
	group, topic, part := g.group(), g.topic(), g.partition()
	return g.step(kmsg.OffsetDelete, 0, func(s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = s.topic(group)
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = s.topic(topic)
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = part
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) findCoordinator() step {
	version := g.version(kmsg.FindCoordinator)
	kind, keys := pick(g, int8(0), 0, 0, 5, -1), []string{g.group(), g.group()}
	return g.step(kmsg.FindCoordinator, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorType = s.topic(keys[0]), kind
		for _, k := range keys {
			req.CoordinatorKeys = append(req.CoordinatorKeys, s.topic(k))
		}
		return req
	})
}

// groups looks at groups of simple consumers through the group APIs.
func (g *gen) groups() step {
	group, member := g.group(), pick(g, "", "m")
	switch g.rng.IntN(5) {
	case 0:
		return g.step(kmsg.DescribeGroups, g.version(kmsg.DescribeGroups), func(s *side) kmsg.Request {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups = []string{s.topic(group)}
			return req
		})
	case 1:
		return g.step(kmsg.DeleteGroups, g.version(kmsg.DeleteGroups), func(s *side) kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{s.topic(group)}
			return req
		})
	case 2:
		return g.step(kmsg.Heartbeat, g.version(kmsg.Heartbeat), func(s *side) kmsg.Request {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = s.topic(group), member, 1
			return req
		})
	case 3:
		return g.step(kmsg.LeaveGroup, g.version(kmsg.LeaveGroup), func(s *side) kmsg.Request {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = s.topic(group), member
			req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member}}
			return req
		})
	}
	return g.step(kmsg.SyncGroup, g.version(kmsg.SyncGroup), func(s *side) kmsg.Request {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.Generation = s.topic(group), member, 1
		req.ProtocolType, req.Protocol = ptr("consumer"), ptr("range")
		return req
	})
}
