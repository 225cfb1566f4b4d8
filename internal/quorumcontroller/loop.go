package quorumcontroller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/controller"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// Events beside quorum.Committed and quorum.Leadership.
type (
	snapshotLoaded struct{}
	imageLoaded    struct {
		epoch int32
		im    *image.Image
		err   error
	}
)

const (
	// maxMoves bounds how often a command is run again because a probe took
	// its offset.
	maxMoves = 100
	// retryMs is the wait after a timer's records could not be proposed, and
	// the least time between two runs of the core's timer.
	retryMs = 20
	// minISRKey is the config that ELR needs on the cluster level.
	minISRKey = "min.insync.replicas"
)

// loop is the state of the event loop's goroutine.
type loop struct {
	core   *controller.Core // nil unless active
	epoch  int32
	cancel context.CancelFunc // of the wait for the image; nil when none runs

	committed   int64 // last committed offset of this epoch
	proposed    int64 // last offset proposed in this epoch
	waiting     []waiter
	inTxn       bool  // the committed log ends inside a transaction
	lastWriteMs int64 // when records were last proposed
	nextTimerMs int64 // not before this
}

// waiter is a command whose records are proposed. Waiters are in offset order.
type waiter struct {
	offset int64
	finish func(error)
}

func (s *Shell) run() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		events, commands, closed := s.take()
		if closed {
			s.renounce()
			for _, c := range commands {
				c.finish(errNotController())
			}
			return
		}
		for _, e := range events {
			s.handle(e)
		}
		for _, c := range commands {
			s.runCommand(c)
		}
		if len(events)+len(commands) > 0 {
			continue
		}
		timer.Reset(s.runTimers())
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// take removes what is queued. Commands stay while the image is loaded.
func (s *Shell) take() (events []any, commands []*command, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, s.events = s.events, nil
	if len(events) == 0 && (s.loop.cancel == nil || s.closed) {
		commands, s.commands = s.commands, nil
	}
	return events, commands, s.closed
}

func (s *Shell) handle(event any) {
	switch e := event.(type) {
	case quorum.Committed:
		s.handleCommitted(e)
	case quorum.Leadership:
		s.renounce()
		if e.IsSelf {
			s.claim(e)
		}
	case imageLoaded:
		s.activate(e)
	case snapshotLoaded:
		s.loop.inTxn = false
	}
}

func (s *Shell) handleCommitted(c quorum.Committed) {
	l := &s.loop
	for _, b := range c.Batches {
		for _, r := range b.Records {
			switch r.(type) {
			case *recordschema.BeginTransactionRecord:
				l.inTxn = true
			case *recordschema.EndTransactionRecord, *recordschema.AbortTransactionRecord:
				l.inTxn = false
			}
		}
		if l.core != nil && b.Epoch == l.epoch {
			l.committed = b.LastOffset
		}
	}
	n := 0
	for n < len(l.waiting) && l.waiting[n].offset <= l.committed {
		l.waiting[n].finish(nil)
		n++
	}
	l.waiting = l.waiting[n:]
	if len(l.waiting) == 0 {
		l.waiting = nil
	}
}

// claim begins the wait for the image of everything before this epoch.
func (s *Shell) claim(lead quorum.Leadership) {
	ctx, cancel := context.WithCancel(context.Background())
	s.loop.cancel, s.loop.epoch = cancel, lead.Epoch
	s.loop.committed, s.loop.proposed = lead.StartOffset-1, lead.StartOffset-1
	go func() {
		im, err := s.opts.AwaitImage(ctx, lead.StartOffset-1)
		s.push(imageLoaded{lead.Epoch, im, err})
	}()
}

