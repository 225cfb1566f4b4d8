package recordschema

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/types"
)

func groupValues() []ConsumerGroupValue {
	s := func(v string) *string { return &v }
	parts := []ConsumerGroupTopicPartitions{{TopicID: types.UUID{1}, Partitions: []int32{0, 2}, AssignmentEpochs: []int32{3, 4}}}
	return []ConsumerGroupValue{
		&ConsumerGroupMetadataValue{Epoch: 2}, &ConsumerGroupMetadataValue{Epoch: 2, MetadataHash: -5},
		&ConsumerGroupMemberMetadataValue{ClientID: "c", ClientHost: "/h", RebalanceTimeoutMs: 5},
		&ConsumerGroupMemberMetadataValue{
			InstanceID: s("i"), RackID: s("r"), SubscribedTopicNames: []string{"a", "b"}, SubscribedTopicRegex: s(""), ServerAssignor: s("uniform"),
			Classic: &ConsumerGroupClassicMember{SessionTimeoutMs: 9, SupportedProtocols: []ConsumerGroupClassicProtocol{{Name: "range", Metadata: []byte{1}}}},
		},
		&ConsumerGroupTargetMetadataValue{AssignmentEpoch: 2, AssignmentTimestamp: 7},
		&ConsumerGroupTargetMemberValue{TopicPartitions: []ConsumerGroupTopicPartitions{{TopicID: types.UUID{1}, Partitions: []int32{1}}}},
		&ConsumerGroupCurrentMemberValue{MemberEpoch: 3, PreviousMemberEpoch: 2, State: 1, Assigned: parts, PendingRevocation: parts},
		&ConsumerGroupRegularExpressionValue{Topics: []string{"a"}, Version: 4, Timestamp: 5},
	}
}

// empty returns a new value of v's kind.
func empty(v ConsumerGroupValue) ConsumerGroupValue {
	switch v.(type) {
	case *ConsumerGroupMetadataValue:
		return &ConsumerGroupMetadataValue{}
	case *ConsumerGroupMemberMetadataValue:
		return &ConsumerGroupMemberMetadataValue{}
	case *ConsumerGroupTargetMetadataValue:
		return &ConsumerGroupTargetMetadataValue{}
	case *ConsumerGroupTargetMemberValue:
		return &ConsumerGroupTargetMemberValue{}
	case *ConsumerGroupCurrentMemberValue:
		return &ConsumerGroupCurrentMemberValue{}
	}
	return &ConsumerGroupRegularExpressionValue{}
}

func TestConsumerGroupValues(t *testing.T) {
	for _, v := range groupValues() {
		b := AppendConsumerGroupValue(nil, v)
		got := empty(v)
		if err := ParseConsumerGroupValue(b, got); err != nil {
			t.Fatalf("%T: %v", v, err)
		}
		if d := cmp.Diff(v, got); d != "" {
			t.Errorf("%T:\n%s", v, d)
		}
		for n := range b {
			if err := ParseConsumerGroupValue(b[:n], empty(v)); !errors.Is(err, ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: %v", v, n, len(b), err)
			}
		}
		b[1] = 1
		if err := ParseConsumerGroupValue(b, empty(v)); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("%T version 1: %v", v, err)
		}
	}
	uneven := &ConsumerGroupCurrentMemberValue{Assigned: []ConsumerGroupTopicPartitions{{Partitions: []int32{1}, AssignmentEpochs: []int32{1, 2}}}}
	if err := ParseConsumerGroupValue(AppendConsumerGroupValue(nil, uneven), empty(uneven)); !errors.Is(err, ErrMalformed) {
		t.Errorf("more epochs than partitions: %v", err)
	}
}

func TestConsumerGroupKeys(t *testing.T) {
	for _, k := range []ConsumerGroupKey{{3, "g", ""}, {5, "g", "m"}, {16, "", ".*"}} {
		b := k.Append(nil)
		got, err := ParseConsumerGroupKey(b)
		if err != nil || got != k {
			t.Errorf("%+v: %+v, %v", k, got, err)
		}
		for n := range b {
			if _, err := ParseConsumerGroupKey(b[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%+v cut to %d bytes: %v", k, n, err)
			}
		}
	}
}

// FuzzConsumerGroup: whatever is read is written again so that it reads the same.
func FuzzConsumerGroup(f *testing.F) {
	for _, v := range groupValues() {
		f.Add(AppendConsumerGroupValue(nil, v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range groupValues() {
			got := empty(v)
			if ParseConsumerGroupValue(bytes.Clone(b), got) != nil {
				continue
			}
			again := empty(v)
			if err := ParseConsumerGroupValue(AppendConsumerGroupValue(nil, got), again); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(got, again); d != "" {
				t.Fatal(d)
			}
		}
	})
}
