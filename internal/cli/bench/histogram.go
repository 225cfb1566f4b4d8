package bench

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 1/32 wide: five
// significant bits for each power of two of microseconds.
type histogram struct {
	counts [64 * 32]int64
	total  int64
	max    time.Duration
}

func bucketOf(us uint64) int {
	if us < 32 {
		return int(us)
	}
	exp := bits.Len64(us) - 6
	return (exp+1)*32 + int(us>>exp) - 32
}

// upper is the largest value of a bucket, in microseconds.
func upper(bucket int) uint64 {
	if bucket < 32 {
		return uint64(bucket)
	}
	exp := bucket/32 - 1
	return (uint64(bucket%32+32)+1)<<exp - 1
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(max(0, d.Microseconds())))]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// quantile returns the duration that a share q of all did not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := max(1, int64(q*float64(h.total)+0.5))
	seen := int64(0)
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(h.max, time.Duration(upper(i))*time.Microsecond)
		}
	}
	return h.max
}
