package producerstate

import "math"

// WindowBatches is how many batches per producer are kept for duplicate
// answers (ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const WindowBatches = 5

// "None" values, as Kafka writes them to disk.
const (
	NoEpoch     int16 = -1
	NoSequence  int32 = -1
	NoOffset    int64 = -1
	NoTimestamp int64 = -1
)

// BatchMeta is what an entry remembers of one batch.
type BatchMeta struct {
	LastSequence int32
	OffsetDelta  int32 // last offset less first offset
	LastOffset   int64
	TimestampMs  int64
}

// FirstSequence counts back from the last one, wrapping below zero.
func (b BatchMeta) FirstSequence() int32 { return decrementSequence(b.LastSequence, b.OffsetDelta) }

// FirstOffset returns the offset of the batch's first record.
func (b BatchMeta) FirstOffset() int64 { return b.LastOffset - int64(b.OffsetDelta) }

// decrementSequence and inSequence know that 2^31-1 is followed by 0.
func decrementSequence(seq, by int32) int32 {
	if seq < by {
		return math.MaxInt32 - (by - seq) + 1
	}
	return seq - by
}

func inSequence(last, next int32) bool {
	return int64(next) == int64(last)+1 || (next == 0 && last == math.MaxInt32)
}

// Entry is the state of one producer id. It is a value: copying it copies all.
type Entry struct {
	ProducerID            int64
	Epoch                 int16 // NoEpoch before the first append
	CoordinatorEpoch      int32 // of the last marker; -1 before one
	LastTimestampMs       int64 // of the last append or marker; drives expiry
	CurrentTxnFirstOffset int64 // NoOffset when no transaction is open

	batches [WindowBatches]BatchMeta // oldest first
	count   int8
}

func emptyEntry(pid int64) Entry {
	return Entry{ProducerID: pid, Epoch: NoEpoch, CoordinatorEpoch: -1, LastTimestampMs: NoTimestamp, CurrentTxnFirstOffset: NoOffset}
}

// Batches returns a copy of the remembered batches, oldest first.
func (e *Entry) Batches() []BatchMeta { return append([]BatchMeta(nil), e.batches[:e.count]...) }

// InTransaction reports whether a transaction is open.
func (e *Entry) InTransaction() bool { return e.CurrentTxnFirstOffset >= 0 }

// LastSequence returns the newest sequence, or NoSequence.
func (e *Entry) LastSequence() int32 {
	if e.count == 0 {
		return NoSequence
	}
	return e.batches[e.count-1].LastSequence
}

// LastOffset returns the offset of the newest data record, or NoOffset.
func (e *Entry) LastOffset() int64 {
	if e.count == 0 {
		return NoOffset
	}
	return e.batches[e.count-1].LastOffset
}

// duplicateOf finds the remembered batch that b repeats exactly.
func (e *Entry) duplicateOf(b *Batch) (BatchMeta, bool) {
	if b.ProducerEpoch != e.Epoch {
		return BatchMeta{}, false
	}
	for _, m := range e.batches[:e.count] {
		if m.LastSequence == b.LastSequence && m.FirstSequence() == b.BaseSequence {
			return m, true
		}
	}
	return BatchMeta{}, false
}

// setEpoch forgets the batches of another epoch: their sequences mean nothing now.
func (e *Entry) setEpoch(epoch int16) {
	if e.Epoch != epoch {
		e.Epoch, e.count = epoch, 0
	}
}

func (e *Entry) addBatch(epoch int16, m BatchMeta) {
	e.setEpoch(epoch)
	if e.count == WindowBatches {
		copy(e.batches[:], e.batches[1:])
		e.count--
	}
	e.batches[e.count] = m
	e.count++
	e.LastTimestampMs = m.TimestampMs
}
