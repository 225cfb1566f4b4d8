package quorumcontroller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/controller"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// Defaults of Options.
const (
	DefaultQueueSize         = 1000
	DefaultMaxIdleIntervalMs = 500
)

// Options of New.
type Options struct {
	// Log is the quorum node.
	Log quorum.Proposer
	// AwaitImage waits for the committed image that contains offset
	// (loader.AwaitApplied).
	AwaitImage func(ctx context.Context, offset int64) (*image.Image, error)
	// Core are the options of every core that is made.
	Core controller.Options
	// Bootstrap are the records for an empty log, metadata.version first. They
	// are written as one transaction.
	Bootstrap []recordschema.MetadataRecord
	// QueueSize bounds the waiting commands (1000).
	QueueSize int
	// MaxIdleIntervalMs is metadata.max.idle.interval.ms (500): a NoOpRecord is
	// written when nothing else was for so long. -1 writes none.
	MaxIdleIntervalMs int64
	// NowMs is a monotonic clock in milliseconds.
	NowMs func() int64
	// OnFatal is told of a bug: the core refused its own records. The shell has
	// given up the controller then.
	OnFatal func(error)
	Logger  *slog.Logger
}

// Input is what a command may use beside its request.
type Input struct {
	NowMs int64
	// NextOffset is the offset that the first record of the result will get
	// (unless the result needs a transaction round it); a broker epoch is one.
	NextOffset int64
	Epoch      int32
}

// Shell implements quorum.Listener.
type Shell struct {
	opts Options
	log  *slog.Logger

	mu       sync.Mutex
	events   []any // of the listener and of the loop's own helpers, in order
	commands []*command
	closed   bool
	wake     chan struct{}
	epoch    int32 // of the active controller here; -1 none

	done chan struct{}
	loop loop
}

// New returns a shell; give it to the node as a listener and call Start.
func New(o Options) *Shell {
	if o.QueueSize <= 0 {
		o.QueueSize = DefaultQueueSize
	}
	if o.MaxIdleIntervalMs == 0 {
		o.MaxIdleIntervalMs = DefaultMaxIdleIntervalMs
	}
	if o.NowMs == nil {
		start := time.Now()
		o.NowMs = func() int64 { return time.Since(start).Milliseconds() }
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Shell{opts: o, log: o.Logger, wake: make(chan struct{}, 1), epoch: -1, done: make(chan struct{})}
}

// Start begins the event loop. Call it once.
func (s *Shell) Start() { go s.run() }

// Close answers everything with NOT_CONTROLLER and ends the loop. Only after Start.
func (s *Shell) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wakeLoop()
	<-s.done
}

// Active reports whether this shell is the active controller, and its epoch.
func (s *Shell) Active() (epoch int32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch, s.epoch >= 0
}

func (s *Shell) setActive(epoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = epoch
}

func (s *Shell) wakeLoop() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// command is one Submit on its way.
type command struct {
	name string
	// run calls the core; the result's response stays inside.
	run func(c *controller.Core, in Input) (records []recordschema.MetadataRecord, atomic bool)
	// finish ends the wait of Submit; it never blocks.
	finish func(err error)
}

// Submit runs one command on the active controller and returns its response
// when its records are committed. Errors: NOT_CONTROLLER, REQUEST_TIMED_OUT
// (ctx ended or too much waits; the command may still take effect),
// UNKNOWN_SERVER_ERROR (a bug in the command). The command may be called more
// than once and must not keep the core or anything of it.
func Submit[T any](ctx context.Context, s *Shell, name string, do func(c *controller.Core, in Input) controller.Result[T]) (T, error) {
	var response T
	done := make(chan error, 1)
	c := &command{
		name: name,
		run: func(core *controller.Core, in Input) ([]recordschema.MetadataRecord, bool) {
			r := do(core, in)
			response = r.Response
			return r.Records, r.Atomic
		},
		finish: func(err error) { done <- err },
	}
	var zero T
	if err := s.enqueue(c); err != nil {
		return zero, err
	}
	select {
	case err := <-done: // happens after the last write of response
		if err != nil {
			return zero, err
		}
		return response, nil
	case <-ctx.Done():
		return zero, kerrors.Wrap(kerrors.RequestTimedOut, ctx.Err(), "the controller did not finish %s in time", name)
	}
}

func (s *Shell) enqueue(c *command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errNotController()
	}
	if len(s.commands) >= s.opts.QueueSize {
		return kerrors.New(kerrors.RequestTimedOut, "%d commands wait for the controller already", len(s.commands))
	}
	s.commands = append(s.commands, c)
	s.wakeLoop()
	return nil
}

func errNotController() error {
	return kerrors.New(kerrors.NotController, "this node is not the active controller")
}

func (s *Shell) push(event any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
	s.wakeLoop()
}

// OnCommitted implements quorum.Listener.
func (s *Shell) OnCommitted(c quorum.Committed) { s.push(c) }

// OnSnapshot implements quorum.Listener. The loader reads it; here it only
// ends what was known of an open transaction.
func (s *Shell) OnSnapshot(*quorum.SnapshotReader) { s.push(snapshotLoaded{}) }

// OnLeadership implements quorum.Listener.
func (s *Shell) OnLeadership(l quorum.Leadership) { s.push(l) }

var _ quorum.Listener = (*Shell)(nil)
