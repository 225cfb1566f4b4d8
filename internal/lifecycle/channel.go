package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Defaults of ChannelOptions.
const (
	defaultRequestTimeoutMs = 30_000 // controller.quorum.request.timeout is per voter; this is request.timeout.ms
	defaultRetryBackoffMs   = 50     // NodeToControllerRequestThread retries after 50 ms
	defaultMaxInFlight      = 5
	defaultMaxQueued        = 1000
	defaultMaxResponseBytes = 64 << 20
)

// ErrClosed ends requests when the channel was closed.
var ErrClosed = errors.New("lifecycle: channel closed")

// ChannelOptions of NewChannel.
type ChannelOptions struct {
	ClientID string
	// Dial opens a connection; net.Dialer by default.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// RequestTimeoutMs bounds one request on the wire (30000); the connection
	// is given up after it.
	RequestTimeoutMs int
	// RetryBackoffMs is the wait after a failure before the next attempt (50).
	// A new controller address ends it early.
	RetryBackoffMs int
	// MaxInFlight bounds the requests that wait for an answer (5), MaxQueued
	// those that wait at all (1000).
	MaxInFlight int
	MaxQueued   int
	// MaxResponseBytes bounds one response (64 MiB).
	MaxResponseBytes int
	Logger           *slog.Logger
}

func (o *ChannelOptions) fillDefaults() {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&o.RequestTimeoutMs, defaultRequestTimeoutMs)
	def(&o.RetryBackoffMs, defaultRetryBackoffMs)
	def(&o.MaxInFlight, defaultMaxInFlight)
	def(&o.MaxQueued, defaultMaxQueued)
	def(&o.MaxResponseBytes, defaultMaxResponseBytes)
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Sender is a Channel, or a stand-in for it.
type Sender interface {
	Send(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// Channel sends requests to the active controller and finds it again when it
// moves. Safe for concurrent use. mu guards the fields below it; dialMu lets
// one goroutine at a time connect and is taken first.
type Channel struct {
	opts ChannelOptions

	dialMu sync.Mutex
	mu     sync.Mutex
	addr   string
	conn   *conn
	queued int
	closed bool
	moved  chan struct{} // closed and replaced when addr changes or the channel closes
}

var _ Sender = (*Channel)(nil)

// NewChannel returns a channel that waits for SetController.
func NewChannel(o ChannelOptions) *Channel {
	o.fillDefaults()
	return &Channel{opts: o, moved: make(chan struct{})}
}

// SetController says where the active controller listens; "" means that none
// is known, requests then wait. Calling it with the address in use is free.
func (c *Channel) SetController(addr string) {
	c.mu.Lock()
	if addr == c.addr {
		c.mu.Unlock()
		return
	}
	old := c.conn
	c.addr, c.conn = addr, nil
	close(c.moved)
	c.moved = make(chan struct{})
	c.mu.Unlock()
	if old != nil {
		old.fail(errors.New("the active controller moved"))
	}
}

// Close fails what waits and closes the connection.
func (c *Channel) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	old := c.conn
	c.conn = nil
	close(c.moved)
	c.moved = make(chan struct{})
	c.mu.Unlock()
	if old != nil {
		old.fail(ErrClosed)
	}
}

// Send sends a request and waits for its response. Connection errors and
// NOT_CONTROLLER are retried until ctx ends, so the request must be one that
// may be sent twice (all controller RPCs of a broker are). The version is set
// to the highest that both sides know; a controller that knows none gives
// UNSUPPORTED_VERSION.
func (c *Channel) Send(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return c.send(ctx, req, false)
}

// Forward is Send for a client's request: its version is kept, because fields
// and meanings differ between versions (DeleteTopics names topics elsewhere from
// version 6 on) and the answer must have the form that the client asked for.
func (c *Channel) Forward(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return c.send(ctx, req, true)
}

func (c *Channel) send(ctx context.Context, req kmsg.Request, keepVersion bool) (kmsg.Response, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	for {
		resp, err := c.attempt(ctx, req, keepVersion)
		if err == nil && !isNotController(resp) {
			return resp, nil
		}
		var fatal *fatalError
		switch {
		case errors.Is(err, ErrClosed):
			return nil, err
		case errors.As(err, &fatal):
			return nil, fatal.err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("request to the controller: %w", errors.Join(ctx.Err(), err))
		}
		if err != nil {
			c.opts.Logger.Debug("request to the controller failed, trying again", "api", kmsg.NameForKey(req.Key()), "err", err)
		}
		if err := c.backoff(ctx); err != nil {
			return nil, err
		}
	}
}

func (c *Channel) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if c.queued >= c.opts.MaxQueued {
		return kerrors.New(kerrors.RequestTimedOut, "%d requests wait for the controller already", c.queued)
	}
	c.queued++
	return nil
}

