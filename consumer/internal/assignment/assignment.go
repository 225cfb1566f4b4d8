package assignment

import (
	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/consumer/internal/dispatch"
	"github.com/tidemark-io/tidemark/consumer/internal/pauseset"
	"github.com/tidemark-io/tidemark/consumer/internal/window"
)

// Stage is where an unfinished record is.
type Stage int8

// Stages.
const (
	Queued Stage = iota
	Running
	RetryWait
	Quarantining
	Closed
	stages
)

// String names the stage.
func (s Stage) String() string {
	return [...]string{"queued", "running", "retry", "quarantining", "closed"}[s]
}

// Item is one delivered record that is not closed.
type Item struct {
	Offset     int64
	Key        []byte
	SizeBytes  int64
	Stage      Stage
	Attempts   int // finished attempts
	LastError  string
	Payload    any
	Delivered  int64 // ms
	StageSince int64 // ms

	seq  uint64
	task *dispatch.Task[*Item]
	of   *Assignment
}

// Options make an assignment.
type Options struct {
	// Generation is the runtime's own number of this assignment.
	Generation int64
	// Start is the first offset to be fetched, StartEpoch the leader epoch of the
	// record before it (-1 unknown).
	Start      int64
	StartEpoch int32
	Order      dispatch.Order
	// Restored are records that an earlier owner completed: delivered again, they
	// are complete at once.
	Restored beacon.Set
}

// Assignment is one partition during one assignment.
type Assignment struct {
	Generation int64

	win      *window.Window
	queue    *dispatch.Queue[*Item]
	items    map[uint64]*Item // unfinished, by sequence number
	count    [stages]int
	bytes    int64
	restored beacon.Set
	closed   bool // intake

	// Records delivered, and closed as done or by quarantine.
	delivered, done, quarantined int64
}

// New makes an assignment.
func New(o Options) *Assignment {
	return &Assignment{
		Generation: o.Generation,
		win:        window.New(o.Start, o.StartEpoch),
		queue:      dispatch.New[*Item](o.Order),
		items:      map[uint64]*Item{},
		restored:   o.Restored,
	}
}

// Verdict is what became of a delivered record.
type Verdict int8

// Verdicts of Deliver.
const (
	// Accepted: the record is queued.
	Accepted Verdict = iota
	// Restored: an earlier owner completed it; it is complete.
	Restored
	// Regressed: its offset is below the position; nothing changed. The log was
	// rewritten below us, or the caller delivers twice.
	Regressed
	// Refused: the intake is closed; nothing changed.
	Refused
)

// Deliver adds the next record of the partition. key is kept, payload too.
func (a *Assignment) Deliver(nowMs, offset int64, epoch int32, key []byte, sizeBytes int64, payload any) Verdict {
	if a.closed {
		return Refused
	}
	seq, ok := a.win.Deliver(offset, epoch)
	if !ok {
		return Regressed
	}
	if len(a.restored) > 0 {
		if a.restored.Contains(offset) {
			a.win.Complete(seq)
			a.delivered++
			return Restored
		}
		if offset > a.restored[len(a.restored)-1].Last {
			a.restored = nil // read past it all
		}
	}
	it := &Item{
		Offset: offset, Key: key, SizeBytes: sizeBytes, Payload: payload,
		Delivered: nowMs, StageSince: nowMs, seq: seq, of: a,
	}
	a.items[seq] = it
	a.delivered++
	a.count[Queued]++
	a.bytes += sizeBytes
	a.queue.Push(key, it)
	return Accepted
}

// Advance moves the position past offsets that hold no record.
func (a *Assignment) Advance(position int64) {
	if !a.closed {
		a.win.Advance(position)
	}
}

// Next hands out a record that may run now, nil when there is none.
func (a *Assignment) Next(nowMs int64) *Item {
	if a.closed {
		return nil
	}
	t := a.queue.Next()
	if t == nil {
		return nil
	}
	t.Value.task = t
	a.move(t.Value, Running, nowMs)
	return t.Value
}

// Runnable reports whether Next would hand out a record.
func (a *Assignment) Runnable() bool { return !a.closed && a.queue.Runnable() }

// Close marks an item done, or quarantined and acknowledged. It reports false,
// and nothing changes, when the item is of another assignment or closed already.
func (a *Assignment) Close(it *Item, nowMs int64) bool {
	if !a.owns(it) {
		return false
	}
	if it.Stage == Quarantining {
		a.quarantined++
	} else {
		a.done++
	}
	a.move(it, Closed, nowMs)
	a.count[Closed] = 0
	a.bytes -= it.SizeBytes
	delete(a.items, it.seq)
	a.win.Complete(it.seq)
	a.queue.Done(it.task)
	return true
}

// Wait puts an item that ran into retry-wait. Its lane stays held.
func (a *Assignment) Wait(it *Item, nowMs int64, reason string) bool {
	if !a.owns(it) {
		return false
	}
	it.LastError = reason
	a.move(it, RetryWait, nowMs)
	return true
}

// Due brings an item back from retry-wait.
func (a *Assignment) Due(it *Item, nowMs int64) bool {
	if !a.owns(it) || it.Stage != RetryWait {
		return false
	}
	a.move(it, Queued, nowMs)
	a.queue.Again(it.task)
	return true
}

