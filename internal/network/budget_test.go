package network

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

func TestBudgetBlocksAndServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		never := make(chan struct{})
		var first grant
		if !b.tryTake(&first, 80) {
			t.Fatal("80 of 100 were refused")
		}
		var mu sync.Mutex
		var order []int
		take := func(i int, n int64) {
			go func() {
				var g grant
				if b.tryTake(&g, n) || !b.take(&g, n, never) {
					t.Errorf("%d did not have to wait", i)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				b.release(&g)
			}()
			synctest.Wait()
		}
		take(1, 90) // does not fit
		take(2, 10) // would fit, but 1 is older
		take(3, 500)
		if used, waiting := b.inUse(); used != 80 || waiting != 3 {
			t.Errorf("%d used, %d waiting", used, waiting)
		}
		b.release(&first)
		synctest.Wait()
		if len(order) != 3 {
			t.Fatalf("served %v", order)
		}
		if order[2] != 3 {
			t.Errorf("served %v: the largest came before those that were first", order)
		}
		if used, waiting := b.inUse(); used != 0 || waiting != 0 {
			t.Errorf("%d used, %d waiting at the end", used, waiting)
		}
	})
}

// TestBudgetHalfFramesDoNotLockUp: frames that grow hold everything between them;
// the overdraft lets them end one after the other.
func TestBudgetHalfFramesDoNotLockUp(t *testing.T) {
	b := newBudget(100)
	never := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(10)
	for range 10 {
		done.Go(func() {
			var g grant
			b.tryTake(&g, 10)
			ready.Done()
			ready.Wait() // all hold a part, and all is taken
			for range 5 {
				if !b.tryTake(&g, 20) && !b.take(&g, 20, never) {
					t.Error("take gave up")
				}
				if used, _ := b.inUse(); used > 100+110 {
					t.Errorf("%d used of 100: more than one frame above", used)
				}
			}
			b.release(&g)
		})
	}
	done.Wait()
	if used, waiting := b.inUse(); used != 0 || waiting != 0 {
		t.Errorf("%d used, %d waiting at the end", used, waiting)
	}
}

// TestBudgetModel runs random takes, releases and cancellations. Invariants: the
// limit is passed by one frame at most; whoever waits does so for a reason; the
// sums are right; all is served once all is given back.
func TestBudgetModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, 4).Draw(t, "what"), rapid.IntRange(0, 5).Draw(t, "who"), rapid.IntRange(1, 60).Draw(t, "n")}
		}), 1, 50).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) { runBudget(t, steps) })
	})
}

// holder is a connection that reads one frame at a time, in parts.
type holder struct {
	g       grant
	waiting atomic.Bool
	cancel  chan struct{}
}

func runBudget(t *testing.T, steps [][3]int) {
	const limit = 100
	b := newBudget(limit)
	holders := make([]holder, 6)
	largest := int64(0)
	for _, s := range steps {
		h := &holders[s[1]]
		switch {
		case h.waiting.Load() && s[0] == 0:
			close(h.cancel)
		case h.waiting.Load():
		case s[0] == 1 && h.g.held > 0:
			b.release(&h.g)
		case !b.tryTake(&h.g, int64(s[2])):
			h.cancel = make(chan struct{})
			h.waiting.Store(true)
			go func() {
				ok := b.take(&h.g, int64(s[2]), h.cancel)
				if !ok {
					b.release(&h.g)
				}
				h.waiting.Store(false)
			}()
		}
		synctest.Wait()
		checkBudget(t, b, holders, limit, &largest)
	}
	for range holders {
		for i := range holders {
			if !holders[i].waiting.Load() {
				b.release(&holders[i].g)
			}
		}
		synctest.Wait()
	}
	if used, waiting := b.inUse(); used != 0 || waiting != 0 {
		t.Fatalf("%d used, %d waiting after all was given back", used, waiting)
	}
}

func checkBudget(t *testing.T, b *budget, holders []holder, limit int64, largest *int64) {
	var sum int64
	waiting := 0
	for i := range holders {
		sum += holders[i].g.held
		*largest = max(*largest, holders[i].g.held)
		if holders[i].waiting.Load() {
			waiting++
		}
	}
	used, inLine := b.inUse()
	if used != sum || inLine != waiting {
		t.Fatalf("used %d of which holders know %d; %d in line, %d wait", used, sum, inLine, waiting)
	}
	if used > limit+*largest {
		t.Fatalf("used %d: above %d by more than the largest frame, %d", used, limit, *largest)
	}
	if b.head != nil && b.fits(b.head.want) {
		t.Fatalf("the first in line wants %d of %d (%d used) and still waits", b.head.want, limit, used)
	}
	if b.overdraft == nil && b.holders > 0 {
		t.Fatal("the overdraft is free and somebody in line holds memory")
	}
}
