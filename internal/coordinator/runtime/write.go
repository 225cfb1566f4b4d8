package runtime

import (
	"cmp"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/replica"
)

// recordOverhead bounds what a record costs beside its key and value: its
// length, attributes, time and offset deltas, and three more lengths.
const recordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 1

// batch is records that are applied but not appended yet.
type batch struct {
	base    int64 // offset of its first record
	builder *record.Builder
	bytes   int // upper bound
	started time.Time
	done    []func(error)
}

// write applies the records of one request and puts them into the batch. done
// is called when they are committed, or cannot be. A request without records
// waits for what it may have seen: the open batch, or what is not committed.
func (s *shard[S]) write(records []coordinator.Record, split bool, done func(error)) {
	if len(records) == 0 {
		switch {
		case s.batch != nil:
			s.batch.done = append(s.batch.done, done)
		case s.committed < s.next:
			s.park(s.next, done)
		default:
			done(nil)
		}
		return
	}
	for split {
		n, bytes := 1, sizeOf(records[0])
		for n < len(records) && record.HeaderSize+bytes+sizeOf(records[n]) <= s.maxBatch {
			bytes += sizeOf(records[n])
			n++
		}
		if n == len(records) {
			break
		}
		// The last part answers; that of an earlier one is only remembered.
		var failed error
		last := done
		done = func(err error) { last(cmp.Or(failed, err)) }
		s.writeOne(records[:n], func(err error) { failed = err })
		records = records[n:]
	}
	s.writeOne(records, done)
}

func sizeOf(r coordinator.Record) int { return recordOverhead + len(r.Key) + len(r.Value) }

// writeOne puts records that belong together into one batch.
func (s *shard[S]) writeOne(records []coordinator.Record, done func(error)) {
	bytes := 0
	for _, r := range records {
		bytes += sizeOf(r)
	}
	if record.HeaderSize+bytes > s.maxBatch {
		done(clientError(kerrors.New(kerrors.RecordListTooLarge, "%d bytes of records exceed %d", bytes, s.maxBatch)))
		return
	}
	if s.batch != nil && s.batch.bytes+bytes > s.maxBatch && !s.flush() {
		done(kerrors.NotCoordinator)
		return
	}
	s.apply(records, bytes, done)
}

func (s *shard[S]) apply(records []coordinator.Record, bytes int, done func(error)) {
	if s.batch == nil {
		s.batch = &batch{base: s.next, builder: record.NewBuilder(record.BuilderOptions{}), bytes: record.HeaderSize, started: time.Now()}
	}
	now := s.r.opts.NowMs()
	for _, r := range records {
		if err := s.core.Replay(s.next, -1, r.Key, r.Value); err != nil {
			// A core that cannot read what it wrote is broken: start it over.
			panic(err)
		}
		s.batch.builder.Append(now, r.Key, r.Value)
		s.next++
	}
	s.batch.bytes += bytes
	s.batch.done = append(s.batch.done, done)
}

// lingerOrFlush appends the batch unless a fixed linger still runs.
func (s *shard[S]) lingerOrFlush() {
	if s.batch == nil {
		return
	}
	if ms := s.r.opts.LingerMs; ms > 0 {
		if left := time.Duration(ms)*time.Millisecond - time.Since(s.batch.started); left > 0 {
			s.wakeIn(left)
			return
		}
	}
	s.flush()
}

// flush appends the batch and parks its requests until it is committed. When
// the log refuses it, the shard is reverted to before the batch. False says
// that the log does not hold what the shard thinks: it is broken.
func (s *shard[S]) flush() bool {
	b := s.batch
	built, err := b.builder.Build()
	var first, last int64 = -1, -1
	if err == nil {
		first, last, err = s.r.opts.Log.AppendCoordinator(replica.CoordinatorAppend{TP: s.tp, LeaderEpoch: s.epoch, Batch: built})
	}
	if err == nil && first != b.base {
		s.broken = true
		s.failBatch(kerrors.NotCoordinator)
		return false
	}
	if err != nil {
		s.core.Revert(b.base)
		s.next = b.base
		s.broken = first >= 0 // it is in the log all the same: the revert was wrong
		s.failBatch(clientError(err))
		return !s.broken
	}
	s.batch = nil
	for _, done := range b.done {
		s.park(last+1, done)
	}
	return true
}

func (s *shard[S]) failBatch(err error) {
	b := s.batch
	s.batch = nil
	if b == nil {
		return
	}
	for _, done := range b.done {
		done(err)
	}
}

func (s *shard[S]) park(required int64, done func(error)) {
	s.setParked(append(s.parked, parkedWrite{required: required, deadline: time.Now().Add(s.r.opts.WriteTimeout), done: done}))
}

// output handles what the core asks for beside a request.
func (s *shard[S]) output(out coordinator.Output) {
	if len(out.Records) == 0 && len(out.Effects) == 0 {
		return
	}
	if s.dead || s.broken {
		s.deliver(out.Effects, kerrors.NotCoordinator) // nothing can be written any more
		return
	}
	s.write(out.Records, out.NonAtomic, func(err error) { s.deliver(out.Effects, err) })
}

// deliver runs effects whose records are committed, or failed with err.
func (s *shard[S]) deliver(effects []coordinator.Effect, err error) {
	for _, e := range effects {
		s.output(e.Deliver(s.now(), err))
	}
}

// maxTimersPerTurn lets requests in between when very many timers are due.
const maxTimersPerTurn = 10_000

// fireTimers runs the timers that are due; what is left comes with the next turn.
func (s *shard[S]) fireTimers() {
	if s.timed == nil {
		return
	}
	for range maxTimersPerTurn {
		if s.broken {
			return
		}
		out, ok := s.timed.FireTimer(s.now())
		if !ok {
			return
		}
		s.output(out)
	}
}
