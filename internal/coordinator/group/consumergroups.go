package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/timeline"
)

// consumerGroup returns a group under KIP-848; nil for others.
func (s *Shard) consumerGroup(id string, asOf int64) *consumer.Group {
	g, ok := s.group(id, asOf)
	if !ok || g.consumer == nil || !g.consumer.Known(asOf) {
		return nil
	}
	return g.consumer
}

// HeartbeatResult is what a ConsumerGroupHeartbeat leads to.
type HeartbeatResult = coordinator.Result[*kmsg.ConsumerGroupHeartbeatResponse]

// ConsumerHeartbeat handles a ConsumerGroupHeartbeat (versions 0 and 1).
func (s *Shard) ConsumerHeartbeat(now coordinator.Now, r consumer.Request) (HeartbeatResult, error) {
	s.sync()
	if err := checkHeartbeat(&r, s.cfg.Consumer.Assignors); err != nil {
		return HeartbeatResult{}, err
	}
	if r.MemberEpoch < consumer.JoinEpoch {
		return s.consumerLeave(now, &r)
	}
	g := s.consumerGroup(r.Group, latest)
	var before coordinator.Output
	if g == nil {
		if r.MemberEpoch != consumer.JoinEpoch {
			return HeartbeatResult{}, groupNotFound(r.Group)
		}
		var err error
		if g, before, err = s.newConsumerGroup(now, r.Group); err != nil {
			return HeartbeatResult{}, err
		}
	}
	out, resp, err := g.Heartbeat(now, r)
	if err != nil {
		return HeartbeatResult{}, err
	}
	merge(&before, out)
	return coordinator.With(before, resp), nil
}

func groupNotFound(id string) error {
	return kerrors.New(kerrors.GroupIDNotFound, "Group %s not found.", id)
}

// checkHeartbeat finds requests that make no sense
// (throwIfConsumerGroupHeartbeatRequestIsInvalid).
func checkHeartbeat(r *consumer.Request, assignors []string) error {
	bad := func(msg string) error { return kerrors.New(kerrors.InvalidRequest, "%s", msg) }
	empty := func(s *string) bool { return s != nil && *s == "" }
	switch {
	case r.MemberID == "" && (r.Version >= 1 || r.MemberEpoch > 0 || r.MemberEpoch == consumer.LeaveEpoch):
		return bad("MemberId can't be empty.")
	case r.Group == "":
		return bad("GroupId can't be empty.")
	case empty(r.InstanceID):
		return bad("InstanceId can't be empty.")
	case empty(r.RackID):
		return bad("RackId can't be empty.")
	case r.MemberEpoch < consumer.LeaveStaticEpoch:
		return bad("MemberEpoch is invalid.")
	case r.MemberEpoch == consumer.LeaveStaticEpoch && r.InstanceID == nil:
		return bad("InstanceId can't be null.")
	case r.MemberEpoch != consumer.JoinEpoch:
	case r.RebalanceTimeoutMillis == -1:
		return bad("RebalanceTimeoutMs must be provided in first request.")
	case r.Topics == nil || len(r.Topics) > 0:
		return bad("TopicPartitions must be empty when (re-)joining.")
	case r.SubscribedTopicNames == nil && r.SubscribedTopicRegex == nil:
		return bad("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	}
	if r.ServerAssignor != nil && !slices.Contains(assignors, *r.ServerAssignor) {
		return kerrors.New(kerrors.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %v.", *r.ServerAssignor, assignors)
	}
	return nil
}

// newConsumerGroup makes a consumer group for its first member: from nothing, in
// place of a group without members, or out of a classic one. The group is a
// sketch of what the records will make.
func (s *Shard) newConsumerGroup(now coordinator.Now, id string) (*consumer.Group, coordinator.Output, error) {
	var out coordinator.Output
	c := s.classicGroup(now, id)
	if c != nil && c.State() != classic.Empty {
		return s.upgrade(now, c)
	}
	if c != nil {
		out.Records, out.Effects = s.endGroup(now, id)
	}
	return s.sketch(id), out, nil
}

// sketch returns an empty consumer group that is not in the shard.
func (s *Shard) sketch(id string) *consumer.Group {
	return consumer.New(id, &s.env, &timeline.Registry{})
}

// RegexResolved takes the result of a look at the expressions of a group. The
// response says whether the look was this shard's.
func (s *Shard) RegexResolved(now coordinator.Now, t *consumer.RegexTask) coordinator.Result[bool] {
	s.sync()
	if !s.env.Resolved(t) {
		return coordinator.Result[bool]{}
	}
	g := s.consumerGroup(t.Group, latest)
	if g == nil {
		return coordinator.Result[bool]{Response: true}
	}
	return coordinator.With(g.RegexResolved(now, t), true)
}

// consumerLeave handles a heartbeat that says farewell.
func (s *Shard) consumerLeave(now coordinator.Now, r *consumer.Request) (HeartbeatResult, error) {
	g := s.consumerGroup(r.Group, latest)
	if g == nil {
		return HeartbeatResult{}, groupNotFound(r.Group)
	}
	m, err := g.Leaving(r.MemberID, r.InstanceID)
	if err != nil {
		return HeartbeatResult{}, err
	}
	if r.MemberEpoch == consumer.LeaveStaticEpoch {
		out, resp := g.Pause(now, m)
		return coordinator.With(out, resp), nil
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &r.MemberID, consumer.LeaveEpoch
	return coordinator.With(s.removeConsumers(now, g, r.Group, []*consumer.Member{m}, false), resp), nil
}

// removeConsumers takes members out of a consumer group, which becomes a classic
// one when only classic members are left.
func (s *Shard) removeConsumers(now coordinator.Now, g *consumer.Group, id string, members []*consumer.Member, silent bool) coordinator.Output {
	if len(members) == 0 {
		return coordinator.Output{}
	}
	if out, done := s.downgradeWithout(now, g, id, members); done {
		return out
	}
	return g.Remove(now, members, silent)
}

// DescribeConsumerGroup answers ConsumerGroupDescribe for one group, as of the
// committed offset.
func (s *Shard) DescribeConsumerGroup(id string, committed int64) kmsg.ConsumerGroupDescribeResponseGroup {
	s.sync()
	if g := s.consumerGroup(id, committed); g != nil {
		return g.Describe(committed)
	}
	d := kmsg.NewConsumerGroupDescribeResponseGroup()
	msg := "Group " + id + " not found."
	d.Group, d.ErrorCode, d.ErrorMessage = id, int16(kerrors.GroupIDNotFound), &msg
	return d
}
