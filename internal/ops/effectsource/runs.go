package effectsource

import (
	"errors"
	"sort"
)

// maxRuns bounds one partition's set.
const maxRuns = 1 << 20

var errTooManyRuns = errors.New("more than 1,048,576 separate ranges of effects in one partition")

// run is a closed range of offsets.
type run struct{ first, last int64 }

// runs is an ascending set of offsets; its ranges never touch.
type runs []run

// add inserts an offset. Offsets that come in order cost nothing to insert.
func (r *runs) add(offset int64) error {
	s := *r
	i := len(s)
	if i == 0 || s[i-1].last < offset {
		i = len(s)
	} else {
		i = sort.Search(len(s), func(i int) bool { return s[i].last >= offset })
		if s[i].first <= offset {
			return nil
		}
	}
	touchesLeft := i > 0 && s[i-1].last+1 == offset
	touchesRight := i < len(s) && s[i].first == offset+1
	switch {
	case touchesLeft && touchesRight:
		s[i-1].last = s[i].last
		s = append(s[:i], s[i+1:]...)
	case touchesLeft:
		s[i-1].last = offset
	case touchesRight:
		s[i].first = offset
	case len(s) >= maxRuns:
		return errTooManyRuns
	default:
		s = append(s, run{})
		copy(s[i+1:], s[i:])
		s[i] = run{offset, offset}
	}
	*r = s
	return nil
}

// after returns the first offset at or above from that is not in the set.
func (r runs) after(from int64) int64 {
	i := sort.Search(len(r), func(i int) bool { return r[i].last >= from })
	if i < len(r) && r[i].first <= from {
		return r[i].last + 1
	}
	return from
}
