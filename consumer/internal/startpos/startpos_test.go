package startpos

import "testing"

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Input
		want Decision
	}{
		{"inside", Input{Committed: 20, LogStart: 0, LogEnd: 100}, Decision{Offset: 20, UsesCommit: true}},
		{"at the end", Input{Committed: 100, LogStart: 0, LogEnd: 100, Policy: None}, Decision{Offset: 100, UsesCommit: true}},
		{"C075 p0 earliest", Input{Committed: 10, LogStart: 50, LogEnd: 100}, Decision{Offset: 50, Expired: 40}},
		{"C075 p1 earliest", Input{Committed: 999, LogStart: 0, LogEnd: 100}, Decision{Offset: 0, Truncated: true}},
		{"C075 p3 earliest", Input{Committed: Absent, LogStart: 0, LogEnd: 100}, Decision{Offset: 0}},
		{"C075 p0 none", Input{Committed: 10, LogStart: 50, LogEnd: 100, Policy: None}, Decision{Offset: 50, Expired: 40, Held: "the offset is below the log start: retention removed it"}},
		{"C075 p1 none", Input{Committed: 999, LogStart: 0, LogEnd: 100, Policy: None}, Decision{Offset: 0, Truncated: true, Held: "the offset is past the log end: the log was truncated or made anew"}},
		{"C075 p3 none", Input{Committed: Absent, LogStart: 0, LogEnd: 100, Policy: None}, Decision{Offset: 0, Held: "the group has no offset"}},
		// The seed: a position below the log start is never moved to the end.
		{"expired, latest", Input{Committed: 10, LogStart: 50, LogEnd: 100, Policy: Latest}, Decision{Offset: 50, Expired: 40}},
		{"past the end, latest", Input{Committed: 999, LogStart: 0, LogEnd: 100, Policy: Latest}, Decision{Offset: 100, Truncated: true}},
		{"none, latest", Input{Committed: Absent, LogStart: 5, LogEnd: 100, Policy: Latest}, Decision{Offset: 100}},
		{"new partition, latest", Input{Committed: Absent, LogStart: 5, LogEnd: 100, Policy: Latest, New: true}, Decision{Offset: 5}},
		{"new partition, none", Input{Committed: Absent, LogStart: 5, LogEnd: 100, Policy: None, New: true}, Decision{Offset: 5}},
	} {
		if got := Decide(c.in); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestIsNew(t *testing.T) {
	for _, c := range []struct {
		partition, since int32
		others, want     bool
	}{
		{3, 4, true, false}, {4, 4, true, true}, {4, 4, false, true},
		{0, 0, false, false}, // a fresh group
		{5, 0, true, true},   // a group of other software that never saw it
	} {
		if got := IsNew(c.partition, c.since, c.others); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
