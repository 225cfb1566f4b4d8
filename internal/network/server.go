package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/telemetry"
)

// maxSizeHint bounds the buffer an answer starts with.
const maxSizeHint = 1 << 20

// Server accepts connections on its listeners and feeds a Handler.
type Server struct {
	opts      Options
	handler   Handler
	log       *slog.Logger
	started   time.Time
	pool      pool
	memory    memory
	quota     *quota
	sendfiles chan struct{} // a slot for each sendfile call that runs
	hints     [128]atomic.Int32
	nextID    atomic.Uint64
	inFlight  atomic.Int64
	respBytes atomic.Int64 // encoded answers not written yet, of all connections
	warnings  logLimiter

	ctx        context.Context // of every Handle
	cancel     context.CancelFunc
	acceptCtx  context.Context
	stopAccept context.CancelFunc
	wg         sync.WaitGroup // accept loops, reader and writer goroutines

	mu      sync.Mutex
	bound   []*boundListener
	conns   map[*Conn]struct{}
	serving bool
	stopped bool          // no connection is added any more
	empty   chan struct{} // closed when stopped and conns is empty
}

// NewServer checks o and returns a server that does not listen yet.
func NewServer(o Options, h Handler) (*Server, error) {
	if h == nil {
		return nil, errors.New("network: no handler")
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, handler: h, log: o.Logger, started: time.Now(),
		memory: newMemory(o.RequestMemoryBytes), quota: newQuota(o.Limits),
		sendfiles: make(chan struct{}, o.MaxSendfiles), conns: map[*Conn]struct{}{}, empty: make(chan struct{}),
	}
	s.pool.poison = o.PoisonFreed
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.acceptCtx, s.stopAccept = context.WithCancel(s.ctx)
	return s, nil
}

// complete fills the defaults and refuses what cannot work.
func (o *Options) complete() error {
	seen := map[string]bool{}
	for _, l := range o.Listeners {
		if seen[l.Name] {
			return fmt.Errorf("network: listener %q is given twice", l.Name)
		}
		seen[l.Name] = true
	}
	for _, d := range []struct {
		v    *int
		dflt int
		name string
	}{
		{&o.MaxRequestBytes, DefaultMaxRequestBytes, "MaxRequestBytes"},
		{&o.ConnRequestBytes, DefaultConnRequestBytes, "ConnRequestBytes"},
		{&o.ConnResponseBytes, DefaultConnResponseBytes, "ConnResponseBytes"},
		{&o.MaxInFlight, DefaultMaxInFlight, "MaxInFlight"},
		{&o.MinBytesPerSecond, DefaultMinBytesPerSecond, "MinBytesPerSecond"},
		{&o.MaxSendfiles, 64, "MaxSendfiles"},
	} {
		if *d.v < 0 {
			return fmt.Errorf("network: %s is %d; it must be positive", d.name, *d.v)
		}
		if *d.v == 0 {
			*d.v = d.dflt
		}
	}
	for _, d := range []struct{ v, dflt *time.Duration }{
		{&o.MaxIdle, ptr(DefaultMaxIdle)}, {&o.Handshake, ptr(DefaultHandshake)},
		{&o.Stall, ptr(DefaultStall)}, {&o.WriteTimeout, ptr(DefaultWriteTimeout)},
	} {
		if *d.v <= 0 {
			*d.v = *d.dflt
		}
	}
	if o.RequestMemoryBytes <= 0 {
		o.RequestMemoryBytes = DefaultRequestMemoryBytes
	}
	if o.ResponseMemoryBytes <= 0 {
		o.ResponseMemoryBytes = DefaultResponseMemoryBytes
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}

func ptr(d time.Duration) *time.Duration { return &d }

// SetLimits changes the accept caps; connections that exist stay.
func (s *Server) SetLimits(l Limits) { s.quota.setLimits(l) }

// Drain stops accepting and reading, lets requests in flight be answered, closes
// each connection behind its last response, and waits. When ctx ends first, the
// rest is closed as by Close and ctx's error returned.
func (s *Server) Drain(ctx context.Context) error {
	for _, c := range s.stop() {
		c.stopReading(ReasonDrained, nil)
	}
	select {
	case <-s.empty:
		return s.Close()
	case <-ctx.Done():
		s.Close()
		return fmt.Errorf("drain connections: %w", ctx.Err())
	}
}

// Close ends listeners and connections at once and waits for their goroutines:
// for handlers too that have not returned, whose context ends, but not for
// answers they still owe.
func (s *Server) Close() error {
	conns := s.stop()
	s.cancel()
	for _, c := range conns {
		c.die(ReasonShutdown, nil)
	}
	s.wg.Wait()
	return nil
}

// stop ends accepting and returns the connections there are.
func (s *Server) stop() []*Conn {
	s.stopAccept()
	s.quota.stop()
	s.closeListeners()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		s.checkEmpty()
	}
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// checkEmpty closes empty when the last connection is gone. mu is held.
func (s *Server) checkEmpty() {
	if s.stopped && len(s.conns) == 0 {
		select {
		case <-s.empty:
		default:
			close(s.empty)
		}
	}
}

// forget is the last thing a connection's reader goroutine does.
func (s *Server) forget(c *Conn) {
	c.mu.Lock()
	reason, err := c.reason, c.reasonErr
	c.mu.Unlock()
	s.quota.leave(c.listener, c.remote.Addr())
	s.mu.Lock()
	delete(s.conns, c)
	s.checkEmpty()
	s.mu.Unlock()
	s.opts.Observer.ConnClosed(c.listener, string(reason), true)
	if reason.routine() {
		s.log.Debug("connection ended", "reason", reason, "err", err, "remote", c.remote, "conn", c.id)
		return
	}
	s.warn("connection closed", "reason", reason, "err", err, "remote", c.remote, "listener", c.listener, "conn", c.id)
}

// panicked reports a panic that costs one connection.
func (s *Server) panicked(where string, c *Conn, p any, stack []byte) {
	s.opts.Observer.Panicked(where)
	s.log.Error("panic; the connection is closed", "where", where, "panic", p,
		"remote", c.remote, "conn", c.id, "stack", string(stack))
}

// warn logs what a client brought on itself, so many lines a second at most.
func (s *Server) warn(msg string, args ...any) {
	suppressed, ok := s.warnings.allow(time.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		args = append(args, "suppressed_before", suppressed)
	}
	s.log.Warn(msg, args...)
}

// sizeHint is the size that answers of an API had lately.
func (s *Server) sizeHint(key int16) *atomic.Int32 {
	if key < 0 || int(key) >= len(s.hints) {
		return &s.hints[len(s.hints)-1]
	}
	return &s.hints[key]
}

// Stats returns the sizes at this moment (see telemetry.Registry.CollectSockets).
func (s *Server) Stats() telemetry.SocketStats {
	used, waiting := s.memory.inUse()
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return telemetry.SocketStats{
		Connections: n, RequestsInFlight: int(s.inFlight.Load()),
		RequestMemoryBytes: used, RequestMemoryLimit: s.opts.RequestMemoryBytes, BudgetWaiters: waiting,
	}
}
