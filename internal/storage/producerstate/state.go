package producerstate

import (
	"cmp"
	"slices"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
)

// DefaultExpirationMs is Kafka's producer.id.expiration.ms: one day.
const DefaultExpirationMs int64 = 86_400_000

// lateBufferMs is how long after the largest allowed transaction timeout an
// open transaction counts as hanging (LATE_TRANSACTION_BUFFER_MS).
const lateBufferMs = 5 * 60 * 1000

// txn is a transaction that holds the last stable offset back.
type txn struct {
	producerID  int64
	firstOffset int64
	lastOffset  int64 // the marker's; NoOffset while open
}

// State is the producers and transactions of one partition. It is a pure core:
// the same calls in the same order give the same state everywhere.
type State struct {
	producers     map[int64]*Entry
	verifications map[int64]*Verification
	lastGuard     uint64

	update Update // the one append in preparation; reused, so that an append allocates nothing

	ongoing      []txn // open, by first offset
	unreplicated []txn // marker written, but above the high watermark; by first offset

	endOffset int64 // the state covers the log up to here, exclusive
}

// NewState returns the state of an empty log.
func NewState() *State {
	return &State{producers: map[int64]*Entry{}, verifications: map[int64]*Verification{}}
}

// Update gathers the effects of the batches of one append, so that all of them
// are checked before any byte is written. Take one from Prepare; it is valid
// until the next Prepare of the same State.
type Update struct {
	state   *State
	origin  record.Origin
	entries []Entry // working copies, one per producer touched
	started []txn
	done    []CompletedTxn
}

// Prepare begins an append. The state does not change before Commit; an
// Update that is not committed is simply dropped.
func (s *State) Prepare(origin record.Origin) *Update {
	u := &s.update
	u.state, u.origin = s, origin
	u.entries, u.started, u.done = u.entries[:0], u.started[:0], nil
	return u
}

// Add checks the next batch of the append against the state and the batches
// added before it. Batches without a producer id pass. A Duplicate verdict
// (OriginClient only) adds nothing: the caller drops the append. Errors carry
// OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or
// TRANSACTION_COORDINATOR_FENCED; after one the Update must be dropped.
func (u *Update) Add(b Batch) (Verdict, error) {
	if b.ProducerID < 0 {
		return Verdict{}, nil
	}
	if u.origin == record.OriginClient && !b.Control {
		// The search comes before every other check: a retry from before an
		// epoch or state change still deserves its offsets.
		if d, ok := u.duplicateOf(&b); ok {
			return Verdict{Duplicate: true, FirstOffset: d.FirstOffset(), LastOffset: d.LastOffset, TimestampMs: d.TimestampMs}, nil
		}
	}
	if b.Control {
		return Verdict{}, u.addMarker(&b)
	}
	started, err := applyData(u.working(b.ProducerID), &b, u.origin, u.state.verifications[b.ProducerID])
	if err != nil {
		return Verdict{}, err
	}
	if started {
		u.started = append(u.started, txn{producerID: b.ProducerID, firstOffset: b.BaseOffset, lastOffset: NoOffset})
	}
	return Verdict{}, nil
}

func (u *Update) addMarker(b *Batch) error {
	if b.Marker == nil {
		return nil
	}
	done, ok, err := applyMarker(u.working(b.ProducerID), b, u.origin)
	if err == nil && ok {
		u.done = append(u.done, done)
	}
	return err
}

func (u *Update) duplicateOf(b *Batch) (BatchMeta, bool) {
	if i := u.find(b.ProducerID); i >= 0 {
		return u.entries[i].duplicateOf(b)
	}
	if e, ok := u.state.producers[b.ProducerID]; ok {
		return e.duplicateOf(b)
	}
	return BatchMeta{}, false
}

func (u *Update) find(pid int64) int {
	return slices.IndexFunc(u.entries, func(e Entry) bool { return e.ProducerID == pid })
}

// working returns the copy of a producer's entry that this append may change.
func (u *Update) working(pid int64) *Entry {
	i := u.find(pid)
	if i < 0 {
		i = len(u.entries)
		if e, ok := u.state.producers[pid]; ok {
			u.entries = append(u.entries, *e)
		} else {
			u.entries = append(u.entries, emptyEntry(pid))
		}
	}
	return &u.entries[i]
}

// Commit makes the update's effects the state. It returns the transactions
// that ended, in log order; the caller adds the aborted ones to the
// transaction index (Aborted) and then calls CompleteTxn for each.
func (s *State) Commit(u *Update) []CompletedTxn {
	for i := range u.entries {
		e := &u.entries[i]
		have, ok := s.producers[e.ProducerID]
		if !ok {
			have = new(Entry)
			s.producers[e.ProducerID] = have
		}
		*have = *e
	}
	for _, t := range u.started {
		s.ongoing = insertTxn(s.ongoing, t)
	}
	return u.done
}

// Check says what one batch would meet, without changing anything, not even an
// Update in preparation.
func (s *State) Check(b Batch, origin record.Origin) (Verdict, error) {
	u := Update{state: s, origin: origin}
	return u.Add(b)
}

// Apply is Prepare, Add and Commit for one batch, for replay from the log.
func (s *State) Apply(b Batch, origin record.Origin) (Verdict, []CompletedTxn, error) {
	u := s.Prepare(origin)
	v, err := u.Add(b)
	if err != nil || v.Duplicate {
		return v, nil, err
	}
	return v, s.Commit(u), nil
}

