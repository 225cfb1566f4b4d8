package network

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// shakeHands opens a TLS connection, within the time that a connection has for its
// first whole request: a client that sends nothing, or something else than TLS,
// costs its own goroutine that time and nobody else anything. The deadline counts
// for both directions, since a client may not read either.
func (c *Conn) shakeHands() error {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	deadline := c.acceptedAt.Add(c.srv.opts.Handshake)
	c.nc.SetWriteDeadline(deadline)
	c.armRead(deadline)
	err := t.Handshake()
	if err == nil {
		c.nc.SetWriteDeadline(time.Time{})
		return nil
	}
	if isTimeout(err) || errors.Is(err, io.EOF) || c.ending() {
		return err
	}
	return &handshakeError{err}
}

// ending says that the connection ends for another reason already.
func (c *Conn) ending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopping || c.dead
}

// handshakeError is a TLS handshake that failed, or that was none.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string {
	var junk tls.RecordHeaderError
	if errors.As(e.err, &junk) {
		return "the client does not speak TLS, and this listener does (security.protocol=SSL)"
	}
	return e.err.Error()
}

func (e *handshakeError) Unwrap() error { return e.err }

// lingerAfterHandshake lets the alert out that says why a handshake failed: of a
// socket that is closed with unread bytes it would not arrive, and in TLS 1.3 a
// client is already sending when its certificate is refused.
func (c *Conn) lingerAfterHandshake() {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	c.grownLocked()
	c.mu.Unlock()
	if tcp, ok := c.sock.(*net.TCPConn); ok {
		deadline := time.Now().Add(lingerTime)
		tcp.CloseWrite()
		c.armRead(deadline)
		c.readOn(tcp)
	}
}

// recordBytes is the most that a TLS record carries.
const recordBytes = 16 << 10

// recordRoom is what a record takes beside what it carries, generously.
const recordRoom = 64

// tlsSocket is the socket below a TLS connection. crypto/tls writes each record of
// 16 KiB by itself; while it is held, records gather here, so that an answer of
// 1 MiB leaves in a few writes.
type tlsSocket struct {
	net.Conn
	pool *pool

	mu   sync.Mutex // the reader goroutine may write too: alerts, key updates
	held *buffer    // nil: writes go through
}

// Write takes records from crypto/tls.
func (t *tlsSocket) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		return t.Conn.Write(b)
	}
	t.held.b = append(t.held.b, b...)
	return len(b), nil
}

// hold gathers what is written from now on, n bytes before they are encrypted.
func (t *tlsSocket) hold(n, writes int) {
	buf := t.pool.get(n + (n/recordBytes+writes+1)*recordRoom)
	buf.b = buf.b[:0]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = buf
}

// release writes what was gathered. The lock is held meanwhile, as that of crypto/tls
// is around each write: what the reader goroutine writes comes after.
func (t *tlsSocket) release() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	buf := t.held
	t.held = nil
	defer t.pool.put(buf)
	if len(buf.b) == 0 {
		return nil
	}
	_, err := t.Conn.Write(buf.b)
	return err
}
