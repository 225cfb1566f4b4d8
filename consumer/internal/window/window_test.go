package window

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSeedExample: 10, 11, 12 delivered, 11 and 12 completed: next is 10.
func TestSeedExample(t *testing.T) {
	w := New(10, -1)
	for _, o := range []int64{10, 11, 12} {
		w.Deliver(o, 3)
	}
	w.Complete(1)
	w.Complete(2)
	if w.Next() != 10 || w.Position() != 13 || w.Completed() != 2 {
		t.Fatalf("next=%d position=%d completed=%d", w.Next(), w.Position(), w.Completed())
	}
	w.Complete(0)
	if w.Next() != 13 || w.NextEpoch() != 3 || w.Len() != 0 {
		t.Fatalf("next=%d epoch=%d len=%d", w.Next(), w.NextEpoch(), w.Len())
	}
}

// naive is the window as one would say it.
type naive struct {
	offsets  []int64
	done     []bool
	position int64
}

func (n *naive) next() int64 {
	for i, o := range n.offsets {
		if !n.done[i] {
			return o
		}
	}
	return n.position
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 1000).Draw(t, "start")
		w, n := New(start, -1), &naive{position: start}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0: // a marker, a compacted range
				n.position += rapid.Int64Range(1, 5).Draw(t, "gap")
				w.Advance(n.position)
			case 1, 2, 3, 4, 5:
				o := n.position + rapid.Int64Range(0, 3).Draw(t, "skip")
				seq, ok := w.Deliver(o, int32(o))
				if !ok || seq != uint64(len(n.offsets)) {
					t.Fatalf("deliver %d: seq %d, %v", o, seq, ok)
				}
				n.offsets, n.done, n.position = append(n.offsets, o), append(n.done, false), o+1
			default:
				if len(n.offsets) == 0 {
					continue
				}
				// Mostly near the head, so that the window also shrinks.
				at := rapid.IntRange(max(0, len(n.offsets)-130), len(n.offsets)-1).Draw(t, "which")
				if got := w.Complete(uint64(at)); got == n.done[at] {
					t.Fatalf("complete %d: %v, was %v", at, got, n.done[at])
				}
				n.done[at] = true
			}
			if w.Next() != n.next() || w.Position() != n.position {
				t.Fatalf("next %d want %d, position %d want %d", w.Next(), n.next(), w.Position(), n.position)
			}
		}
		var got, want []int64
		w.EachCompleted(func(o int64) { got = append(got, o) })
		for i, o := range n.offsets {
			if n.done[i] && o > n.next() {
				want = append(want, o)
			}
		}
		if !slices.Equal(got, want) || w.Completed() != len(want) {
			t.Fatalf("completed %v (%d), want %v", got, w.Completed(), want)
		}
	})
}

func TestBelowPositionIsRefused(t *testing.T) {
	w := New(5, -1)
	w.Deliver(7, 0)
	if _, ok := w.Deliver(7, 0); ok {
		t.Error("7 was delivered twice")
	}
	if _, ok := w.Deliver(6, 0); ok {
		t.Error("6 was delivered after 7")
	}
	if w.Complete(1) || w.Position() != 8 {
		t.Error("a refused delivery left something behind")
	}
}

func BenchmarkDeliverComplete(b *testing.B) {
	w := New(0, -1)
	for i := range b.N {
		seq, _ := w.Deliver(int64(i), 0)
		w.Complete(seq)
	}
}
