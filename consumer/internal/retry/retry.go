package retry

import "math"

// DelayMs is the wait before the next attempt: uniform between a half and the
// whole of base*2^(attempts-1), at most maxMs. random is in [0, 1). The lower
// half is kept so that a failing record does not come back at once.
func DelayMs(attempts int, baseMs, maxMs int64, random float64) int64 {
	full := float64(maxMs)
	if attempts < 1 {
		attempts = 1
	}
	if attempts <= 40 {
		full = math.Min(full, float64(baseMs)*math.Exp2(float64(attempts-1)))
	}
	return int64(full/2 + full/2*random)
}

// SourceExpires reports whether retention may remove a record before dueMs. A
// negative retention keeps everything; a record without a timestamp (negative)
// cannot be judged and is kept.
func SourceExpires(timestampMs, retentionMs, dueMs int64) bool {
	return retentionMs >= 0 && timestampMs >= 0 && timestampMs+retentionMs <= dueMs
}

// buckets divide a budget's window: what leaves it leaves in steps of one.
const buckets = 10

// Budget lets Take succeed free + perSuccess*successes times within a window.
type Budget struct {
	free       float64
	perSuccess float64
	widthMs    int64
	unlimited  bool
	at         int64 // number of the newest bucket
	earned     [buckets]float64
	spent      [buckets]float64
}

// NewBudget returns a budget over a sliding window.
func NewBudget(free int, perSuccess float64, windowMs int64) *Budget {
	return &Budget{free: float64(max(free, 0)), perSuccess: perSuccess, widthMs: max(1, windowMs/buckets)}
}

// Unlimited returns a budget that always allows.
func Unlimited() *Budget { return &Budget{unlimited: true, widthMs: 1} }

// Success earns.
func (b *Budget) Success(nowMs int64) { b.earned[b.bucket(nowMs)] += b.perSuccess }

// Take spends one, or reports false.
func (b *Budget) Take(nowMs int64) bool {
	i := b.bucket(nowMs)
	if b.unlimited {
		return true
	}
	left := b.free
	for j := range buckets {
		left += b.earned[j] - b.spent[j]
	}
	// Ten tenths do not add up to one in binary: a small tolerance.
	if left < 1-1e-9 {
		return false
	}
	b.spent[i]++
	return true
}

// bucket clears what the clock has passed and returns the current slot. A clock
// that goes back stays in the newest bucket.
func (b *Budget) bucket(nowMs int64) int {
	if n := nowMs / b.widthMs; n > b.at {
		for i := max(b.at+1, n-buckets+1); i <= n; i++ {
			b.earned[i%buckets], b.spent[i%buckets] = 0, 0
		}
		b.at = n
	}
	return int(b.at % buckets)
}