// activate makes the core and writes what the log needs first
// (ActivationRecordsGenerator).
func (s *Shell) activate(e imageLoaded) {
	l := &s.loop
	if l.cancel == nil || e.epoch != l.epoch {
		return // of an earlier leadership
	}
	l.cancel()
	l.cancel = nil
	if e.err != nil {
		s.log.Error("the controller cannot load the metadata image", "epoch", e.epoch, "err", e.err)
		return
	}
	now := s.opts.NowMs()
	l.core = controller.New(e.im, s.opts.Core, now)
	l.lastWriteMs, l.nextTimerMs = now, now
	records := activationRecords(e.im, l.inTxn, s.opts.Bootstrap, s.minISR())
	if len(records) > 0 {
		if err := s.internal("activate", func(*controller.Core, Input) ([]recordschema.MetadataRecord, bool) { return records, false }); err != nil {
			s.log.Error("the controller cannot write its first records", "epoch", e.epoch, "err", err)
			s.renounce()
			return
		}
	}
	s.setActive(e.epoch)
	s.log.Info("active controller", "epoch", e.epoch, "offset", e.im.Offset, "firstRecords", len(records))
}

// minISR is the static min.insync.replicas of this node.
func (s *Shell) minISR() string {
	if c := s.opts.Core.Configs; c != nil {
		if v := c.Default(image.ResourceBroker, minISRKey); v != "" {
			return v
		}
	}
	return "1"
}

// activationRecords are what a new leader writes before anything else. An
// empty log gets the bootstrap records; with ELR they set min.insync.replicas
// for the cluster, which must then always be there.
func activationRecords(im *image.Image, inTxn bool, bootstrap []recordschema.MetadataRecord, minISR string) []recordschema.MetadataRecord {
	var out []recordschema.MetadataRecord
	if inTxn {
		reason := "Controller failover"
		out = append(out, &recordschema.AbortTransactionRecord{Reason: &reason})
	}
	if im.Features.Has(image.FeatureMetadataVersion) || len(bootstrap) == 0 {
		return out
	}
	return append(out, transaction("Bootstrap records", withMinISR(bootstrap, minISR))...)
}

func withMinISR(bootstrap []recordschema.MetadataRecord, minISR string) []recordschema.MetadataRecord {
	elr := false
	for _, r := range bootstrap {
		switch r := r.(type) {
		case *recordschema.BeginTransactionRecord:
			return bootstrap // complete already
		case *recordschema.FeatureLevelRecord:
			elr = elr || r.Name == image.FeatureEligibleLeaderReplicas && r.FeatureLevel > 0
		}
	}
	if !elr {
		return bootstrap
	}
	return append(slices.Clone(bootstrap), &recordschema.ConfigRecord{
		ResourceType: int8(image.ResourceBroker), Name: minISRKey, Value: &minISR,
	})
}

// transaction puts records between BeginTransaction and EndTransaction.
func transaction(name string, records []recordschema.MetadataRecord) []recordschema.MetadataRecord {
	if _, ok := records[0].(*recordschema.BeginTransactionRecord); ok {
		return records
	}
	out := make([]recordschema.MetadataRecord, 0, len(records)+2)
	out = append(out, &recordschema.BeginTransactionRecord{Name: &name})
	out = append(out, records...)
	return append(out, &recordschema.EndTransactionRecord{})
}

// renounce gives up: what waits is answered, the core is dropped.
func (s *Shell) renounce() {
	l := &s.loop
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
	if l.core != nil {
		s.log.Info("no longer the active controller", "epoch", l.epoch, "waiting", len(l.waiting))
	}
	l.core = nil
	s.setActive(-1)
	for _, w := range l.waiting {
		w.finish(errNotController())
	}
	l.waiting = nil
}

// runCommand runs one command of Submit and parks or answers it.
func (s *Shell) runCommand(c *command) {
	l := &s.loop
	if l.core == nil {
		c.finish(errNotController())
		return
	}
	err := s.internal(c.name, c.run)
	switch {
	case err != nil:
		c.finish(err)
	case l.proposed <= l.committed:
		c.finish(nil)
	default:
		l.waiting = append(l.waiting, waiter{l.proposed, c.finish})
	}
}

