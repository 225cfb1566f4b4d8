package group

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Versions that Apache Kafka 4.3 writes (GroupCoordinatorRecordHelpers).
const (
	offsetKeyVersion           int16 = 1
	offsetValueVersion         int16 = 4
	offsetValueVersionRetained int16 = 1 // carries the expiry time of OffsetCommit v2-4
	groupKeyVersion            int16 = 2
	groupValueMaxVersion       int16 = 4
)

// expireByRetention marks an offset without an expiry time of its own.
const expireByRetention int64 = -1

func offsetKey(group string, tp types.TopicPartition) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: tp.Topic, Partition: tp.Partition}
	return k.AppendTo(nil)
}

func offsetRecord(group string, tp types.TopicPartition, o Offset) coordinator.Record {
	v := kmsg.OffsetCommitValue{
		Version: offsetValueVersion, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata,
		CommitTimestamp: o.CommitTimeMs, ExpireTimestamp: o.ExpireTimeMs, TopicID: o.TopicID,
	}
	if o.ExpireTimeMs != expireByRetention {
		v.Version = offsetValueVersionRetained
	}
	return coordinator.Record{Key: offsetKey(group, tp), Value: v.AppendTo(nil)}
}

func offsetTombstone(group string, tp types.TopicPartition) coordinator.Record {
	return coordinator.Record{Key: offsetKey(group, tp)}
}

func groupTombstone(group string) coordinator.Record {
	return coordinator.Record{Key: classic.Key(group)}
}

// Replay applies one record of the partition, in log order. producerID is -1
// unless the record is part of a transaction. Record types that this stage does
// not know are skipped, as KIP-915 asks, so that a newer version's log loads.
func (s *Shard) Replay(offset, producerID int64, key, value []byte) error {
	s.next = offset + 1
	if len(key) < 2 {
		return fmt.Errorf("record at offset %d has a key of %d bytes", offset, len(key))
	}
	switch version := int16(binary.BigEndian.Uint16(key)); version {
	case 0, offsetKeyVersion:
		return s.replayOffset(offset, producerID, key, value)
	case groupKeyVersion:
		return s.replayGroup(offset, key, value)
	case recordschema.ConsumerGroupMetadataType, recordschema.ConsumerGroupPartitionMetadataType, recordschema.ConsumerGroupMemberMetadataType,
		recordschema.ConsumerGroupTargetMetadataType, recordschema.ConsumerGroupTargetMemberType, recordschema.ConsumerGroupCurrentMemberType,
		recordschema.ConsumerGroupRegularExpressionType:
		return s.replayConsumer(offset, key, value)
	}
	return nil
}

func (s *Shard) replayConsumer(offset int64, key, value []byte) error {
	k, err := recordschema.ParseConsumerGroupKey(key)
	if err != nil {
		return fmt.Errorf("consumer group key at offset %d: %w", offset, err)
	}
	g, ok := s.groups.Get(k.Group, latest)
	if value == nil && (!ok || g.consumer == nil) {
		return nil // a tombstone whose record compaction already took
	}
	g = s.ensure(offset, k.Group)
	if g.consumer == nil {
		g.consumer = consumer.New(k.Group, &s.env, s.reg)
	}
	if err := g.consumer.Replay(offset, k, value); err != nil {
		return err
	}
	if value == nil {
		s.forgetIfBare(offset, k.Group, g)
	}
	return nil
}

func (s *Shard) replayOffset(offset, producerID int64, key, value []byte) error {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("offset commit key at offset %d: %w", offset, err)
	}
	tp := types.TopicPartition{Topic: k.Topic, Partition: k.Partition}
	if value == nil {
		s.removeOffset(offset, k.Group, tp)
		return nil
	}
	o, err := parseOffset(offset, value)
	if err != nil {
		return err
	}
	g := s.ensure(offset, k.Group)
	if producerID < 0 {
		g.offsets.Set(offset, tp, o)
		return nil
	}
	s.addPending(offset, producerID, g, pendingOffset{group: k.Group, tp: tp, value: o})
	return nil
}

func parseOffset(offset int64, value []byte) (Offset, error) {
	v := kmsg.OffsetCommitValue{LeaderEpoch: -1, ExpireTimestamp: expireByRetention}
	if err := v.ReadFrom(value); err != nil {
		return Offset{}, fmt.Errorf("offset commit value at offset %d: %w", offset, err)
	}
	if v.Version < 0 || v.Version > offsetValueVersion {
		return Offset{}, fmt.Errorf("offset commit value at offset %d has unknown version %d", offset, v.Version)
	}
	if v.Version < 3 {
		v.LeaderEpoch = -1
	}
	if v.Version != offsetValueVersionRetained {
		v.ExpireTimestamp = expireByRetention
	}
	return Offset{
		Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, CommitTimeMs: v.CommitTimestamp,
		ExpireTimeMs: v.ExpireTimestamp, TopicID: v.TopicID, RecordOffset: offset,
	}, nil
}

func (s *Shard) removeOffset(offset int64, group string, tp types.TopicPartition) {
	g, ok := s.groups.Get(group, latest)
	if !ok {
		return // a tombstone whose record compaction already took
	}
	g.offsets.Delete(offset, tp)
	s.dropPending(offset, g, group, tp)
}

// ensure returns a group, which it makes known if it is not.
func (s *Shard) ensure(offset int64, id string) *groupState {
	g, ok := s.groups.Get(id, latest)
	if !ok {
		g = s.newGroup()
		s.groups.Set(offset, id, g)
	}
	return g
}

// forgetIfBare drops a group whose last trace is gone.
func (s *Shard) forgetIfBare(offset int64, id string, g *groupState) {
	if g.bare() {
		s.groups.Delete(offset, id)
	}
}

func (s *Shard) replayGroup(offset int64, key, value []byte) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("group metadata key at offset %d: %w", offset, err)
	}
	if value == nil {
		// Offsets have tombstones of their own: a group that moves to another
		// protocol keeps them.
		if g, ok := s.groups.Get(k.Group, latest); ok {
			g.classic.Delete(offset, struct{}{})
			s.forgetIfBare(offset, k.Group, g)
		}
		return nil
	}
	v := &kmsg.GroupMetadataValue{}
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("group metadata value at offset %d: %w", offset, err)
	}
	if v.Version < 0 || v.Version > groupValueMaxVersion {
		return fmt.Errorf("group metadata value at offset %d has unknown version %d", offset, v.Version)
	}
	own(v)
	s.ensure(offset, k.Group).classic.Set(offset, struct{}{}, v)
	return nil
}

// own takes the byte fields of v out of the buffer that it was read from.
func own(v *kmsg.GroupMetadataValue) {
	for i := range v.Members {
		m := &v.Members[i]
		m.Subscription, m.Assignment = bytes.Clone(m.Subscription), bytes.Clone(m.Assignment)
		if v.Version < 1 {
			m.RebalanceTimeoutMillis = -1
		}
	}
	if v.Version < 2 {
		v.CurrentStateTimestamp = -1
	}
}
