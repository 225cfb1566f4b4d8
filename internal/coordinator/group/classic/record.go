package classic

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
)

// Versions that Apache Kafka 4.3 writes; version 4 of the value exists, but is
// never written.
const (
	keyVersion   int16 = 2
	valueVersion int16 = 3
)

func (g *Group) record() coordinator.Record {
	return g.recordWith(func(m *Member) []byte { return m.Assignment })
}

// Record is the group as it stands.
func (g *Group) Record() coordinator.Record { return g.record() }

// UnsettledRecord is a group whose members still have to share out what they
// read, such as one that comes from the other protocol: it names no leader, which
// Kafka reads as well. Kafka writes a leader and so forgets that the members have
// to join again when the coordinator moves at that moment; partitions that had no
// owner then stay without one.
func (g *Group) UnsettledRecord() coordinator.Record {
	g.leader = ""
	r := g.record()
	if all := g.Members(); len(all) > 0 {
		g.leader = all[0].ID
	}
	return r
}

// Unsettled reports a group just read from an UnsettledRecord.
func (g *Group) Unsettled() bool { return g.state == Stable && g.leader == "" }

// recordWith is the group with an assignment that members do not have yet.
func (g *Group) recordWith(assignment func(*Member) []byte) coordinator.Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version, v.ProtocolType, v.Generation = valueVersion, g.protocolType, g.generation
	v.Protocol, v.Leader, v.CurrentStateTimestamp = nullable(g.protocol), nullable(g.leader), g.stateSinceMs
	for _, m := range g.Members() {
		rm := kmsg.NewGroupMetadataValueMember()
		rm.MemberID, rm.InstanceID, rm.ClientID, rm.ClientHost = m.ID, m.InstanceID, m.ClientID, m.ClientHost
		rm.RebalanceTimeoutMillis, rm.SessionTimeoutMillis = m.RebalanceMs, m.SessionMs
		rm.Subscription, rm.Assignment = notNil(m.Metadata(g.protocol)), notNil(assignment(m))
		v.Members = append(v.Members, rm)
	}
	return coordinator.Record{Key: Key(g.id), Value: v.AppendTo(nil)}
}

// EmptyRecord makes a group known that has no generation yet
// (newEmptyGroupMetadataRecord).
func (g *Group) EmptyRecord() coordinator.Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version, v.CurrentStateTimestamp = valueVersion, g.stateSinceMs
	return coordinator.Record{Key: Key(g.id), Value: v.AppendTo(nil)}
}

// Key is the key of a group's GroupMetadata record.
func Key(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: keyVersion, Group: group}
	return k.AppendTo(nil)
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// FromRecord makes the group that a GroupMetadata record describes: Stable, or
// Empty without members, each member's session starting now.
func FromRecord(id string, v *kmsg.GroupMetadataValue, now coordinator.Now, cfg *Config, t *timers.Set) *Group {
	g := New(id, now, cfg, t)
	g.generation, g.stateSinceMs = v.Generation, v.CurrentStateTimestamp
	for i := range v.Members {
		rm := &v.Members[i]
		m := &Member{
			ID: rm.MemberID, InstanceID: rm.InstanceID, ClientID: rm.ClientID, ClientHost: rm.ClientHost,
			RebalanceMs: rm.RebalanceTimeoutMillis, SessionMs: rm.SessionTimeoutMillis, Assignment: rm.Assignment,
			protocolType: v.ProtocolType,
		}
		if m.RebalanceMs == -1 { // version 0 had no such field
			m.RebalanceMs = m.SessionMs
		}
		if v.Protocol != nil {
			m.Protocols = []Protocol{{Name: *v.Protocol, Metadata: rm.Subscription}}
		}
		g.add(m, nil)
		g.touch(now, m)
	}
	if len(v.Members) > 0 {
		g.state = Stable
	}
	g.protocolType = v.ProtocolType
	g.protocol, g.leader = "", ""
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	g.subscribed = g.subscriptions()
	return g
}
