package commitplan

import "testing"

var in = Intervals{MovedMs: 100, BeaconMs: 1000, IdleMs: 60_000}

func TestDue(t *testing.T) {
	me := Member{"m", 4}
	for _, c := range []struct {
		name   string
		s      State
		now    int64
		next   int64
		active bool
		want   bool
	}{
		{"no commit yet", State{Committed: Absent}, 5, 0, false, true},
		{"moved, too soon", State{Committed: 10, AttemptMs: 50}, 100, 11, true, false},
		{"moved", State{Committed: 10, AttemptMs: 50}, 150, 11, true, true},
		{"active beacon", State{Committed: 10, AttemptMs: 50}, 1050, 10, true, true},
		{"idle is quiet", State{Committed: 10, AttemptMs: 50}, 1050, 10, false, false},
		{"idle beacon", State{Committed: 10, AttemptMs: 50}, 60_050, 10, false, true},
		{"deferred, backing off", State{Committed: 10, AttemptMs: 50, Failures: 1}, 149, 11, true, false},
		{"deferred", State{Committed: 10, AttemptMs: 50, Failures: 1}, 150, 11, true, true},
		{"deferred for long", State{Committed: 10, AttemptMs: 0, Failures: 60}, 4999, 11, true, false},
		{"lost as this member", State{Committed: 10, lostAs: &me}, 99_999, 11, true, false},
		{"lost as an earlier one", State{Committed: 10, lostAs: &Member{"m", 3}}, 99_999, 11, true, true},
	} {
		if got := c.s.Due(c.now, c.next, c.active, me, in); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestAnswers: only OK is booked as a commit.
func TestAnswers(t *testing.T) {
	m := Member{"m", 1}
	for code, want := range map[int16]Result{
		0: OK, 12: Shrink, 22: Lost, 25: Lost, 82: Lost, 110: Lost, 3: Lost, 100: Lost,
		27: Defer, 14: Defer, 15: Defer, 16: Defer, 7: Defer, 113: Defer, 29: Defer, 30: Defer, -1: Defer, 999: Defer,
	} {
		r := Classify(code)
		if r != want {
			t.Errorf("code %d: %v, want %v", code, r, want)
		}
		s := State{Committed: 5}
		s.Answered(10, 9, r, m)
		if booked := s.Committed == 9; booked != (r == OK) {
			t.Errorf("code %d: committed %d", code, s.Committed)
		}
	}
}
