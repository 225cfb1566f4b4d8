package image

import (
	"iter"
	"slices"

	"github.com/tidemark-io/tidemark/internal/types"
)

// Topic is one topic. Partitions[i] is partition i.
type Topic struct {
	ID         types.UUID
	Name       string
	Partitions []*Partition
}

// Partition is the state of one partition that the controller decides
// (PartitionRegistration). Slices are never nil-versus-empty significant.
type Partition struct {
	Replicas         []int32      // in preferred order; Replicas[0] is the preferred leader
	Directories      []types.UUID // Directories[i] holds Replicas[i] (KIP-858)
	ISR              []int32      // in-sync replicas
	ELR              []int32      // eligible leader replicas (KIP-966)
	LastKnownELR     []int32      // at most the last leader (KIP-966)
	AddingReplicas   []int32      // being added by a reassignment
	RemovingReplicas []int32      // being removed by a reassignment

	Leader              int32 // -1: none
	LeaderEpoch         int32 // +1 on every leader write
	PartitionEpoch      int32 // +1 on every change
	LeaderRecoveryState int8  // 0 recovered, 1 recovering from an unclean election (KIP-704)

	GrownTimeMs int64 // when CreatePartitions added it; 0: the topic began with it
}

// HasReplica reports whether id is assigned.
func (p *Partition) HasReplica(id int32) bool { return slices.Contains(p.Replicas, id) }

// InISR reports whether id is in sync.
func (p *Partition) InISR(id int32) bool { return slices.Contains(p.ISR, id) }

// Reassigning reports whether a reassignment is going on.
func (p *Partition) Reassigning() bool {
	return len(p.AddingReplicas) > 0 || len(p.RemovingReplicas) > 0
}

// PreferredReplica is the first assigned replica, -1 when there is none.
func (p *Partition) PreferredReplica() int32 {
	if len(p.Replicas) == 0 {
		return -1
	}
	return p.Replicas[0]
}

// Directory returns the directory of a replica; false when it is not assigned.
func (p *Partition) Directory(replica int32) (types.UUID, bool) {
	i := slices.Index(p.Replicas, replica)
	if i < 0 || i >= len(p.Directories) {
		return types.UUID{}, false
	}
	return p.Directories[i], true
}

// Topics are all topics of the cluster.
type Topics struct {
	byName     tree[string, *Topic]
	byID       tree[string, *Topic]
	partitions int
}

// ByName finds a topic.
func (t Topics) ByName(name string) (*Topic, bool) { return t.byName.get(name) }

// ByID finds a topic.
func (t Topics) ByID(id types.UUID) (*Topic, bool) { return t.byID.get(uuidKey(id)) }

// All yields the topics sorted by name.
func (t Topics) All() iter.Seq[*Topic] { return t.byName.values() }

// From yields the topics whose name is first or sorts after it.
func (t Topics) From(first string) iter.Seq[*Topic] { return t.byName.from(first) }

// AllByID yields the topics in id order.
func (t Topics) AllByID() iter.Seq[*Topic] { return t.byID.values() }

// Len counts the topics.
func (t Topics) Len() int { return t.byName.len() }

// PartitionCount counts the partitions of all topics.
func (t Topics) PartitionCount() int { return t.partitions }

// Partition finds one partition by topic id.
func (t Topics) Partition(id types.UUID, partition int32) (*Partition, bool) {
	topic, ok := t.ByID(id)
	if !ok || partition < 0 || int(partition) >= len(topic.Partitions) {
		return nil, false
	}
	return topic.Partitions[partition], true
}

func (t *Topics) put(topic *Topic) {
	if old, ok := t.ByID(topic.ID); ok {
		t.partitions -= len(old.Partitions)
	}
	t.partitions += len(topic.Partitions)
	t.byName.set(topic.Name, topic)
	t.byID.set(uuidKey(topic.ID), topic)
}

// remove drops a topic; a newer topic of the same name stays.
func (t *Topics) remove(topic *Topic) {
	t.partitions -= len(topic.Partitions)
	t.byID.del(uuidKey(topic.ID))
	if named, ok := t.byName.get(topic.Name); ok && named.ID == topic.ID {
		t.byName.del(topic.Name)
	}
}