func insertTxn(l []txn, t txn) []txn {
	i, found := slices.BinarySearchFunc(l, t.firstOffset, func(x txn, off int64) int { return cmp.Compare(x.firstOffset, off) })
	if found {
		l[i] = t
		return l
	}
	return slices.Insert(l, i, t)
}

// Aborted returns the transaction index entry for c, if it aborted. Its last
// stable offset is the first offset of the oldest transaction of another
// producer that is still open, or the one after the marker.
func (s *State) Aborted(c CompletedTxn) (AbortedTxn, bool) {
	if !c.Aborted {
		return AbortedTxn{}, false
	}
	lso := c.LastOffset + 1
	for _, t := range s.ongoing {
		if t.producerID != c.ProducerID {
			lso = t.firstOffset
			break
		}
	}
	return AbortedTxn{ProducerID: c.ProducerID, FirstOffset: c.FirstOffset, LastOffset: c.LastOffset, LastStableOffset: lso}, true
}

// CompleteTxn closes a transaction. It goes on holding the first unstable
// offset back until the high watermark passes its marker.
func (s *State) CompleteTxn(c CompletedTxn) error {
	for i, t := range s.ongoing {
		if t.firstOffset == c.FirstOffset {
			s.ongoing = slices.Delete(s.ongoing, i, i+1)
			t.lastOffset = c.LastOffset
			s.unreplicated = insertTxn(s.unreplicated, t)
			return nil
		}
	}
	return kerrors.New(kerrors.InvalidTxnState, "producer %d ends a transaction at offset %d that was not begun", c.ProducerID, c.FirstOffset)
}

// FirstUnstableOffset returns the offset of the first record whose transaction
// is open, or ended above the high watermark. The last stable offset is that,
// or the high watermark when there is none.
func (s *State) FirstUnstableOffset() (int64, bool) {
	first, ok := s.FirstUndecidedOffset()
	if len(s.unreplicated) > 0 && (!ok || s.unreplicated[0].firstOffset < first) {
		return s.unreplicated[0].firstOffset, true
	}
	return first, ok
}

// FirstUndecidedOffset returns the first offset of the oldest open transaction.
func (s *State) FirstUndecidedOffset() (int64, bool) {
	if len(s.ongoing) == 0 {
		return NoOffset, false
	}
	return s.ongoing[0].firstOffset, true
}

// OnHighWatermark forgets the ended transactions whose markers lie below hw.
func (s *State) OnHighWatermark(hw int64) {
	if len(s.unreplicated) == 0 {
		return
	}
	s.unreplicated = slices.DeleteFunc(s.unreplicated, func(t txn) bool { return t.lastOffset != NoOffset && t.lastOffset < hw })
}

// HasLateTransaction reports whether the oldest open transaction saw no write
// for longer than the largest transaction timeout plus five minutes: its
// coordinator has probably forgotten it, and it holds the LSO back.
func (s *State) HasLateTransaction(nowMs int64, maxTransactionTimeoutMs int32) bool {
	if len(s.ongoing) == 0 {
		return false
	}
	e, ok := s.producers[s.ongoing[0].producerID]
	return ok && e.LastTimestampMs > 0 && nowMs-e.LastTimestampMs > int64(maxTransactionTimeoutMs)+lateBufferMs
}

// EndOffset returns the offset up to which (exclusive) the state covers the log.
func (s *State) EndOffset() int64 { return s.endOffset }

// SetEndOffset says that everything below offset is in the state, also batches
// without a producer id.
func (s *State) SetEndOffset(offset int64) { s.endOffset = offset }

// Entry returns a copy of a producer's entry.
func (s *State) Entry(pid int64) (Entry, bool) {
	if e, ok := s.producers[pid]; ok {
		return *e, true
	}
	return Entry{}, false
}

// InTransaction reports whether a producer has a transaction open at epoch.
func (s *State) InTransaction(pid int64, epoch int16) bool {
	e, ok := s.producers[pid]
	return ok && e.Epoch == epoch && e.InTransaction()
}

// Entries returns a copy of all entries, by producer id.
func (s *State) Entries() []Entry {
	out := make([]Entry, 0, len(s.producers))
	for _, e := range s.producers {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return out
}

// Len returns the number of producers.
func (s *State) Len() int { return len(s.producers) }

// Empty reports whether nothing is remembered that a truncation could change.
func (s *State) Empty() bool { return len(s.producers) == 0 && len(s.unreplicated) == 0 }

// RemoveExpired forgets producers without an open transaction that wrote
// nothing for expirationMs (producer.id.expiration.ms), and verifications that
// were never answered. It returns how many producers went.
func (s *State) RemoveExpired(nowMs, expirationMs int64) int {
	n := 0
	for pid, e := range s.producers {
		if expired(e, nowMs, expirationMs) {
			delete(s.producers, pid)
			n++
		}
	}
	for pid, v := range s.verifications {
		if nowMs-v.TimestampMs >= expirationMs {
			delete(s.verifications, pid)
		}
	}
	return n
}

func expired(e *Entry, nowMs, expirationMs int64) bool {
	return !e.InTransaction() && nowMs-e.LastTimestampMs >= expirationMs
}

// load puts an entry from a snapshot into the state.
func (s *State) load(e Entry) {
	s.producers[e.ProducerID] = &e
	if e.InTransaction() {
		s.ongoing = insertTxn(s.ongoing, txn{producerID: e.ProducerID, firstOffset: e.CurrentTxnFirstOffset, lastOffset: NoOffset})
	}
}

// clear forgets producers and transactions; pending verifications stay.
func (s *State) clear() {
	clear(s.producers)
	s.ongoing, s.unreplicated = nil, nil
}
