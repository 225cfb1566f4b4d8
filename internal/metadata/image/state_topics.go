package image

import (
	"fmt"
	"slices"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

func (s *State) replayTopic(r *recordschema.TopicRecord) error {
	if _, ok := s.cur.Topics.ByID(r.TopicID); ok {
		return fmt.Errorf("%w: topic id %s exists already", ErrReplay, r.TopicID)
	}
	if t, ok := s.cur.Topics.ByName(r.Name); ok {
		return fmt.Errorf("%w: topic %q exists already with id %s", ErrReplay, r.Name, t.ID)
	}
	t := &Topic{ID: r.TopicID, Name: r.Name}
	s.owned[t.ID] = t
	s.cur.Topics.put(t)
	return nil
}

// ownedTopic returns a topic whose Partitions may be written in place.
func (s *State) ownedTopic(id types.UUID) (*Topic, error) {
	if t, ok := s.owned[id]; ok {
		return t, nil
	}
	t, ok := s.cur.Topics.ByID(id)
	if !ok {
		return nil, fmt.Errorf("%w: no topic with id %s", ErrReplay, id)
	}
	next := &Topic{ID: t.ID, Name: t.Name, Partitions: slices.Clone(t.Partitions)}
	s.owned[id] = next
	s.cur.Topics.put(next)
	return next, nil
}

func (s *State) replayPartition(r *recordschema.PartitionRecord) error {
	if len(r.Directories) > 0 && len(r.Directories) != len(r.Replicas) {
		return fmt.Errorf("%w: partition %s-%d has %d directories for %d replicas",
			ErrReplay, r.TopicID, r.PartitionID, len(r.Directories), len(r.Replicas))
	}
	t, err := s.ownedTopic(r.TopicID)
	if err != nil {
		return err
	}
	id := int(r.PartitionID)
	if id < 0 || id > len(t.Partitions) {
		return fmt.Errorf("%w: topic %q has %d partitions, next is not %d", ErrReplay, t.Name, len(t.Partitions), id)
	}
	p := partitionFromRecord(r)
	if id < len(t.Partitions) {
		t.Partitions[id] = p
		return nil
	}
	t.Partitions = append(t.Partitions, p)
	s.cur.Topics.partitions++
	return nil
}

func partitionFromRecord(r *recordschema.PartitionRecord) *Partition {
	return &Partition{
		Replicas: r.Replicas, Directories: alignDirectories(r.Directories, len(r.Replicas)),
		ISR: r.ISR, ELR: r.EligibleLeaderReplicas, LastKnownELR: r.LastKnownElr,
		AddingReplicas: r.AddingReplicas, RemovingReplicas: r.RemovingReplicas,
		Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch,
		LeaderRecoveryState: r.LeaderRecoveryState, GrownTimeMs: r.GrownTimeMs,
	}
}

// alignDirectories gives every replica a directory: a record from before
// KIP-858 has none, which reads as MIGRATING (the zero id).
func alignDirectories(dirs []types.UUID, replicas int) []types.UUID {
	if len(dirs) == replicas {
		return dirs
	}
	return make([]types.UUID, replicas)
}

func (s *State) replayPartitionChange(r *recordschema.PartitionChangeRecord) error {
	old, ok := s.cur.Topics.Partition(r.TopicID, r.PartitionID)
	if !ok {
		return fmt.Errorf("%w: no partition %s-%d to change", ErrReplay, r.TopicID, r.PartitionID)
	}
	next, err := old.Merge(r)
	if err != nil {
		return err
	}
	t, err := s.ownedTopic(r.TopicID)
	if err != nil {
		return err
	}
	t.Partitions[r.PartitionID] = next
	return nil
}

// Merge returns the partition after a change. The partition epoch grows by one;
// the leader epoch grows by one whenever the record names a leader, the same one
// too (PartitionRegistration.merge).
func (p *Partition) Merge(r *recordschema.PartitionChangeRecord) (*Partition, error) {
	next := *p
	if r.Replicas != nil {
		next.Replicas = r.Replicas
	}
	if r.Directories != nil {
		next.Directories = r.Directories
	}
	if len(next.Directories) != len(next.Replicas) {
		if len(r.Directories) > 0 {
			return nil, fmt.Errorf("%w: partition %s-%d would have %d directories for %d replicas",
				ErrReplay, r.TopicID, r.PartitionID, len(next.Directories), len(next.Replicas))
		}
		next.Directories = make([]types.UUID, len(next.Replicas))
	}
	if r.ISR != nil {
		next.ISR = r.ISR
	}
	if r.RemovingReplicas != nil {
		next.RemovingReplicas = r.RemovingReplicas
	}
	if r.AddingReplicas != nil {
		next.AddingReplicas = r.AddingReplicas
	}
	if r.EligibleLeaderReplicas != nil {
		next.ELR = r.EligibleLeaderReplicas
	}
	if r.LastKnownElr != nil {
		next.LastKnownELR = r.LastKnownElr
	}
	if r.LeaderRecoveryState != recordschema.RecoveryStateUnchanged {
		next.LeaderRecoveryState = r.LeaderRecoveryState
	}
	if r.Leader != recordschema.LeaderUnchanged {
		next.Leader = r.Leader
		next.LeaderEpoch++
	}
	next.PartitionEpoch++
	return &next, nil
}

func (s *State) replayRemoveTopic(r *recordschema.RemoveTopicRecord) error {
	t, ok := s.cur.Topics.ByID(r.TopicID)
	if !ok {
		return fmt.Errorf("%w: no topic with id %s to remove", ErrReplay, r.TopicID)
	}
	delete(s.owned, r.TopicID)
	s.cur.Topics.remove(t)
	s.cur.Configs.byResource.del(Resource{ResourceTopic, t.Name}.key())
	return nil
}

// replayClearElr empties the ELR of one topic or of all (KIP-966). Partitions
// that have none are left alone: their epoch does not grow.
func (s *State) replayClearElr(r *recordschema.ClearElrRecord) error {
	if r.TopicName != "" {
		t, ok := s.cur.Topics.ByName(r.TopicName)
		if !ok {
			return fmt.Errorf("%w: no topic %q whose ELR to clear", ErrReplay, r.TopicName)
		}
		return s.clearElr(t)
	}
	var all []*Topic
	for t := range s.cur.Topics.All() {
		all = append(all, t)
	}
	for _, t := range all {
		if err := s.clearElr(t); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) clearElr(t *Topic) error {
	for i, p := range t.Partitions {
		if len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
			continue
		}
		owned, err := s.ownedTopic(t.ID)
		if err != nil {
			return err
		}
		next := *p
		next.ELR, next.LastKnownELR = nil, nil
		next.PartitionEpoch++
		owned.Partitions[i] = &next
	}
	return nil
}
