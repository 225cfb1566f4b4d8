package consumer

// Membership tells apart the consumers that have no partition: a group may have
// more members than partitions.
type Membership string

// Kinds of membership.
const (
	MembershipWaiting  Membership = "waiting"  // no assignment yet, or none any more
	MembershipIdle     Membership = "idle"     // a member that was told that it has no partition
	MembershipAssigned Membership = "assigned" // a member with partitions
)

var memberships = []Membership{MembershipWaiting, MembershipIdle, MembershipAssigned}

// membership follows what the client's callbacks say of the assignment.
type membership struct {
	told       bool
	partitions int
}

func (m *membership) assigned(n int) { m.told, m.partitions = true, m.partitions+n }

// revoked takes partitions away. Under the eager protocol that begins a rebalance,
// and what is left is not known before its end.
func (m *membership) revoked(n int, p Protocol) {
	m.told, m.partitions = m.told && p != ProtocolEager, m.partitions-n
}

func (m *membership) lost() { *m = membership{} }

func (m *membership) state() Membership {
	switch {
	case !m.told:
		return MembershipWaiting
	case m.partitions == 0:
		return MembershipIdle
	}
	return MembershipAssigned
}

// partitionsIn counts the partitions of a callback.
func partitionsIn(m map[string][]int32) (n int) {
	for _, ps := range m {
		n += len(ps)
	}
	return n
}
