package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// AlterPartition is a leader's wish to change the ISR of partitions it leads
// (KIP-497, KIP-704, KIP-841, KIP-903; ReplicationControlManager.alterPartition).
func (c *Core) AlterPartition(req *kmsg.AlterPartitionRequest) Result[*kmsg.AlterPartitionResponse] {
	resp := kmsg.NewPtrAlterPartitionResponse()
	resp.Version = req.Version
	if err := c.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch); err != nil {
		resp.ErrorCode = errCode(err)
		return Result[*kmsg.AlterPartitionResponse]{Response: resp, Refused: err.Message}
	}
	p := c.newPlan()
	for i := range req.Topics {
		rt := &req.Topics[i]
		out := kmsg.NewAlterPartitionResponseTopic()
		out.TopidID = rt.TopicID // the library's spelling
		topic, ok := c.now().Topics.ByID(rt.TopicID)
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			if !ok {
				out.Partitions = append(out.Partitions, alterError(rp.Partition, kerrors.UnknownTopicID))
				continue
			}
			out.Partitions = append(out.Partitions, c.alterPartition(p, req, topic, rp))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Result[*kmsg.AlterPartitionResponse]{Records: p.records, Response: resp}
}

func alterError(id int32, code kerrors.Code) kmsg.AlterPartitionResponseTopicPartition {
	out := kmsg.NewAlterPartitionResponseTopicPartition()
	out.Partition, out.ErrorCode = id, int16(code)
	return out
}

func (c *Core) alterPartition(
	p *plan, req *kmsg.AlterPartitionRequest, topic *image.Topic, rp *kmsg.AlterPartitionRequestTopicPartition,
) kmsg.AlterPartitionResponseTopicPartition {
	k := partKey{topic.ID, rp.Partition}
	part, ok := p.partition(k)
	if !ok {
		return alterError(rp.Partition, kerrors.UnknownTopicOrPartition)
	}
	isr := requestedISR(req.Version, rp)
	if code := c.checkAlterPartition(req.BrokerID, part, rp, isr); code != kerrors.None {
		return alterError(rp.Partition, code)
	}
	b := p.change(k, part, topic.Name)
	if c.uncleanElectionEnabled(topic.Name) {
		b.election = electUnclean
	}
	b.isr = isrIDs(isr)
	b.recovery = rp.LeaderRecoveryState
	next, rec := p.commit(b)
	if rec != nil && rec.Leader != req.BrokerID && rec.Leader != recordschema.LeaderUnchanged {
		// The change completed a reassignment that moved the leader. It is applied
		// and answered with an error at once, so that the old leader looks again.
		return alterError(rp.Partition, kerrors.NewLeaderElected)
	}
	out := kmsg.NewAlterPartitionResponseTopicPartition()
	out.Partition = rp.Partition
	out.LeaderID, out.LeaderEpoch, out.PartitionEpoch = next.Leader, next.LeaderEpoch, next.PartitionEpoch
	out.ISR = slices.Clone(next.ISR)
	out.LeaderRecoveryState = next.LeaderRecoveryState
	return out
}

// isrMember is one broker of a requested ISR; epoch -1 skips the epoch check.
type isrMember struct {
	id    int32
	epoch int64
}

func requestedISR(version int16, rp *kmsg.AlterPartitionRequestTopicPartition) []isrMember {
	var out []isrMember
	if version < 3 {
		for _, id := range rp.NewISR {
			out = append(out, isrMember{id, -1})
		}
		return out
	}
	for _, m := range rp.NewEpochISR {
		out = append(out, isrMember{m.BrokerID, m.BrokerEpoch})
	}
	return out
}

func isrIDs(isr []isrMember) []int32 {
	out := make([]int32, 0, len(isr))
	for _, m := range isr {
		out = append(out, m.id)
	}
	return out
}

