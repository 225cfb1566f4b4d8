package recordschema

import "github.com/tidemark-io/tidemark/internal/types"

// Values of PartitionChangeRecord that say "not changed" or "none".
const (
	// LeaderUnchanged keeps the leader.
	LeaderUnchanged int32 = -2
	// NoLeader says that the partition has no leader now.
	NoLeader int32 = -1
	// RecoveryStateUnchanged keeps the leader recovery state.
	RecoveryStateUnchanged int8 = -1
	// Recovered and Recovering are the leader recovery states (KIP-704).
	Recovered  int8 = 0
	Recovering int8 = 1
)

// TopicRecord names a topic.
type TopicRecord struct {
	Name        string
	TopicID     types.UUID
	UnknownTags []RawTag
}

// PartitionRecord is the full state of one partition (v1 directories KIP-858,
// v2 eligible leader replicas KIP-966). Directories is index-aligned with
// Replicas. EligibleLeaderReplicas and LastKnownElr are nil when absent.
// GrownTimeMs is ours, and skipped by Kafka as a tag that it does not know: when
// CreatePartitions added the partition; 0 for those that the topic began with.
type PartitionRecord struct {
	PartitionID            int32
	TopicID                types.UUID
	Replicas               []int32
	ISR                    []int32
	RemovingReplicas       []int32
	AddingReplicas         []int32
	Leader                 int32
	LeaderRecoveryState    int8
	LeaderEpoch            int32
	PartitionEpoch         int32
	Directories            []types.UUID
	EligibleLeaderReplicas []int32
	LastKnownElr           []int32
	GrownTimeMs            int64
	UnknownTags            []RawTag
}

// grownTimeTag is far above the tags that Kafka gives out.
const grownTimeTag = 10_000

// PartitionChangeRecord changes some fields of a partition. Make one with
// NewPartitionChange: nil slices, LeaderUnchanged and RecoveryStateUnchanged
// mean "keep"; an empty non-nil slice means "now empty".
type PartitionChangeRecord struct {
	PartitionID            int32
	TopicID                types.UUID
	ISR                    []int32
	Leader                 int32
	Replicas               []int32
	RemovingReplicas       []int32
	AddingReplicas         []int32
	LeaderRecoveryState    int8
	EligibleLeaderReplicas []int32
	LastKnownElr           []int32
	Directories            []types.UUID
	UnknownTags            []RawTag
}

// NewPartitionChange returns a change that changes nothing yet.
func NewPartitionChange() *PartitionChangeRecord {
	return &PartitionChangeRecord{Leader: LeaderUnchanged, LeaderRecoveryState: RecoveryStateUnchanged}
}

// RemoveTopicRecord deletes a topic and its partitions.
type RemoveTopicRecord struct {
	TopicID     types.UUID
	UnknownTags []RawTag
}

// ClearElrRecord clears the ELR of one topic, or of all when TopicName is empty
// (KIP-966).
type ClearElrRecord struct {
	TopicName   string
	UnknownTags []RawTag
}

func (r *TopicRecord) walk(c *codec, _ int16) {
	c.string(&r.Name)
	c.uuid(&r.TopicID)
	c.tags(&r.UnknownTags)
}

func (r *PartitionRecord) walk(c *codec, version int16) {
	c.int32(&r.PartitionID)
	c.uuid(&r.TopicID)
	c.int32s(&r.Replicas, false)
	c.int32s(&r.ISR, false)
	c.int32s(&r.RemovingReplicas, false)
	c.int32s(&r.AddingReplicas, false)
	c.int32(&r.Leader)
	c.int32(&r.LeaderEpoch)
	c.int32(&r.PartitionEpoch)
	if version >= 1 {
		c.uuids(&r.Directories, false)
	}
	known := []tag{{0, r.LeaderRecoveryState != Recovered, func() { c.int8(&r.LeaderRecoveryState) }}}
	if version >= 2 {
		known = append(known,
			tag{1, r.EligibleLeaderReplicas != nil, func() { c.int32s(&r.EligibleLeaderReplicas, true) }},
			tag{2, r.LastKnownElr != nil, func() { c.int32s(&r.LastKnownElr, true) }})
	}
	known = append(known, tag{grownTimeTag, r.GrownTimeMs != 0, func() { c.int64(&r.GrownTimeMs) }})
	c.tags(&r.UnknownTags, known...)
}

func (r *PartitionChangeRecord) walk(c *codec, version int16) {
	c.int32(&r.PartitionID)
	c.uuid(&r.TopicID)
	known := []tag{
		{0, r.ISR != nil, func() { c.int32s(&r.ISR, true) }},
		{1, r.Leader != LeaderUnchanged, func() { c.int32(&r.Leader) }},
		{2, r.Replicas != nil, func() { c.int32s(&r.Replicas, true) }},
		{3, r.RemovingReplicas != nil, func() { c.int32s(&r.RemovingReplicas, true) }},
		{4, r.AddingReplicas != nil, func() { c.int32s(&r.AddingReplicas, true) }},
		{5, r.LeaderRecoveryState != RecoveryStateUnchanged, func() { c.int8(&r.LeaderRecoveryState) }},
	}
	if version >= 2 {
		known = append(known,
			tag{6, r.EligibleLeaderReplicas != nil, func() { c.int32s(&r.EligibleLeaderReplicas, true) }},
			tag{7, r.LastKnownElr != nil, func() { c.int32s(&r.LastKnownElr, true) }})
	}
	if version >= 1 {
		known = append(known, tag{8, r.Directories != nil, func() { c.uuids(&r.Directories, true) }})
	}
	c.tags(&r.UnknownTags, known...)
}

func (r *RemoveTopicRecord) walk(c *codec, _ int16) {
	c.uuid(&r.TopicID)
	c.tags(&r.UnknownTags)
}

func (r *ClearElrRecord) walk(c *codec, _ int16) {
	c.string(&r.TopicName)
	c.tags(&r.UnknownTags)
}
