package suite

import (
	"fmt"
	"iter"
	"time"
)

// A run has a budget of time, of which each row gets its share: rounds after the
// first are left out once the share is used up, and whatever would begin after
// the end of the budget is left out and listed. One measure is never cut short,
// so a run ends with the measure that crosses the end.

// shareOut sets the deadline of the i-th of the rows that are to run.
func (r *Run) shareOut(todo []row, i int) {
	all := 0
	for _, t := range todo[i:] {
		all += t.share
	}
	left := time.Until(r.end)
	r.rowEnd = time.Now().Add(left * time.Duration(todo[i].share) / time.Duration(max(all, 1)))
}

// rounds counts to n, or to what the row has time for, at least one.
func (r *Run) rounds(what string, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if i > 0 && time.Now().After(r.rowEnd) {
				r.leaveOut(fmt.Sprintf("%s, rounds %d to %d", what, i+1, n))
				return
			}
			if !yield(i) {
				return
			}
		}
	}
}

// over reports whether the budget is used up, and notes that what is left out.
func (r *Run) over(what string) bool {
	if time.Now().Before(r.end) {
		return false
	}
	r.leaveOut(what)
	return true
}

func (r *Run) leaveOut(what string) {
	r.logf("%s: left out, the run has %v", what, r.o.Budget)
	r.Out.Absent[what] = fmt.Sprintf("out of time, the run has %v (-budget)", r.o.Budget)
}
