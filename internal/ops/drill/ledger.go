package drill

import "errors"

var errTooMany = errors.New("more records than a drill counts")

// maxListed bounds how many missed records are listed one by one.
const maxListed = 20

// ledger counts how often each record was processed. Offsets of a drill's topic
// have no gaps: one producer without transactions, no compaction.
type ledger struct {
	seen     [][]uint8 // by partition and offset; saturates
	repeated int64
	distinct int64
}

func newLedger(partitions int) *ledger { return &ledger{seen: make([][]uint8, partitions)} }

func (l *ledger) processed(p int32, offset int64) error {
	if l.distinct >= MaxRecords || offset >= MaxRecords {
		return errTooMany
	}
	s := l.seen[p]
	for int64(len(s)) <= offset {
		s = append(s, 0)
	}
	l.seen[p] = s
	switch {
	case s[offset] == 0:
		l.distinct++
	default:
		l.repeated++
	}
	if s[offset] < 255 {
		s[offset]++
	}
	return nil
}

// missed compares with the log ends: what is in the log and was never processed.
func (l *ledger) missed(ends []int64) (n int64, first []MissedRecord) {
	for p, end := range ends {
		for offset := range end {
			if offset < int64(len(l.seen[p])) && l.seen[p][offset] > 0 {
				continue
			}
			n++
			if len(first) < maxListed {
				first = append(first, MissedRecord{int32(p), offset})
			}
		}
	}
	return n, first
}

// complete reports whether nothing is missed, without listing.
func (l *ledger) complete(ends []int64) bool {
	n, _ := l.missed(ends)
	return n == 0
}
