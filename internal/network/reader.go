package network

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/tidemark-io/tidemark/internal/wire"
)

const (
	// lingerTime and lingerBytes bound how long we read on after the last answer
	// of a connection that we end. A socket closed with unread bytes is reset, and
	// a reset may overtake the answer.
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// run is the life of the connection; it is its reader goroutine.
func (c *Conn) run() {
	defer c.srv.wg.Done()
	defer c.srv.forget(c)
	defer c.reader.close()
	defer c.recoverPanic()
	c.armRead(c.acceptedAt.Add(c.srv.opts.Handshake))
	err := c.shakeHands()
	var refused *handshakeError
	if errors.As(err, &refused) {
		c.lingerAfterHandshake()
	}
	if err == nil {
		err = c.readLoop()
	} else {
		err = c.stoppedOr(err)
	}
	if errors.Is(err, errStopReading) {
		c.windDown()
		return
	}
	c.die(c.reasonOf(err), err)
}

// readLoop handles request after request until there is a reason to stop.
func (c *Conn) readLoop() error {
	for {
		n, err := c.reader.size()
		if err != nil {
			return c.stoppedOr(err)
		}
		c.waited = 0
		if err := c.waitForSlot(n); err != nil {
			return err
		}
		r := &Request{Conn: c}
		if err := c.readRequest(r, n); err != nil {
			c.drop(r)
			return c.stoppedOr(err)
		}
		if !c.beginHandle(r) {
			c.drop(r)
			return errStopReading
		}
		c.handle(r)
	}
}

// stoppedOr turns the error of a read that was woken to stop into errStopReading.
func (c *Conn) stoppedOr(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping && !c.dead && isTimeout(err) {
		return errStopReading
	}
	return err
}

// waitForSlot waits until one more request of n bytes is within the connection's
// bounds; one request may always be there, whatever its size. Not reading on is
// the back-pressure the client feels.
func (c *Conn) waitForSlot(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var since time.Time
	for !c.stopping && c.inFlight > 0 && c.mustWait(n) {
		if since.IsZero() {
			since = time.Now()
		}
		c.changed.Wait()
	}
	if !since.IsZero() {
		c.waited += time.Since(since)
	}
	if c.stopping {
		return errStopReading
	}
	return nil
}

// mustWait reports whether n more bytes are too much for now. mu is held. What
// all connections hold together stops only those that hold some of it, so that
// each is woken by its own answers leaving.
func (c *Conn) mustWait(n int) bool {
	o := &c.srv.opts
	return c.inFlight >= o.MaxInFlight || c.reqBytes+n > o.ConnRequestBytes || c.respBytes > o.ConnResponseBytes ||
		c.respBytes > 0 && c.srv.respBytes.Load() > o.ResponseMemoryBytes
}

// readRequest reads the frame of n bytes, parses its header and takes the memory
// that decoding its body may need.
func (c *Conn) readRequest(r *Request, n int) error {
	c.pending = &r.mem
	r.mem.small = n <= smallRequest
	frame, err := c.reader.body(n)
	if err != nil {
		return err
	}
	r.frame = frame
	r.ReceivedAt = time.Now()
	c.frameDone(r.ReceivedAt)
	if r.Header, r.Body, err = wire.ParseNextRequestHeader(frame.b, c.clientID); err != nil {
		return &badRequestError{err}
	}
	c.clientID = r.Header.ClientID
	if err := c.takeMemory(wire.EstimateHeapBytes(r.Header, r.Body)); err != nil {
		return err
	}
	r.queued = c.waited
	c.pipelined = c.reader.wholeFrameUnread()
	return nil
}

// frameDone moves the read deadline from that of the handshake or frame to that
// of an idle connection.
func (c *Conn) frameDone(now time.Time) {
	c.touch(now)
	if !c.greeted || c.inFrame {
		c.greeted, c.inFrame = true, false
		c.armRead(now.Add(c.srv.opts.MaxIdle))
	}
}

// handle runs the Handler. Its panic ends this connection only.
func (c *Conn) handle(r *Request) {
	r.startedAt = r.ReceivedAt
	if c.waited > 0 {
		r.startedAt = time.Now()
	}
	c.srv.handler.Handle(c.ctx, r)
	c.endHandle(r)
}

// drop gives back what a request holds that never reached the Handler.
func (c *Conn) drop(r *Request) {
	c.srv.pool.put(r.frame)
	r.frame = nil
	c.srv.memory.release(&r.mem)
}

// idleExpired is called when no byte came until the read deadline.
func (c *Conn) idleExpired(err error) error {
	o := &c.srv.opts
	c.mu.Lock()
	busy, stopping := c.inFlight > 0, c.stopping
	c.mu.Unlock()
	if stopping {
		return err
	}
	if !c.greeted {
		return &deadlineError{ReasonHandshakeTimeout, "no whole request within the handshake time"}
	}
	now := time.Now()
	idleAt := c.srv.started.Add(time.Duration(c.lastActive.Load())).Add(o.MaxIdle)
	if busy {
		idleAt = now.Add(o.MaxIdle) // it waits for us, not we for it
	}
	if !idleAt.After(now) {
		return &deadlineError{ReasonIdle, "idle"}
	}
	c.armRead(idleAt)
	return nil
}

// frameProgress sets the deadline of an unfinished frame: no pause longer than
// Stall, and on the whole no slower than MinBytesPerSecond. A connection that
// has not sent one whole request yet has the handshake time instead of a first
// Stall, so that a byte now and then buys nothing. Time it had to wait for memory
// of ours does not count.
func (c *Conn) frameProgress(got int) {
	o := &c.srv.opts
	now := time.Now()
	if !c.inFrame {
		c.inFrame, c.frameAt = true, now
	}
	c.frameGot = got
	earned := c.waited + time.Duration(got)*time.Second/time.Duration(o.MinBytesPerSecond)
	deadline := c.frameAt.Add(o.Stall + earned)
	if !c.greeted {
		deadline = c.acceptedAt.Add(o.Handshake + earned)
	}
	if stall := now.Add(o.Stall); stall.Before(deadline) {
		deadline = stall
	}
	c.armRead(deadline)
}

// takeMemory charges n bytes to the frame being read.
func (c *Conn) takeMemory(n int) error {
	m := &c.srv.memory
	if m.tryTake(c.pending, int64(n)) {
		return nil
	}
	since := time.Now()
	if !m.take(c.pending, int64(n), c.done) {
		return ErrClosed
	}
	c.waited += max(time.Since(since), 1)
	if c.inFrame {
		c.frameProgress(c.frameGot)
	}
	return nil
}

// windDown waits until every answer that is owed has left, then ends the
// connection softly.
func (c *Conn) windDown() {
	c.mu.Lock()
	for !c.dead && !c.muted && c.inFlight > 0 {
		c.changed.Wait()
	}
	dead, reason, err := c.dead, c.reason, c.reasonErr
	reset := c.young && reason.ours()
	c.mu.Unlock()
	if !dead && !reset {
		c.linger()
	}
	c.die(reason, err)
}

// linger sends FIN and reads what the client still had on the way.
func (c *Conn) linger() {
	deadline := time.Now().Add(lingerTime)
	c.nc.SetWriteDeadline(deadline)
	if t, ok := c.nc.(*tls.Conn); ok {
		t.CloseWrite()
	}
	tcp, ok := c.sock.(*net.TCPConn)
	if !ok {
		return
	}
	tcp.CloseWrite()
	c.nc.SetReadDeadline(deadline)
	c.readOn(tcp)
}

// readOn reads what still comes, lingerBytes at most, until the deadline.
func (c *Conn) readOn(from io.Reader) {
	buf := c.srv.pool.get(copyBytes)
	defer c.srv.pool.put(buf)
	for left := lingerBytes; left > 0; {
		n, err := from.Read(buf.b)
		if err != nil {
			return
		}
		left -= n
	}
}

// recoverPanic ends the connection when its Handler, or the code around it,
// panicked.
func (c *Conn) recoverPanic() {
	p := recover()
	if p == nil {
		return
	}
	c.srv.panicked("handler", c, p, debug.Stack())
	c.mu.Lock()
	r := c.current
	c.current = nil
	if r != nil {
		r.handledAt = time.Now()
	}
	c.mu.Unlock()
	c.die(ReasonPanic, nil)
	if c.pending != nil {
		c.srv.memory.release(c.pending)
	}
	if r != nil && r.claimed.CompareAndSwap(false, true) {
		// The Handler may have handed Body on before it failed: do not pool it.
		r.answeredAt, r.leakFrame = r.handledAt, true
		c.finish(r)
	}
}

// deadlineError is a deadline of ours that passed.
type deadlineError struct {
	reason Reason
	what   string
}

func (e *deadlineError) Error() string { return e.what }

// badRequestError is a frame whose header cannot be read.
type badRequestError struct{ err error }

func (e *badRequestError) Error() string { return e.err.Error() }
func (e *badRequestError) Unwrap() error { return e.err }

// reasonOf names the reason that a read error stands for.
func (c *Conn) reasonOf(err error) Reason {
	var (
		deadline *deadlineError
		shake    *handshakeError
		size     *frameSizeError
		bad      *badRequestError
	)
	switch {
	case errors.As(err, &deadline):
		return deadline.reason
	case errors.As(err, &shake):
		return ReasonTLSHandshake
	case errors.As(err, &size):
		return ReasonFrameSize
	case errors.As(err, &bad):
		return ReasonBadRequest
	case isTimeout(err) && !c.greeted:
		return ReasonHandshakeTimeout
	case isTimeout(err):
		return ReasonFrameTimeout
	case errors.Is(err, io.EOF):
		return ReasonClientClosed
	}
	return ReasonReadError
}
