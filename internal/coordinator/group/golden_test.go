package group

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator/group/metahash"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// kafkaLog is the records of a __consumer_offsets partition that Apache Kafka
// 4.3.1 wrote: console consumers of both protocols, one of them static, reading
// topic gt of 4 partitions.
func kafkaLog(t *testing.T) []record.Record {
	t.Helper()
	data, err := os.ReadFile("testdata/kafka-4.3.1/__consumer_offsets.log")
	if err != nil {
		t.Fatal(err)
	}
	var out []record.Record
	for b, err := range record.Batches(data) {
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			out = append(out, r)
		}
	}
	return out
}

// valueOf returns the message that a record's value is read into.
func valueOf(recordType int16) recordschema.ConsumerGroupValue {
	switch recordType {
	case recordschema.ConsumerGroupMetadataType:
		return &recordschema.ConsumerGroupMetadataValue{}
	case recordschema.ConsumerGroupMemberMetadataType:
		return &recordschema.ConsumerGroupMemberMetadataValue{}
	case recordschema.ConsumerGroupTargetMetadataType:
		return &recordschema.ConsumerGroupTargetMetadataValue{}
	case recordschema.ConsumerGroupTargetMemberType:
		return &recordschema.ConsumerGroupTargetMemberValue{}
	case recordschema.ConsumerGroupCurrentMemberType:
		return &recordschema.ConsumerGroupCurrentMemberValue{}
	}
	return nil
}

// reencode reads a record and writes it again.
func reencode(t *testing.T, r record.Record) (key, value []byte) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatalf("record at offset %d: %v", r.Offset, err)
		}
	}
	switch recordType := int16(binary.BigEndian.Uint16(r.Key)); recordType {
	case offsetKeyVersion:
		var k kmsg.OffsetCommitKey
		var v kmsg.OffsetCommitValue
		check(k.ReadFrom(r.Key))
		if r.Value != nil {
			check(v.ReadFrom(r.Value))
			value = v.AppendTo(nil)
		}
		return k.AppendTo(nil), value
	case groupKeyVersion:
		var k kmsg.GroupMetadataKey
		var v kmsg.GroupMetadataValue
		check(k.ReadFrom(r.Key))
		if r.Value != nil {
			check(v.ReadFrom(r.Value))
			value = v.AppendTo(nil)
		}
		return k.AppendTo(nil), value
	default:
		k, err := recordschema.ParseConsumerGroupKey(r.Key)
		check(err)
		if r.Value != nil {
			v := valueOf(recordType)
			if v == nil {
				t.Fatalf("record at offset %d has type %d", r.Offset, recordType)
			}
			check(recordschema.ParseConsumerGroupValue(r.Value, v))
			value = recordschema.AppendConsumerGroupValue(nil, v)
		}
		return k.Append(nil), value
	}
}

// TestG1_GoldenKafkaRecords: what Apache Kafka wrote is read, and written again
// byte for byte.
func TestG1_GoldenKafkaRecords(t *testing.T) {
	seen := map[int16]int{}
	for _, r := range kafkaLog(t) {
		key, value := reencode(t, r)
		if !bytes.Equal(key, r.Key) || !bytes.Equal(value, r.Value) {
			t.Errorf("record at offset %d:\n got %x %x\nwant %x %x", r.Offset, key, value, r.Key, r.Value)
		}
		seen[int16(binary.BigEndian.Uint16(r.Key))]++
	}
	for _, want := range []int16{1, 2, 3, 5, 6, 7, 8} {
		if seen[want] == 0 {
			t.Errorf("no record of type %d", want)
		}
	}
}

// TestG1_GoldenKafkaState: a shard that takes Kafka's log over knows the groups,
// and computes the metadata hash that Kafka computed.
func TestG1_GoldenKafkaState(t *testing.T) {
	s := NewShard(DefaultConfig())
	var hash int64
	var topic types.UUID
	for _, r := range kafkaLog(t) {
		if err := s.Replay(r.Offset, -1, r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
		switch binary.BigEndian.Uint16(r.Key) {
		case 3:
			v := &recordschema.ConsumerGroupMetadataValue{}
			if r.Value != nil && recordschema.ParseConsumerGroupValue(r.Value, v) == nil && v.MetadataHash != 0 {
				hash = v.MetadataHash
			}
		case 7:
			v := &recordschema.ConsumerGroupTargetMemberValue{}
			if r.Value != nil && recordschema.ParseConsumerGroupValue(r.Value, v) == nil && len(v.TopicPartitions) > 0 {
				topic = v.TopicPartitions[0].TopicID
			}
		}
	}
	want := metahash.Group([]int64{metahash.Topic(topic, "gt", 4, func(int32) []string { return nil })})
	if hash != want {
		t.Errorf("Kafka's metadata hash is %x, ours %x", hash, want)
	}
	if s.consumerGroup("cg", latest) == nil {
		t.Error("cg is not a consumer group")
	}
	if c := s.classicGroup(wall(0), "mg"); c == nil {
		t.Error("mg is not a classic group")
	}
	_ = s.Loaded(wall(0))
}
