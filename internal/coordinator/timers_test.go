package coordinator

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTimersAgainstMap compares with a plain map searched in full.
func TestTimersAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var timers Timers[int]
		want := map[int]int64{}
		now := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, at := rapid.IntRange(0, 9).Draw(t, "k"), now+rapid.Int64Range(0, 50).Draw(t, "in")
				timers.Set(k, at)
				want[k] = at
			},
			"cancel": func(t *rapid.T) {
				k := rapid.IntRange(0, 9).Draw(t, "k")
				timers.Cancel(k)
				delete(want, k)
			},
			"pass": func(t *rapid.T) {
				now += rapid.Int64Range(0, 20).Draw(t, "ms")
				var fired []int
				last := int64(-1)
				for {
					k, ok := timers.Pop(now)
					if !ok {
						break
					}
					if want[k] > now || want[k] < last {
						t.Fatalf("timer %d of %d fired at %d after %d", k, want[k], now, last)
					}
					last = want[k]
					delete(want, k)
					fired = append(fired, k)
				}
				for k, at := range want {
					if at <= now {
						t.Fatalf("timer %d of %d did not fire at %d (fired %v)", k, at, now, fired)
					}
				}
			},
			"": func(t *rapid.T) {
				if timers.Len() != len(want) {
					t.Fatalf("%d timers, want %d", timers.Len(), len(want))
				}
				next, ok := timers.NextMs()
				var all []int64
				for k, at := range want {
					if due, ok := timers.Due(k); !ok || due != at {
						t.Fatalf("timer %d is due at %d (%v), want %d", k, due, ok, at)
					}
					all = append(all, at)
				}
				slices.SortFunc(all, cmp.Compare)
				if ok != (len(all) > 0) || ok && next > all[0] {
					t.Fatalf("next %d (%v), want no later than the first of %v", next, ok, all)
				}
			},
		})
	})
}
