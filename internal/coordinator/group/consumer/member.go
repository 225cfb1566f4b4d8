package consumer

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// State is where a member stands on its way to the target (MemberState).
type State int8

const (
	// Stable has everything that it is to have in its epoch.
	Stable State = 0
	// UnrevokedPartitions has to give partitions up first.
	UnrevokedPartitions State = 1
	// UnreleasedPartitions waits for partitions that others have to give up.
	UnreleasedPartitions State = 2
	// unknownState is one of a newer version.
	unknownState State = 127
)

// Member epochs with a meaning of their own.
const (
	JoinEpoch        int32 = 0
	LeaveEpoch       int32 = -1
	LeaveStaticEpoch int32 = -2
)

// Owned is partitions of one topic, ascending, with the epochs in which the
// member got them.
type Owned struct {
	TopicID    types.UUID
	Partitions []int32
	Epochs     []int32
}

// Member is one member. It is replaced, never changed.
type Member struct {
	ID                   string
	InstanceID, RackID   *string
	ClientID, ClientHost string
	Topics               []string // ascending
	Regex                *string
	RebalanceMs          int32
	Assignor             *string
	// Classic is set for a member that speaks the classic protocol.
	Classic *recordschema.ConsumerGroupClassicMember

	Epoch, PrevEpoch int32
	State            State
	Assigned         []Owned // by topic id, ascending
	Revoking         []Owned // still the member's until it says otherwise
}

// UsesClassic reports a member that speaks the classic protocol.
func (m *Member) UsesClassic() bool { return m.Classic != nil }

// reconciledTo reports that the member needs nothing more for an epoch.
func (m *Member) reconciledTo(epoch int32) bool { return m.State == Stable && m.Epoch == epoch }

func (m *Member) regex() string {
	if m.Regex == nil {
		return ""
	}
	return *m.Regex
}

// sameMetadata reports that nothing changed of what the member says of itself.
func (m *Member) sameMetadata(o *Member) bool {
	return equalPtr(m.InstanceID, o.InstanceID) && equalPtr(m.RackID, o.RackID) && m.ClientID == o.ClientID &&
		m.ClientHost == o.ClientHost && slices.Equal(m.Topics, o.Topics) && equalPtr(m.Regex, o.Regex) &&
		m.RebalanceMs == o.RebalanceMs && equalPtr(m.Assignor, o.Assignor) && sameClassic(m.Classic, o.Classic)
}

func sameClassic(a, b *recordschema.ConsumerGroupClassicMember) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.SessionTimeoutMs == b.SessionTimeoutMs && slices.EqualFunc(a.SupportedProtocols, b.SupportedProtocols,
		func(x, y recordschema.ConsumerGroupClassicProtocol) bool {
			return x.Name == y.Name && slices.Equal(x.Metadata, y.Metadata)
		})
}

func equalPtr(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// samePlace reports that two versions of a member stand at the same point.
func (m *Member) samePlace(o *Member) bool {
	return m.Epoch == o.Epoch && m.PrevEpoch == o.PrevEpoch && m.State == o.State &&
		equalOwned(m.Assigned, o.Assigned) && equalOwned(m.Revoking, o.Revoking)
}

func equalOwned(a, b []Owned) bool {
	return slices.EqualFunc(a, b, func(x, y Owned) bool {
		return x.TopicID == y.TopicID && slices.Equal(x.Partitions, y.Partitions) && slices.Equal(x.Epochs, y.Epochs)
	})
}

// find returns a topic's place in owned.
func find(owned []Owned, topic types.UUID) (Owned, bool) {
	i, ok := slices.BinarySearchFunc(owned, topic, func(o Owned, id types.UUID) int { return assignor.CompareIDs(o.TopicID, id) })
	if !ok {
		return Owned{}, false
	}
	return owned[i], true
}

// epochOf returns in which epoch the member got a partition.
func epochOf(owned []Owned, topic types.UUID, partition int32) (int32, bool) {
	o, ok := find(owned, topic)
	if !ok {
		return 0, false
	}
	i, ok := slices.BinarySearch(o.Partitions, partition)
	if !ok {
		return 0, false
	}
	return o.Epochs[i], true
}

// AssignmentEpoch returns in which epoch the member got a partition that it
// still has (KIP-1251).
func (m *Member) AssignmentEpoch(topic types.UUID, partition int32) (int32, bool) {
	if e, ok := epochOf(m.Assigned, topic, partition); ok {
		return e, true
	}
	return epochOf(m.Revoking, topic, partition)
}

// each calls f for every partition.
func each(owned []Owned, f func(types.UUID, int32)) {
	for _, o := range owned {
		for _, p := range o.Partitions {
			f(o.TopicID, p)
		}
	}
}

// ownedOf makes owned of a record's partitions; without epochs they count from
// the member's.
func ownedOf(in []recordschema.ConsumerGroupTopicPartitions, memberEpoch int32) []Owned {
	var out []Owned
	for _, t := range in {
		o := Owned{TopicID: t.TopicID, Partitions: slices.Clone(t.Partitions), Epochs: slices.Clone(t.AssignmentEpochs)}
		if o.Epochs == nil {
			o.Epochs = make([]int32, len(o.Partitions))
			for i := range o.Epochs {
				o.Epochs[i] = memberEpoch
			}
		}
		sortOwned(&o)
		if len(o.Partitions) > 0 {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b Owned) int { return assignor.CompareIDs(a.TopicID, b.TopicID) })
	return out
}

// sortOwned orders the partitions; Kafka writes them in any order.
func sortOwned(o *Owned) {
	if slices.IsSorted(o.Partitions) {
		return
	}
	type pair struct{ p, e int32 }
	pairs := make([]pair, len(o.Partitions))
	for i := range pairs {
		pairs[i] = pair{o.Partitions[i], o.Epochs[i]}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return int(a.p) - int(b.p) })
	for i, p := range pairs {
		o.Partitions[i], o.Epochs[i] = p.p, p.e
	}
}

func recordOf(owned []Owned) []recordschema.ConsumerGroupTopicPartitions {
	out := make([]recordschema.ConsumerGroupTopicPartitions, len(owned))
	for i, o := range owned {
		out[i] = recordschema.ConsumerGroupTopicPartitions{TopicID: o.TopicID, Partitions: o.Partitions, AssignmentEpochs: o.Epochs}
	}
	return out
}

// assignmentOf makes an assignment of a record's partitions.
func assignmentOf(in []recordschema.ConsumerGroupTopicPartitions) assignor.Assignment {
	var out assignor.Assignment
	for _, t := range in {
		if len(t.Partitions) == 0 {
			continue
		}
		ps := slices.Clone(t.Partitions)
		slices.Sort(ps)
		out = append(out, assignor.Partitions{TopicID: t.TopicID, Partitions: ps})
	}
	slices.SortFunc(out, func(a, b assignor.Partitions) int { return assignor.CompareIDs(a.TopicID, b.TopicID) })
	return out
}
