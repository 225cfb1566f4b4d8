package assignment

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/consumer/internal/dispatch"
)

// world is one partition of a group: a log with gaps, a coordinator that fences
// by group generation only (as Kafka does: not by who owns the partition), and
// the assignments of the members that have, or believe they have, the partition.
type world struct {
	t    *rapid.T
	log  []int64 // offsets that have a record, ascending
	end  int64
	done map[int64]bool // effects that happened, whoever did them
	runs map[int64]int

	generation int
	committed  int64
	text       string

	owner   *holder
	zombies []*holder // lost the partition and do not know it yet
	now     int64
	limit   int
}

// holder is one member's view: the assignment and the commit in flight.
type holder struct {
	a          *Assignment
	generation int // of the group, when it was assigned
	next       int // index into the log
	running    []*Item
	waiting    []*Item
	flight     *flight
	dropped    bool
}

type flight struct {
	generation int
	offset     int64
	text       string
}

func (w *world) firstUnfinished() int64 {
	for _, o := range w.log {
		if !w.done[o] {
			return o
		}
	}
	return w.end
}

func (w *world) assign() {
	w.generation++
	b, err := beacon.Decode(w.text)
	var restored beacon.Set
	if err == nil && b.Effect == w.committed {
		restored = b.Done
	}
	for _, r := range restored {
		for o := r.First; o <= r.Last; o++ {
			if !w.done[o] {
				w.t.Fatalf("the beacon at %d says that %d is done", w.committed, o)
			}
		}
	}
	h := &holder{generation: w.generation}
	order := rapid.SampledFrom([]dispatch.Order{dispatch.ByKey, dispatch.ByPartition, dispatch.None}).Draw(w.t, "order")
	h.a = New(Options{Generation: int64(w.generation), Start: w.committed, StartEpoch: -1, Order: order, Restored: restored})
	for h.next < len(w.log) && w.log[h.next] < w.committed {
		h.next++
	}
	w.owner = h
}

func (w *world) deliver(h *holder) {
	for range rapid.IntRange(1, 20).Draw(w.t, "fetch") {
		if h.next == len(w.log) {
			h.a.Advance(w.end) // the transaction marker at the end
			return
		}
		o := w.log[h.next]
		var key []byte
		if o%5 != 0 {
			key = []byte{byte(o % 3)}
		}
		if v := h.a.Deliver(w.now, o, 1, key, 10, nil); v == Regressed {
			w.t.Fatalf("%d came twice", o)
		}
		h.next++
	}
}

// finish ends one attempt of a random running record.
func (w *world) finish(h *holder) {
	if len(h.running) == 0 {
		return
	}
	i := rapid.IntRange(0, len(h.running)-1).Draw(w.t, "which")
	it := h.running[i]
	h.running = append(h.running[:i], h.running[i+1:]...)
	if rapid.IntRange(0, 3).Draw(w.t, "outcome") == 0 {
		if h.dropped {
			return // a late result: nobody asks
		}
		h.a.Wait(it, w.now, "no")
		h.waiting = append(h.waiting, it)
		return
	}
	w.done[it.Offset] = true // the effect is outside: a late one happens too
	if !h.dropped && !h.a.Close(it, w.now) {
		w.t.Fatalf("a result of the live assignment for %d was refused", it.Offset)
	}
}

func (w *world) snapshot(h *holder) {
	if h.dropped || h.flight != nil {
		return
	}
	b := h.a.Snapshot(w.now)
	h.flight = &flight{h.generation, h.a.Effect(), beacon.Encode(b, w.limit)}
}

func (w *world) arrive(h *holder) {
	f := h.flight
	if f == nil {
		return
	}
	h.flight = nil
	if f.generation != w.generation {
		return // the coordinator fences
	}
	w.committed, w.text = f.offset, f.text
}