func (c *Channel) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued--
}

// fatalError is one that another attempt would not cure.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (c *Channel) attempt(ctx context.Context, req kmsg.Request, keepVersion bool) (kmsg.Response, error) {
	cn, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := cn.roundTrip(ctx, req, keepVersion)
	if err != nil {
		c.drop(cn)
	}
	return resp, err
}

// connection returns the open connection, or dials when there is none.
func (c *Channel) connection(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		addr, cn, closed, moved := c.addr, c.conn, c.closed, c.moved
		c.mu.Unlock()
		switch {
		case closed:
			return nil, ErrClosed
		case cn != nil && !cn.failed():
			return cn, nil
		case addr != "":
			return c.dial(ctx, addr)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, errors.New("no active controller is known")
		}
	}
}

func (c *Channel) dial(ctx context.Context, addr string) (*conn, error) {
	c.dialMu.Lock()
	defer c.dialMu.Unlock()
	c.mu.Lock()
	if c.conn != nil && !c.conn.failed() && c.addr == addr { // another goroutine was faster
		defer c.mu.Unlock()
		return c.conn, nil
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.opts.RequestTimeoutMs)*time.Millisecond)
	defer cancel()
	nc, err := c.opts.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	cn, err := newConn(ctx, nc, c.opts)
	if err != nil {
		return nil, fmt.Errorf("connect to the controller at %s: %w", addr, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.addr != addr {
		go cn.fail(ErrClosed)
		if c.closed {
			return nil, ErrClosed
		}
		return nil, errors.New("the active controller moved")
	}
	c.conn = cn
	return cn, nil
}

// drop forgets a connection that failed.
func (c *Channel) drop(cn *conn) {
	if !cn.failed() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == cn {
		c.conn = nil
	}
}

func (c *Channel) backoff(ctx context.Context) error {
	c.mu.Lock()
	moved := c.moved
	c.mu.Unlock()
	t := time.NewTimer(time.Duration(c.opts.RetryBackoffMs) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-moved:
	case <-ctx.Done():
		return fmt.Errorf("request to the controller: %w", ctx.Err())
	}
	return nil
}

// isNotController looks for NOT_CONTROLLER in the answers of the RPCs that a
// broker sends itself. Forwarded requests carry theirs inside the envelope.
func isNotController(resp kmsg.Response) bool {
	var code int16
	switch r := resp.(type) {
	case *kmsg.BrokerRegistrationResponse:
		code = r.ErrorCode
	case *kmsg.BrokerHeartbeatResponse:
		code = r.ErrorCode
	case *kmsg.AlterPartitionResponse:
		code = r.ErrorCode
	case *kmsg.AllocateProducerIDsResponse:
		code = r.ErrorCode
	case *kmsg.AssignReplicasToDirsResponse:
		code = r.ErrorCode
	case *kmsg.ControllerRegistrationResponse:
		code = r.ErrorCode
	case *kmsg.EnvelopeResponse:
		code = r.ErrorCode
	}
	return kerrors.Code(code) == kerrors.NotController
}
