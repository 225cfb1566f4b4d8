package window

import "math/bits"

// Window is a ring of delivered records with a bit for each completed one.
type Window struct {
	offsets []int64 // ring, a power of two long
	epochs  []int32 // leader epoch of each record
	done    []uint64
	// head and tail are sequence numbers: slot = seq & (len-1); tail is the next
	// to deliver.
	head, tail uint64
	completed  int
	position   int64
	epoch      int32 // leader epoch of the last record before Next
}

const minSlots = 64

// New returns an empty window that begins at position; epoch is the leader epoch
// of the record before it, -1 when unknown.
func New(position int64, epoch int32) *Window {
	return &Window{
		offsets: make([]int64, minSlots), epochs: make([]int32, minSlots), done: make([]uint64, minSlots/64),
		position: position, epoch: epoch,
	}
}

// Deliver adds a record and returns its sequence number. ok is false, and nothing
// changes, when the offset is below the position: it was delivered before.
func (w *Window) Deliver(offset int64, epoch int32) (seq uint64, ok bool) {
	if offset < w.position {
		return 0, false
	}
	if int(w.tail-w.head) == len(w.offsets) {
		w.grow()
	}
	seq = w.tail
	slot := w.slot(seq)
	w.offsets[slot], w.epochs[slot] = offset, epoch
	w.tail++
	w.position = offset + 1
	return seq, true
}

// Advance moves the position past offsets that hold no record for the
// application. It never moves it back.
func (w *Window) Advance(position int64) { w.position = max(w.position, position) }

// Complete marks a delivered record. It reports false when seq is not an
// outstanding one: completed before, or never delivered.
func (w *Window) Complete(seq uint64) bool {
	if seq < w.head || seq >= w.tail {
		return false
	}
	word, bit := w.bit(seq)
	if w.done[word]&bit != 0 {
		return false
	}
	w.done[word] |= bit
	w.completed++
	for w.head < w.tail {
		word, bit = w.bit(w.head)
		if w.done[word]&bit == 0 {
			break
		}
		w.done[word] &^= bit
		w.epoch = w.epochs[w.slot(w.head)]
		w.head++
		w.completed--
	}
	return true
}

// Next is the committable offset.
func (w *Window) Next() int64 {
	if w.head == w.tail {
		return w.position
	}
	return w.offsets[w.slot(w.head)]
}

// NextEpoch is the leader epoch of the last completed record before Next, -1
// when unknown: what a commit carries (KIP-320).
func (w *Window) NextEpoch() int32 { return w.epoch }

// Position is the next offset that can be delivered.
func (w *Window) Position() int64 { return w.position }

// Len counts records from the first unfinished one to the last delivered one.
func (w *Window) Len() int { return int(w.tail - w.head) }

// Completed counts the completed records above Next.
func (w *Window) Completed() int { return w.completed }

// Head returns the sequence number of the first unfinished record.
func (w *Window) Head() (seq uint64, ok bool) { return w.head, w.head < w.tail }

// EachCompleted calls fn with the offset of every completed record above Next,
// in delivery order.
func (w *Window) EachCompleted(fn func(offset int64)) {
	for seq := w.head; seq < w.tail; {
		word, _ := w.bit(seq)
		rest := w.done[word] >> (seq & 63)
		if rest == 0 {
			seq = seq&^63 + 64
			continue
		}
		seq += uint64(bits.TrailingZeros64(rest))
		if seq >= w.tail {
			return // the word wrapped: its upper bits belong to the ring's other end
		}
		fn(w.offsets[w.slot(seq)])
		seq++
	}
}

// EachDelivered calls fn with the offset of every record from the first
// unfinished one on, in delivery order.
func (w *Window) EachDelivered(fn func(offset int64, completed bool)) {
	for seq := w.head; seq < w.tail; seq++ {
		word, bit := w.bit(seq)
		fn(w.offsets[w.slot(seq)], w.done[word]&bit != 0)
	}
}

func (w *Window) slot(seq uint64) int { return int(seq & uint64(len(w.offsets)-1)) }

func (w *Window) bit(seq uint64) (word int, bit uint64) {
	slot := w.slot(seq)
	return slot / 64, 1 << (slot % 64)
}

// grow doubles the ring. Slots are copied by sequence number, because a record's
// slot depends on the length.
func (w *Window) grow() {
	old := *w
	n := 2 * len(old.offsets)
	w.offsets, w.epochs, w.done = make([]int64, n), make([]int32, n), make([]uint64, n/64)
	for seq := w.head; seq < w.tail; seq++ {
		from, to := old.slot(seq), w.slot(seq)
		w.offsets[to], w.epochs[to] = old.offsets[from], old.epochs[from]
		if old.done[from/64]&(1<<(from%64)) != 0 {
			w.done[to/64] |= 1 << (to % 64)
		}
	}
}