// Quarantine notes that the item's quarantine append is under way.
func (a *Assignment) Quarantine(it *Item, nowMs int64) bool {
	if !a.owns(it) {
		return false
	}
	a.move(it, Quarantining, nowMs)
	return true
}

// Owns reports whether the item is an unfinished one of this assignment.
func (a *Assignment) Owns(it *Item) bool { return a.owns(it) }

func (a *Assignment) owns(it *Item) bool { return it.of == a && it.Stage != Closed }

func (a *Assignment) move(it *Item, to Stage, nowMs int64) {
	a.count[it.Stage]--
	a.count[to]++
	it.Stage, it.StageSince = to, nowMs
}

// CloseIntake refuses new records and hands out no more: the partition is being
// given away.
func (a *Assignment) CloseIntake() { a.closed = true }

// IntakeClosed reports whether CloseIntake was called.
func (a *Assignment) IntakeClosed() bool { return a.closed }

// Busy counts records that a handler or a quarantine append holds: what a revoke
// waits for. Records in a queue or in retry-wait are not waited for.
func (a *Assignment) Busy() int { return a.count[Running] + a.count[Quarantining] }

// Count returns how many records are in a stage.
func (a *Assignment) Count(s Stage) int { return a.count[s] }

// Unfinished counts delivered records that are not closed.
func (a *Assignment) Unfinished() int { return len(a.items) }

// Load is what counts against the bounds.
func (a *Assignment) Load() pauseset.Load {
	return pauseset.Load{Records: len(a.items), Bytes: a.bytes, Window: a.win.Len()}
}

// Effect is the first delivered offset that is not closed, else the position: the
// only offset that may be committed.
func (a *Assignment) Effect() int64 { return a.win.Next() }

// EffectEpoch is the leader epoch that a commit of Effect carries.
func (a *Assignment) EffectEpoch() int32 { return a.win.NextEpoch() }

// Position is the next offset to be fetched.
func (a *Assignment) Position() int64 { return a.win.Position() }

// CompletedAhead counts completed records above Effect.
func (a *Assignment) CompletedAhead() int { return a.win.Completed() }

// Quarantined counts records closed by quarantine.
func (a *Assignment) Quarantined() int64 { return a.quarantined }

// Oldest returns the record that holds Effect, nil when everything is closed.
func (a *Assignment) Oldest() *Item {
	seq, ok := a.win.Head()
	if !ok {
		return nil
	}
	return a.items[seq]
}

// Each calls fn for every unfinished record, in no order.
func (a *Assignment) Each(fn func(*Item)) {
	for _, it := range a.items {
		fn(it)
	}
}

// PoisonHead reports whether the first unfinished record is what holds the
// partition up: the window is more than 90 % full and more than 98 % of it is
// completed. Many unfinished records mean that the downstream is sick, and then
// no single record is to blame (the test of uForwarder).
func (a *Assignment) PoisonHead(windowLimit int) bool {
	n, done := a.win.Len(), a.win.Completed()
	return windowLimit > 0 && n*10 > windowLimit*9 && done*100 > n*98
}

// CompletedSet lists the completed records above Effect, and what an earlier
// owner completed above the position.
func (a *Assignment) CompletedSet() beacon.Set {
	var s beacon.Set
	a.win.EachCompleted(func(o int64) { s = s.Add(o) })
	for _, r := range a.restored {
		if r.First = max(r.First, a.win.Position()); r.First > r.Last {
			continue
		}
		if n := len(s); n > 0 && s[n-1].Last+1 == r.First {
			s[n-1].Last = r.Last
		} else {
			s = append(s, r)
		}
	}
	return s
}

// StageAges says how long the oldest record of each stage has been in it, 0
// without one.
func (a *Assignment) StageAges(nowMs int64) (ages [stages]int64) {
	for _, it := range a.items {
		ages[it.Stage] = max(ages[it.Stage], nowMs-it.StageSince)
	}
	return ages
}

// EachDelivered calls fn for every delivered offset from Effect on, in order.
func (a *Assignment) EachDelivered(fn func(offset int64, completed bool)) { a.win.EachDelivered(fn) }

// Snapshot returns Effect with everything that belongs to it, read at one moment.
func (a *Assignment) Snapshot(nowMs int64) beacon.Beacon {
	b := beacon.Beacon{
		AtMs: nowMs, Position: a.Position(), Effect: a.Effect(),
		Running: a.count[Running] + a.count[Quarantining], Queued: a.count[Queued], RetryWait: a.count[RetryWait],
		OldestOffset: -1, Delivered: a.delivered, Succeeded: a.done, Quarantined: a.quarantined, Done: a.CompletedSet(),
	}
	ages := a.StageAges(nowMs)
	b.QueuedAgeMs, b.RunningAgeMs, b.RetryAgeMs = ages[Queued], max(ages[Running], ages[Quarantining]), ages[RetryWait]
	if it := a.Oldest(); it != nil {
		b.OldestOffset, b.OldestAgeMs = it.Offset, max(0, nowMs-it.Delivered)
		b.Attempts, b.LastError = it.Attempts, it.LastError
	}
	return b
}