// checkAlterPartition checks in Kafka's order: each step assumes those before.
func (c *Core) checkAlterPartition(leader int32, part *image.Partition, rp *kmsg.AlterPartitionRequestTopicPartition, isr []isrMember) kerrors.Code {
	ids := isrIDs(isr)
	switch {
	case rp.LeaderEpoch > part.LeaderEpoch, rp.PartitionEpoch > part.PartitionEpoch:
		// The broker has seen newer metadata: this controller is the old one.
		return kerrors.NotController
	case rp.LeaderEpoch < part.LeaderEpoch:
		return kerrors.FencedLeaderEpoch
	case leader != part.Leader:
		return kerrors.InvalidRequest
	case rp.PartitionEpoch < part.PartitionEpoch:
		return kerrors.InvalidUpdateVersion
	case !validISR(part.Replicas, ids), !slices.Contains(ids, part.Leader):
		return kerrors.InvalidRequest
	case rp.LeaderRecoveryState != recordschema.Recovered && rp.LeaderRecoveryState != recordschema.Recovering:
		return kerrors.InvalidRequest
	case rp.LeaderRecoveryState == recordschema.Recovering && (len(ids) > 1 || part.LeaderRecoveryState == recordschema.Recovered):
		return kerrors.InvalidRequest
	}
	for _, m := range isr {
		b, ok := c.now().Cluster.Broker(m.id)
		if !ok || b.Fenced || b.InControlledShutdown || m.epoch != -1 && m.epoch != b.Epoch {
			return kerrors.IneligibleReplica
		}
	}
	return kerrors.None
}

// validISR: members are replicas, each once.
func validISR(replicas, isr []int32) bool {
	for i, id := range isr {
		if !slices.Contains(replicas, id) || slices.Contains(isr[:i], id) {
			return false
		}
	}
	return true
}

// AssignReplicasToDirs records in which directory a broker keeps each replica
// (KIP-858). A directory that is not online takes its replicas out of the ISR.
func (c *Core) AssignReplicasToDirs(req *kmsg.AssignReplicasToDirsRequest) Result[*kmsg.AssignReplicasToDirsResponse] {
	resp := kmsg.NewPtrAssignReplicasToDirsResponse()
	resp.Version = req.Version
	if err := c.checkBrokerEpoch(req.BrokerID, req.BrokerEpoch); err != nil {
		resp.ErrorCode = errCode(err)
		return Result[*kmsg.AssignReplicasToDirsResponse]{Response: resp, Refused: err.Message}
	}
	broker, _ := c.now().Cluster.Broker(req.BrokerID)
	p := c.newPlan()
	lost := newKeySet()
	for _, rd := range req.Directories {
		dir := kmsg.NewAssignReplicasToDirsResponseDirectory()
		dir.ID = rd.ID
		for _, rt := range rd.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = rt.TopicID
			for _, rp := range rt.Partitions {
				out := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				out.Partition = rp.Partition
				k := partKey{rt.TopicID, rp.Partition}
				code := c.assignDir(p, broker, k, rd.ID)
				out.ErrorCode = int16(code)
				if code == kerrors.None && !broker.HasOnlineDir(rd.ID) {
					lost.Set(k)
				}
				topic.Partitions = append(topic.Partitions, out)
			}
			dir.Topics = append(dir.Topics, topic)
		}
		resp.Directories = append(resp.Directories, dir)
	}
	p.updateLeaders(leaderUpdate{remove: req.BrokerID, add: recordschema.NoLeader, unclean: recordschema.NoLeader}, lost)
	return Result[*kmsg.AssignReplicasToDirsResponse]{Records: p.records, Response: resp}
}

func (c *Core) assignDir(p *plan, broker *image.Broker, k partKey, dir types.UUID) kerrors.Code {
	topic, ok := c.now().Topics.ByID(k.topic)
	if !ok {
		return kerrors.UnknownTopicID
	}
	part, ok := p.partition(k)
	if !ok {
		return kerrors.UnknownTopicOrPartition
	}
	if !part.HasReplica(broker.ID) {
		return kerrors.NotLeaderOrFollower
	}
	b := p.change(k, part, topic.Name)
	b.dirs = map[int32]types.UUID{broker.ID: dir}
	p.commit(b)
	return kerrors.None
}
