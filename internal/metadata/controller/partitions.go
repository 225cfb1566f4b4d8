package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/metadata/placement"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// CreatePartitionsInput is a CreatePartitions request.
type CreatePartitionsInput struct {
	Req *kmsg.CreatePartitionsRequest
	// Random seeds replica placement.
	Random uint64
	// NowMs is kept with the new partitions.
	NowMs int64
}

// CreatePartitions adds partitions to topics (KIP-195;
// ReplicationControlManager.createPartitions). Count is the total wanted.
func (c *Core) CreatePartitions(in CreatePartitionsInput) Result[*kmsg.CreatePartitionsResponse] {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	resp.Version = in.Req.Version
	result := Result[*kmsg.CreatePartitionsResponse]{Response: resp, Atomic: true}
	seen := map[string]int{}
	for _, t := range in.Req.Topics {
		seen[t.Topic]++
	}
	answer := func(topic string, err *kerrors.Error) {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = topic, errCode(err), messagePtr(err)
		resp.Topics = append(resp.Topics, t)
	}
	for i := range in.Req.Topics {
		t := &in.Req.Topics[i]
		switch {
		case seen[t.Topic] < 0:
		case seen[t.Topic] > 1:
			answer(t.Topic, kerrors.New(kerrors.InvalidRequest, "Duplicate topic name."))
			seen[t.Topic] = -1
		default:
			room := maxPartitionsPerRequest - len(result.Records)
			records, err := c.growTopic(t, in.Random+uint64(i), room, in.NowMs)
			result.Records = append(result.Records, records...)
			answer(t.Topic, err)
		}
	}
	if in.Req.ValidateOnly {
		result.Records = nil
	}
	return result
}

func (c *Core) growTopic(req *kmsg.CreatePartitionsRequestTopic, seed uint64, room int, nowMs int64) ([]recordschema.MetadataRecord, *kerrors.Error) {
	t, ok := c.now().Topics.ByName(req.Topic)
	if !ok {
		return nil, &kerrors.Error{Code: kerrors.UnknownTopicOrPartition}
	}
	have := int32(len(t.Partitions))
	switch {
	case req.Count == have:
		return nil, kerrors.New(kerrors.InvalidPartitions, "Topic already has %d partition(s).", have)
	case req.Count < have:
		return nil, kerrors.New(kerrors.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.",
			t.Name, have, req.Count)
	}
	add := int(req.Count - have)
	if req.Assignment != nil && len(req.Assignment) != add {
		return nil, kerrors.New(kerrors.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d "+
			"assignment(s) were specified.", add, len(req.Assignment))
	}
	if add > room {
		return nil, kerrors.New(kerrors.PolicyViolation, errExcessivelyLargeBatch)
	}
	if have == 0 {
		return nil, kerrors.New(kerrors.UnknownServerError, "Invalid state: topic %s appears to have no partitions.", t.Name)
	}
	parts, err := c.newPartitions(t, req, add, seed)
	if err != nil {
		return nil, err
	}
	records := make([]recordschema.MetadataRecord, 0, len(parts))
	for i, part := range parts {
		part.GrownTimeMs = nowMs
		records = append(records, part.Record(t.ID, have+int32(i)))
	}
	return records, nil
}

// newPartitions places add partitions with the replication factor of partition 0.
func (c *Core) newPartitions(t *image.Topic, req *kmsg.CreatePartitionsRequestTopic, add int, seed uint64) ([]*image.Partition, *kerrors.Error) {
	rf := int16(len(t.Partitions[0].Replicas))
	var parts []*image.Partition
	if req.Assignment != nil {
		for i, a := range req.Assignment {
			if err := c.checkAssignment(a.Replicas, int(rf)); err != nil {
				return nil, err
			}
			part := c.newPartition(a.Replicas)
			if part == nil {
				return nil, errAllReplicasInactive(int32(len(t.Partitions) + i))
			}
			parts = append(parts, part)
		}
		return parts, nil
	}
	assignments, err := placement.Place(placement.Spec{Partitions: add, ReplicationFactor: rf}, c.usableBrokers(), seed)
	if err != nil {
		return nil, kerrors.New(kerrors.InvalidReplicationFactor, "%s", kerrors.MessageOf(err))
	}
	for _, replicas := range assignments {
		part := c.newPartition(replicas)
		if part == nil {
			return nil, errNoActiveReplica(rf)
		}
		parts = append(parts, part)
	}
	return parts, nil
}
