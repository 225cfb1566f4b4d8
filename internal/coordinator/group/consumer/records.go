package consumer

import (
	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// Records as Apache Kafka 4.3 writes them (GroupCoordinatorRecordHelpers).
// Topics and partitions come in ascending order, where Kafka has the order of a
// hash map.

func (g *Group) record(recordType int16, name string, v recordschema.ConsumerGroupValue) coordinator.Record {
	r := g.tombstone(recordType, name)
	r.Value = recordschema.AppendConsumerGroupValue(nil, v)
	return r
}

func (g *Group) tombstone(recordType int16, name string) coordinator.Record {
	return coordinator.Record{Key: recordschema.ConsumerGroupKey{Type: recordType, Group: g.id, Name: name}.Append(nil)}
}

func (g *Group) memberRecord(m *Member) coordinator.Record {
	return g.record(recordschema.ConsumerGroupMemberMetadataType, m.ID, &recordschema.ConsumerGroupMemberMetadataValue{
		InstanceID: m.InstanceID, RackID: m.RackID, ClientID: m.ClientID, ClientHost: m.ClientHost, SubscribedTopicNames: m.Topics,
		SubscribedTopicRegex: m.Regex, RebalanceTimeoutMs: m.RebalanceMs, ServerAssignor: m.Assignor, Classic: m.Classic,
	})
}

func (g *Group) epochRecord(m meta) coordinator.Record {
	return g.record(recordschema.ConsumerGroupMetadataType, "", &recordschema.ConsumerGroupMetadataValue{Epoch: m.epoch, MetadataHash: m.hash})
}

func (g *Group) targetRecord(member string, a assignor.Assignment) coordinator.Record {
	v := &recordschema.ConsumerGroupTargetMemberValue{TopicPartitions: make([]recordschema.ConsumerGroupTopicPartitions, len(a))}
	for i, t := range a {
		v.TopicPartitions[i] = recordschema.ConsumerGroupTopicPartitions{TopicID: t.TopicID, Partitions: t.Partitions}
	}
	return g.record(recordschema.ConsumerGroupTargetMemberType, member, v)
}

func (g *Group) targetMetaRecord(t targetMeta) coordinator.Record {
	return g.record(recordschema.ConsumerGroupTargetMetadataType, "",
		&recordschema.ConsumerGroupTargetMetadataValue{AssignmentEpoch: t.epoch, AssignmentTimestamp: t.timestampMs})
}

func (g *Group) currentRecord(m *Member) coordinator.Record {
	return g.record(recordschema.ConsumerGroupCurrentMemberType, m.ID, &recordschema.ConsumerGroupCurrentMemberValue{
		MemberEpoch: m.Epoch, PreviousMemberEpoch: m.PrevEpoch, State: int8(m.State),
		Assigned: recordOf(m.Assigned), PendingRevocation: recordOf(m.Revoking),
	})
}

func (g *Group) regexRecord(expression string, r resolved) coordinator.Record {
	return g.record(recordschema.ConsumerGroupRegularExpressionType, expression,
		&recordschema.ConsumerGroupRegularExpressionValue{Topics: r.topics, Version: r.version, Timestamp: r.timestampMs})
}

// removal are the tombstones of one member.
func (g *Group) removal(id string) []coordinator.Record {
	return []coordinator.Record{
		g.tombstone(recordschema.ConsumerGroupCurrentMemberType, id),
		g.tombstone(recordschema.ConsumerGroupTargetMemberType, id),
		g.tombstone(recordschema.ConsumerGroupMemberMetadataType, id),
	}
}

// Tombstones remove the whole group. replaced, when it is not empty, is the id
// that a member will have in the log when they apply, in place of its own.
func (g *Group) Tombstones(renamed map[string]string) []coordinator.Record {
	var ids []string
	for _, m := range g.sortedMembers(latest) {
		id := m.ID
		if other, ok := renamed[id]; ok {
			id = other
		}
		ids = append(ids, id)
	}
	var out []coordinator.Record
	for _, id := range ids {
		out = append(out, g.tombstone(recordschema.ConsumerGroupCurrentMemberType, id))
	}
	for _, id := range ids {
		out = append(out, g.tombstone(recordschema.ConsumerGroupTargetMemberType, id))
	}
	out = append(out, g.tombstone(recordschema.ConsumerGroupTargetMetadataType, ""))
	for _, id := range ids {
		out = append(out, g.tombstone(recordschema.ConsumerGroupMemberMetadataType, id))
	}
	for _, r := range g.sortedRegexes() {
		out = append(out, g.tombstone(recordschema.ConsumerGroupRegularExpressionType, r))
	}
	return append(out, g.tombstone(recordschema.ConsumerGroupPartitionMetadataType, ""), g.tombstone(recordschema.ConsumerGroupMetadataType, ""))
}