// internal runs a command, proposes its records and replays them.
func (s *Shell) internal(name string, run func(*controller.Core, Input) ([]recordschema.MetadataRecord, bool)) error {
	l := &s.loop
	for range maxMoves {
		next, epoch, err := s.opts.Log.NextOffset()
		if err != nil || epoch != l.epoch {
			return errNotController()
		}
		now := s.opts.NowMs()
		records, err := s.protect(name, run, Input{NowMs: now, NextOffset: next, Epoch: epoch})
		if err != nil || len(records) == 0 {
			return err
		}
		err = s.opts.Log.ProposeAt(next, records)
		if errors.Is(err, quorum.ErrOffsetMoved) {
			continue
		}
		if err != nil {
			return proposeError(name, err)
		}
		l.proposed, l.lastWriteMs = next+int64(len(records))-1, now
		return s.replay(name, records, next)
	}
	return kerrors.New(kerrors.RequestTimedOut, "%s: other records kept taking its offset", name)
}

func proposeError(name string, err error) error {
	switch {
	case errors.Is(err, quorum.ErrBusy):
		return kerrors.Wrap(kerrors.RequestTimedOut, err, "%s", name)
	case errors.Is(err, quorum.ErrTooLarge):
		return kerrors.Wrap(kerrors.UnknownServerError, err, "%s: a record is too large for the metadata log", name)
	}
	return errNotController()
}

// protect runs a command; a panic in it fails the command, not the controller.
func (s *Shell) protect(name string, run func(*controller.Core, Input) ([]recordschema.MetadataRecord, bool), in Input) (records []recordschema.MetadataRecord, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("controller command panicked", "command", name, "panic", p, "stack", string(debug.Stack()))
			records, err = nil, kerrors.New(kerrors.UnknownServerError, "%s failed in the controller, see its log", name)
		}
	}()
	records, atomic := run(s.loop.core, in)
	if atomic && !quorum.FitsBatch(records) {
		records = transaction(name, records)
	}
	return records, nil
}

// replay applies the core's own records. A refusal is a bug: the core would
// differ from the log, so the controller is given up.
func (s *Shell) replay(name string, records []recordschema.MetadataRecord, base int64) error {
	for i, r := range records {
		if err := s.loop.core.Replay(r, base+int64(i)); err != nil {
			err = fmt.Errorf("controller: replay record %d of %s at offset %d: %w", i, name, base+int64(i), err)
			s.log.Error("the controller refused its own records", "err", err)
			s.renounce()
			s.opts.OnFatal(err)
			return errNotController()
		}
	}
	return nil
}

// runTimers runs what is due and returns how long nothing will be.
func (s *Shell) runTimers() time.Duration {
	l := &s.loop
	if l.core == nil {
		return time.Hour
	}
	now := s.opts.NowMs()
	if due, ok := s.timerDue(); ok && due <= now {
		err := s.internal("timer", func(c *controller.Core, in Input) ([]recordschema.MetadataRecord, bool) {
			r := c.Tick(in.NowMs)
			return r.Records, r.Atomic
		})
		if err != nil {
			s.log.Warn("the controller's timer failed, it is tried again", "err", err)
		}
		l.nextTimerMs = now + retryMs
	}
	if idle := s.opts.MaxIdleIntervalMs; idle > 0 && l.core != nil && now-l.lastWriteMs >= idle {
		l.lastWriteMs = now // also when it fails: no busy loop
		err := s.internal("no-op", func(*controller.Core, Input) ([]recordschema.MetadataRecord, bool) {
			return []recordschema.MetadataRecord{&recordschema.NoOpRecord{}}, false
		})
		if err != nil {
			s.log.Debug("no-op not written", "err", err)
		}
	}
	return time.Duration(s.nextDue(now)-now) * time.Millisecond
}

// timerDue is when the core's timer should run next.
func (s *Shell) timerDue() (int64, bool) {
	if s.loop.core == nil {
		return 0, false
	}
	due := s.loop.core.NextTickMs()
	if due < 0 {
		return 0, false
	}
	return max(due, s.loop.nextTimerMs), true
}

func (s *Shell) nextDue(now int64) int64 {
	const never = int64(time.Hour / time.Millisecond)
	next := now + never
	if due, ok := s.timerDue(); ok {
		next = min(next, due)
	}
	if idle := s.opts.MaxIdleIntervalMs; idle > 0 && s.loop.core != nil {
		next = min(next, s.loop.lastWriteMs+idle)
	}
	return max(next, now+1)
}