// revoke is the order of the runtime: close intake, drain, the commit in flight,
// snapshot, commit, drop.
func (w *world) revoke() {
	h := w.owner
	h.a.CloseIntake()
	for range rapid.IntRange(0, len(h.running)).Draw(w.t, "drain") {
		w.finish(h)
	}
	w.arrive(h)
	w.snapshot(h)
	w.arrive(h)
	h.dropped = true
	w.zombies = append(w.zombies, h)
	w.assign()
}

// lost moves the partition before the old owner knows. What it sends until then
// carries the old generation.
func (w *world) lost() {
	w.zombies = append(w.zombies, w.owner)
	w.assign()
}

func (w *world) check() {
	if first := w.firstUnfinished(); w.committed > first {
		w.t.Fatalf("committed %d, but %d is not finished", w.committed, first)
	}
	if a := w.owner.a; a.Effect() > a.Position() || a.Unfinished() != a.Count(Queued)+a.Count(Running)+a.Count(RetryWait)+a.Count(Quarantining) {
		w.t.Fatalf("effect %d, position %d, unfinished %d", a.Effect(), a.Position(), a.Unfinished())
	}
}

func (w *world) work(h *holder) {
	if it := h.a.Next(w.now); it != nil {
		h.running = append(h.running, it)
		w.runs[it.Offset]++
	}
}

func (w *world) due(h *holder) {
	if len(h.waiting) > 0 && !h.dropped {
		h.a.Due(h.waiting[0], w.now)
		h.waiting = h.waiting[1:]
	}
}

// TestCommittedNeverPassesTheFirstUnfinished runs random completion orders, gaps,
// revokes, losses and reassignments: what is committed never passes a record that
// nobody finished, and at the end no record is missing.
func TestCommittedNeverPassesTheFirstUnfinished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, done: map[int64]bool{}, runs: map[int64]int{}, limit: rapid.SampledFrom([]int{0, 100, 160, 4096}).Draw(t, "limit")}
		for range rapid.IntRange(0, 120).Draw(t, "records") {
			w.end += rapid.SampledFrom([]int64{0, 0, 0, 1, 7}).Draw(t, "gap")
			w.log = append(w.log, w.end)
			w.end++
		}
		w.end += rapid.Int64Range(0, 2).Draw(t, "marker")
		w.assign()
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			w.now++
			h := w.owner
			if len(w.zombies) > 0 && rapid.IntRange(0, 4).Draw(t, "late") == 0 {
				h = w.zombies[rapid.IntRange(0, len(w.zombies)-1).Draw(t, "zombie")]
			}
			switch rapid.IntRange(0, 12).Draw(t, "op") {
			case 0:
				if h == w.owner {
					w.deliver(h)
				}
			case 1, 2, 3, 4:
				w.work(h)
			case 5, 6, 7:
				w.finish(h)
			case 8:
				w.due(h)
			case 9:
				w.snapshot(h)
			case 10:
				w.arrive(h)
			case 11:
				if h == w.owner {
					w.revoke()
				} else {
					h.dropped = true // it learns of the loss
					h.a.CloseIntake()
				}
			case 12:
				if rapid.IntRange(0, 3).Draw(t, "lose") == 0 {
					w.lost()
				}
			}
			w.check()
		}
		w.settle()
	})
}

// settle lets the last owner finish everything.
func (w *world) settle() {
	h := w.owner
	for round := 0; h.a.Position() < w.end || h.a.Unfinished() > 0; round++ {
		if round > 20_000 {
			w.t.Fatalf("stuck at effect %d, position %d of %d, unfinished %d", h.a.Effect(), h.a.Position(), w.end, h.a.Unfinished())
		}
		w.deliver(h)
		w.work(h)
		w.finish(h)
		w.due(h)
		w.check()
	}
	w.arrive(h)
	w.snapshot(h)
	w.arrive(h)
	w.check()
	if w.committed != w.end {
		w.t.Fatalf("committed %d, the log ends at %d", w.committed, w.end)
	}
	for _, o := range w.log {
		if !w.done[o] || w.runs[o] == 0 {
			w.t.Fatalf("record %d is missing: runs %d", o, w.runs[o])
		}
	}
}
