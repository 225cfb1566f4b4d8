package load

import (
	"math/bits"
	"time"
)

// subBits gives 64 buckets for each power of two: a quantile is at most 1.6 %
// above the true one.
const subBits = 6

// Histogram counts durations. The zero value is empty; it is for one goroutine.
type Histogram struct {
	counts [64 << subBits]int64
	n      int64
	max    time.Duration
}

// Add counts one duration; a negative one counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.max = max(h.max, d)
}

// Count returns how many were added.
func (h *Histogram) Count() int64 { return h.n }

// Max returns the largest.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns an upper bound of the q-quantile, 0 < q <= 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := int64(q*float64(h.n) + 0.9999999)
	seen := int64(0)
	for i, c := range h.counts {
		if seen += c; c > 0 && seen >= want {
			return min(time.Duration(upper(i)), h.max)
		}
	}
	return h.max
}

func bucket(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

func upper(i int) uint64 {
	if i < 1<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return uint64(i-shift<<subBits+1)<<shift - 1
}
