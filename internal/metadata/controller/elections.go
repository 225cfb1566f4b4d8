package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// Election types on the wire (ElectionType).
const (
	electionTypePreferred int8 = 0
	electionTypeUnclean   int8 = 1
)

// ElectLeaders elects preferred leaders, or unclean ones where there is none
// (KIP-183, KIP-460). A nil topic list means every partition, and leaves out
// those that need no election.
func (c *Core) ElectLeaders(req *kmsg.ElectLeadersRequest) Result[*kmsg.ElectLeadersResponse] {
	resp := kmsg.NewPtrElectLeadersResponse()
	resp.Version = req.Version
	if req.ElectionType != electionTypePreferred && req.ElectionType != electionTypeUnclean {
		return Result[*kmsg.ElectLeadersResponse]{Response: unknownElection(req, resp)}
	}
	p := c.newPlan()
	elect := func(topic string, id int32) *kerrors.Error { return c.electLeader(p, topic, id, req.ElectionType) }
	if req.Topics == nil {
		for t := range c.now().Topics.All() {
			out := kmsg.NewElectLeadersResponseTopic()
			out.Topic = t.Name
			for i := range t.Partitions {
				if err := elect(t.Name, int32(i)); err == nil || err.Code != kerrors.ElectionNotNeeded {
					out.Partitions = append(out.Partitions, electionAnswer(int32(i), err))
				}
			}
			resp.Topics = append(resp.Topics, out)
		}
	}
	for _, t := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, id := range t.Partitions {
			out.Partitions = append(out.Partitions, electionAnswer(id, elect(t.Topic, id)))
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(p.records) > maxRecordsPerUserOp {
		resp.ErrorCode = int16(kerrors.PolicyViolation)
		resp.Topics = nil
		return Result[*kmsg.ElectLeadersResponse]{Response: resp, Refused: errExcessivelyLargeBatch}
	}
	return Result[*kmsg.ElectLeadersResponse]{Records: p.records, Response: resp}
}

func electionAnswer(id int32, err *kerrors.Error) kmsg.ElectLeadersResponseTopicPartition {
	out := kmsg.NewElectLeadersResponseTopicPartition()
	out.Partition, out.ErrorCode, out.ErrorMessage = id, errCode(err), messagePtr(err)
	return out
}

func unknownElection(req *kmsg.ElectLeadersRequest, resp *kmsg.ElectLeadersResponse) *kmsg.ElectLeadersResponse {
	err := kerrors.New(kerrors.InvalidRequest, "Unknown election type %d", req.ElectionType)
	resp.ErrorCode = errCode(err)
	for _, t := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, id := range t.Partitions {
			out.Partitions = append(out.Partitions, electionAnswer(id, err))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (c *Core) electLeader(p *plan, topicName string, id int32, electionType int8) *kerrors.Error {
	topic, ok := c.now().Topics.ByName(topicName)
	if !ok {
		return kerrors.New(kerrors.UnknownTopicOrPartition, "No such topic as %s", topicName)
	}
	k := partKey{topic.ID, id}
	part, ok := p.partition(k)
	if !ok {
		return kerrors.New(kerrors.UnknownTopicOrPartition, "No such partition as %s-%d", topicName, id)
	}
	preferred := electionType == electionTypePreferred
	if preferred && part.Leader == part.PreferredReplica() || !preferred && part.Leader != recordschema.NoLeader {
		return kerrors.New(kerrors.ElectionNotNeeded, "Leader election not needed for topic partition.")
	}
	b := p.change(k, part, topicName)
	b.election = electUnclean
	if preferred {
		b.election = electPreferred
	}
	if _, rec := p.commit(b); rec != nil {
		return nil
	}
	if preferred {
		return kerrors.New(kerrors.PreferredLeaderNotAvailable, "The preferred leader was not available.")
	}
	return kerrors.New(kerrors.EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
}

// Tick does what time demands, one thing a call: fence the broker whose session
// ended first; retry unclean elections; elect preferred leaders. Call it at
// NextTickMs and again while it returns records.
func (c *Core) Tick(nowMs int64) Result[struct{}] {
	if records, due := c.fenceExpired(nowMs); due {
		return Result[struct{}]{Records: records}
	}
	// A pass is over when it finds nothing more to do: what it did shows in the
	// state only once its records are replayed.
	if nowMs >= c.nextUncleanMs {
		if records := c.retryUncleanElections(); len(records) > 0 {
			return Result[struct{}]{Records: records}
		}
		c.nextUncleanMs = nowMs + c.opts.UncleanElectionIntervalMs
	}
	if c.opts.LeaderImbalanceCheckIntervalMs > 0 && nowMs >= c.nextBalanceMs {
		if records := c.balanceLeaders(); len(records) > 0 {
			return Result[struct{}]{Records: records}
		}
		c.nextBalanceMs = nowMs + c.opts.LeaderImbalanceCheckIntervalMs
	}
	return Result[struct{}]{}
}

// NextTickMs is when Tick has something to do next.
func (c *Core) NextTickMs() int64 {
	next := c.nextUncleanMs
	if c.opts.LeaderImbalanceCheckIntervalMs > 0 {
		next = min(next, c.nextBalanceMs)
	}
	if _, at, ok := c.oldestSession(); ok {
		next = min(next, c.expiresMs(at)+1)
	}
	return next
}

// retryUncleanElections gives leaderless partitions a leader where
// unclean.leader.election.enable allows it.
func (c *Core) retryUncleanElections() []recordschema.MetadataRecord {
	p := c.newPlan()
	c.eachPartition(c.index.leaderless(), p, func(t *image.Topic, k partKey) {
		if c.uncleanElectionEnabled(t.Name) {
			_ = c.electLeader(p, t.Name, k.id, electionTypeUnclean)
		}
	})
	return p.records
}

// balanceLeaders moves leaderships back to preferred replicas that can lead.
func (c *Core) balanceLeaders() []recordschema.MetadataRecord {
	p := c.newPlan()
	c.eachPartition(c.index.imbalanced, p, func(t *image.Topic, k partKey) {
		_ = c.electLeader(p, t.Name, k.id, electionTypePreferred)
	})
	return p.records
}

// eachPartition visits a set until the plan is full.
func (c *Core) eachPartition(set *keySet, p *plan, visit func(*image.Topic, partKey)) {
	for k := range keys(set) {
		if len(p.records) >= maxElectionsPerTick {
			return
		}
		if t, ok := c.now().Topics.ByID(k.topic); ok {
			visit(t, k)
		}
	}
}
