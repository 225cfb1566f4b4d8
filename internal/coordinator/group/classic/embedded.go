package classic

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The consumers' own messages inside JoinGroup and SyncGroup. A coordinator only
// looks into them to know subscriptions and to move groups between protocols.

// embeddedMaxVersion is the newest version of Subscription and Assignment.
const embeddedMaxVersion = 3

// ParseSubscription reads a consumer's subscription; a version from the future
// is read as the newest known one, which its encoding starts with.
func ParseSubscription(b []byte) (kmsg.ConsumerMemberMetadata, bool) {
	var s kmsg.ConsumerMemberMetadata
	if !readEmbedded(b, s.ReadFrom) {
		return s, false
	}
	return s, true
}

// ParseAssignment reads a consumer's assignment; empty bytes assign nothing.
func ParseAssignment(b []byte) (kmsg.ConsumerMemberAssignment, bool) {
	var a kmsg.ConsumerMemberAssignment
	if len(b) == 0 {
		return a, true
	}
	return a, readEmbedded(b, a.ReadFrom)
}

func readEmbedded(b []byte, read func([]byte) error) bool {
	if len(b) < 2 {
		return false
	}
	v := int16(binary.BigEndian.Uint16(b))
	if v < 0 {
		return false
	}
	if v > embeddedMaxVersion {
		b = append([]byte{0, embeddedMaxVersion}, b[2:]...)
	}
	return read(b) == nil
}

// Dealt returns how many partitions of each topic the assignment of a group of
// consumers deals out; topics of which it leaves some out in between are not in it.
func (g *Group) Dealt() map[string]int32 {
	out := map[string]int32{}
	if g.protocolType != ProtocolType {
		return out
	}
	seen := map[string]map[int32]bool{}
	for _, m := range g.members {
		a, ok := ParseAssignment(m.Assignment)
		if !ok {
			return out
		}
		for _, t := range a.Topics {
			if seen[t.Topic] == nil {
				seen[t.Topic] = map[int32]bool{}
			}
			for _, p := range t.Partitions {
				seen[t.Topic][p] = true
			}
		}
	}
	for topic, partitions := range seen {
		if n := int32(len(partitions)); n > 0 && slices.Max(slices.Collect(maps.Keys(partitions))) == n-1 {
			out[topic] = n
		}
	}
	return out
}
