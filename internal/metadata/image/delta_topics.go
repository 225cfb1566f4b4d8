package image

import (
	"iter"
	"slices"

	"github.com/tidemark-io/tidemark/internal/types"
)

// TopicChange is one created or changed topic.
type TopicChange struct {
	// Before is nil for a created topic.
	Before *Topic
	After  *Topic

	touched map[int32]struct{}
}

// PartitionChange is one created or changed partition; Before is nil for a new
// one.
type PartitionChange struct {
	ID            int32
	Before, After *Partition
}

// Created reports whether the topic is new in this delta.
func (c TopicChange) Created() bool { return c.Before == nil }

// Partitions yields the partitions that changed, ascending.
func (c TopicChange) Partitions() iter.Seq[PartitionChange] {
	return func(yield func(PartitionChange) bool) {
		for id := range sortedInts(c.touched) {
			if int(id) >= len(c.After.Partitions) {
				continue
			}
			pc := PartitionChange{ID: id, After: c.After.Partitions[id]}
			if c.Before != nil && int(id) < len(c.Before.Partitions) {
				pc.Before = c.Before.Partitions[id]
			}
			if !yield(pc) {
				return
			}
		}
	}
}

// ChangedTopics yields the topics that exist after the delta and were created
// or changed by it, by name. A topic that was deleted and created again under
// its name appears here under its new id and in DeletedTopics under its old one.
func (d *Delta) ChangedTopics() iter.Seq[TopicChange] {
	after := d.Image()
	var list []TopicChange
	for id, touched := range d.topics {
		t, ok := after.Topics.ByID(id)
		if !ok {
			continue
		}
		before, _ := d.base.Topics.ByID(id)
		list = append(list, TopicChange{Before: before, After: t, touched: touched})
	}
	slices.SortFunc(list, func(a, b TopicChange) int {
		if a.After.Name < b.After.Name {
			return -1
		}
		return 1
	})
	return slices.Values(list)
}

// DeletedTopics yields the topics of the base image that are gone, as they were
// there, by name. A topic created and deleted within the delta leaves no trace.
func (d *Delta) DeletedTopics() iter.Seq[*Topic] {
	after := d.Image()
	var list []*Topic
	for id := range d.topics {
		before, ok := d.base.Topics.ByID(id)
		if !ok {
			continue
		}
		if _, alive := after.Topics.ByID(id); !alive {
			list = append(list, before)
		}
	}
	slices.SortFunc(list, func(a, b *Topic) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return slices.Values(list)
}

// LocalPartition is one partition that concerns a broker.
type LocalPartition struct {
	TP            types.TopicIDPartition
	Before, After *Partition // Before nil: new; After nil: gone from this broker
}

// LocalChanges says what a delta asks of one broker (LocalReplicaChanges).
type LocalChanges struct {
	// Deletes are partitions that the broker hosted and no longer does. Topic
	// deletions and reassignments look the same here; After is nil only for a
	// deleted topic.
	Deletes []LocalPartition
	// Leaders are partitions the broker leads whose partition epoch changed.
	Leaders []LocalPartition
	// Followers are partitions the broker follows whose partition epoch changed.
	Followers []LocalPartition
}

// LocalChanges sorts the changed partitions by what broker has to do. Deletions
// come first in time: a topic deleted and created again is in both lists under
// different ids.
func (d *Delta) LocalChanges(broker int32) LocalChanges {
	var out LocalChanges
	for t := range d.DeletedTopics() {
		for i, p := range t.Partitions {
			if p.HasReplica(broker) {
				out.Deletes = append(out.Deletes, LocalPartition{TP: idPartition(t, int32(i)), Before: p})
			}
		}
	}
	for c := range d.ChangedTopics() {
		for pc := range c.Partitions() {
			lp := LocalPartition{TP: idPartition(c.After, pc.ID), Before: pc.Before, After: pc.After}
			switch {
			case !pc.After.HasReplica(broker):
				if pc.Before != nil && pc.Before.HasReplica(broker) {
					out.Deletes = append(out.Deletes, lp)
				}
			case pc.Before != nil && pc.Before.PartitionEpoch == pc.After.PartitionEpoch:
			case pc.After.Leader == broker:
				out.Leaders = append(out.Leaders, lp)
			default:
				out.Followers = append(out.Followers, lp)
			}
		}
	}
	return out
}

func idPartition(t *Topic, id int32) types.TopicIDPartition {
	return types.TopicIDPartition{TopicID: t.ID, Topic: t.Name, Partition: id}
}
