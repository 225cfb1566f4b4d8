package startpos

// Policy is what to do without a usable committed offset.
type Policy int8

// Policies.
const (
	Earliest Policy = iota
	Latest
	None
)

// Absent says that there is no committed offset.
const Absent int64 = -1

// Input is what is known about the partition.
type Input struct {
	Committed        int64 // Absent when the group has none
	LogStart, LogEnd int64
	Policy           Policy
	// New is whether the topic gained the partition after the group first
	// consumed the topic.
	New bool
}

// Decision is where to begin, or why not.
type Decision struct {
	Offset int64
	// UsesCommit is whether Offset is the committed one: only then its leader
	// epoch and its completed set mean anything.
	UsesCommit bool
	// Expired counts offsets between the committed one and the log start.
	Expired int64
	// Truncated is whether the committed offset is past the log end.
	Truncated bool
	// Held is the reason why the partition must wait for its owner, "" for none.
	Held string
}

// Decide applies the rules.
func Decide(in Input) Decision {
	switch {
	case in.Committed == Absent:
		return decideAbsent(in)
	case in.Committed < in.LogStart:
		d := Decision{Offset: in.LogStart, Expired: in.LogStart - in.Committed}
		if in.Policy == None {
			d.Held = "the offset is below the log start: retention removed it"
		}
		// Latest too: everything that still exists is unread.
		return d
	case in.Committed > in.LogEnd:
		d := Decision{Offset: in.LogStart, Truncated: true}
		switch in.Policy {
		case None:
			d.Held = "the offset is past the log end: the log was truncated or made anew"
		case Latest:
			d.Offset = in.LogEnd
		}
		return d
	}
	return Decision{Offset: in.Committed, UsesCommit: true}
}

func decideAbsent(in Input) Decision {
	switch {
	case in.New || in.Policy == Earliest:
		return Decision{Offset: in.LogStart}
	case in.Policy == Latest:
		return Decision{Offset: in.LogEnd}
	}
	return Decision{Offset: in.LogStart, Held: "the group has no offset"}
}

// IsNew reports whether a partition without a commit came after the group first
// consumed its topic. since is the partition count of that time, 0 when unknown;
// others is whether the group has a commit for any other partition of the topic.
// A group that started with other software has no since: there, a partition
// without a commit beside ones that have it counts as new, because reading
// records twice is better than never. A caller whose policy is None passes false:
// then only a known since decides, and the rest waits for its owner.
func IsNew(partition, since int32, others bool) bool {
	if since > 0 {
		return partition >= since
	}
	return others
}
