package groupservice

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// ConsumerHeartbeat handles a ConsumerGroupHeartbeat.
func (s *Service) ConsumerHeartbeat(ctx context.Context, req *kmsg.ConsumerGroupHeartbeatRequest, clientID, clientHost string) *kmsg.ConsumerGroupHeartbeatResponse {
	r := consumer.Request{ConsumerGroupHeartbeatRequest: req, ClientID: clientID, ClientHost: clientHost}
	if req.MemberID == "" {
		r.NewMemberID = newMemberID()
	}
	if e := req.SubscribedTopicRegex; e != nil && *e != "" {
		r.InvalidRegex = consumer.CheckRegex(*e) // here, where only this member waits
	}
	var resp *kmsg.ConsumerGroupHeartbeatResponse
	err := s.checkConsumerProtocol()
	if err == nil {
		resp, err = write(ctx, s, req.Group, func(g *group.Shard) (group.HeartbeatResult, error) { return g.ConsumerHeartbeat(s.now(), r) })
	}
	if err != nil {
		resp = kmsg.NewPtrConsumerGroupHeartbeatResponse()
		msg := kerrors.MessageOf(err)
		resp.ErrorCode, resp.ErrorMessage = int16(kerrors.CodeOf(err)), &msg
	}
	return resp
}

// DescribeConsumerGroup answers ConsumerGroupDescribe for one group.
func (s *Service) DescribeConsumerGroup(ctx context.Context, id string) kmsg.ConsumerGroupDescribeResponseGroup {
	var d kmsg.ConsumerGroupDescribeResponseGroup
	err := s.checkConsumerProtocol()
	if err == nil {
		d, err = read(ctx, s, id, func(g *group.Shard, committed int64) (kmsg.ConsumerGroupDescribeResponseGroup, error) {
			return g.DescribeConsumerGroup(id, committed), nil
		})
	}
	if err != nil {
		d = kmsg.NewConsumerGroupDescribeResponseGroup()
		msg := kerrors.MessageOf(err)
		d.Group, d.ErrorCode, d.ErrorMessage = id, int16(kerrors.CodeOf(err)), &msg
	}
	return d
}

func (s *Service) checkConsumerProtocol() error {
	if s.opts.ConsumerProtocolOff {
		return kerrors.New(kerrors.UnsupportedVersion, "group.coordinator.rebalance.protocols does not name consumer")
	}
	return nil
}
