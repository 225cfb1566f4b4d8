package controller

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// ProducerIDBlockSize is how many producer ids a broker gets at once (KIP-730).
const ProducerIDBlockSize = 1000

// AllocateProducerIDs gives a broker the next block of producer ids (KIP-730).
func (c *Core) AllocateProducerIDs(req *kmsg.AllocateProducerIDsRequest) Result[*kmsg.AllocateProducerIDsResponse] {
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	resp.Version = req.Version
	result := Result[*kmsg.AllocateProducerIDsResponse]{Response: resp}
	if err := c.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch); err != nil {
		resp.ErrorCode = errCode(err)
		result.Refused = err.Message
		return result
	}
	first := max(c.now().ProducerIDs.Next, 0)
	if first > math.MaxInt64-ProducerIDBlockSize {
		resp.ErrorCode = int16(kerrors.UnknownServerError)
		result.Refused = "all producer ids are used up"
		return result
	}
	resp.ProducerIDStart, resp.ProducerIDLen = first, ProducerIDBlockSize
	result.Records = []recordschema.MetadataRecord{&recordschema.ProducerIdsRecord{
		BrokerID: req.BrokerID, BrokerEpoch: req.BrokerEpoch, NextProducerID: first + ProducerIDBlockSize,
	}}
	return result
}

// ListPartitionReassignments lists what is being reassigned (KIP-455); a nil
// topic list means all. It reads the speculative state.
func (c *Core) ListPartitionReassignments(req *kmsg.ListPartitionReassignmentsRequest) Result[*kmsg.ListPartitionReassignmentsResponse] {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	resp.Version = req.Version
	if req.Topics == nil {
		for k := range keys(c.index.reassigning) {
			if t, ok := c.now().Topics.ByID(k.topic); ok {
				addReassignment(resp, t, k.id)
			}
		}
	}
	for _, rt := range req.Topics {
		if t, ok := c.now().Topics.ByName(rt.Topic); ok {
			for _, id := range rt.Partitions {
				addReassignment(resp, t, id)
			}
		}
	}
	return Result[*kmsg.ListPartitionReassignmentsResponse]{Response: resp}
}

func addReassignment(resp *kmsg.ListPartitionReassignmentsResponse, t *image.Topic, id int32) {
	if id < 0 || int(id) >= len(t.Partitions) || !t.Partitions[id].Reassigning() {
		return
	}
	part := t.Partitions[id]
	out := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	out.Partition = id
	out.Replicas = slices.Clone(part.Replicas)
	out.AddingReplicas = slices.Clone(part.AddingReplicas)
	out.RemovingReplicas = slices.Clone(part.RemovingReplicas)
	if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != t.Name {
		topic := kmsg.NewListPartitionReassignmentsResponseTopic()
		topic.Topic = t.Name
		resp.Topics = append(resp.Topics, topic)
	}
	last := &resp.Topics[len(resp.Topics)-1]
	last.Partitions = append(last.Partitions, out)
}
