package network

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is one accepted connection, as handlers see it.
//
// Its reader goroutine owns the frameReader and ends the connection's life; the
// queue is guarded by mu; whoever sets writing owns the sender.
type Conn struct {
	srv      *Server
	id       uint64
	listener string
	local    net.Addr
	remote   netip.AddrPort
	host     string
	software atomic.Pointer[clientSoftware]

	nc     net.Conn        // what requests are read from: the socket, or TLS on it
	sock   net.Conn        // the socket
	wrap   *tlsSocket      // between the two; nil without TLS
	raw    syscall.RawConn // nil for TLS and pipes
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when dead

	reader     *frameReader
	send       sender
	acceptedAt time.Time
	lastActive atomic.Int64 // nanoseconds since srv.started

	// Of the reader goroutine.
	greeted   bool          // one whole request has come
	inFrame   bool          // a frame has begun and is not whole
	frameAt   time.Time     // when it began
	frameGot  int           // bytes of it that are here
	pending   *memoryGrant  // memory of the request being read
	waited    time.Duration // for a slot and for memory, in this request
	pipelined bool          // the next frame is here already
	clientID  string        // of the last request; of the reader goroutine

	mu        sync.Mutex
	changed   sync.Cond // of mu: inFlight, respBytes or the state changed
	queue     requestQueue
	current   *Request // in Handle right now
	inFlight  int      // requests that hold a slot
	reqBytes  int      // their frames
	respBytes int      // encoded answers not written yet
	writing   bool     // a goroutine owns send
	stopping  bool     // no further request starts
	muted     bool     // the answer that ends the connection has been reached
	young     bool     // see grownLocked
	dead      bool
	reason    Reason
	reasonErr error
}

type clientSoftware struct{ name, version string }

func newConn(s *Server, nc net.Conn, listener string, tlsConf *tls.Config) *Conn {
	c := &Conn{
		srv: s, id: s.nextID.Add(1), listener: listener, local: nc.LocalAddr(),
		remote: addrPortOf(nc.RemoteAddr()), nc: nc, sock: nc, done: make(chan struct{}), acceptedAt: time.Now(), young: true,
	}
	c.host = c.remote.Addr().String()
	c.changed.L = &c.mu
	if tcp, ok := nc.(*net.TCPConn); ok && tlsConf == nil {
		if raw, err := tcp.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	if tlsConf != nil {
		c.wrap = &tlsSocket{Conn: nc, pool: &s.pool}
		c.nc = tls.Server(c.wrap, tlsConf)
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.reader = newFrameReader(c.nc, c.raw, &s.pool, s.opts.MaxRequestBytes, c)
	c.send.init(c)
	return c
}

// addrPortOf reads the address of a TCP peer; the zero value for others.
func addrPortOf(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// ID is unique in the process, for logs and for Kafka's connection id.
func (c *Conn) ID() uint64 { return c.id }

// Listener is the name of the listener it came by.
func (c *Conn) Listener() string { return c.listener }

// LocalAddr is our end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the client's end.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// RemoteHost is the client's IP address as text, for ACLs and quotas.
func (c *Conn) RemoteHost() string { return c.host }

// SetClientSoftware keeps the name and version of an ApiVersions request
// (KIP-511).
func (c *Conn) SetClientSoftware(name, version string) {
	c.software.Store(&clientSoftware{name: name, version: version})
}

// ClientSoftware is what SetClientSoftware kept, "" before.
func (c *Conn) ClientSoftware() (name, version string) {
	if s := c.software.Load(); s != nil {
		return s.name, s.version
	}
	return "", ""
}

// Close ends the connection at once; answers not written are lost. err goes to
// the log. Request.Close lets earlier answers out first.
func (c *Conn) Close(err error) { c.die(ReasonHandler, err) }

// touch notes activity at now, for the idle deadline.
func (c *Conn) touch(now time.Time) { c.lastActive.Store(int64(now.Sub(c.srv.started))) }

// die ends the connection for the first reason that comes. Answers that are ready
// are dropped; those that come later are dropped when they come.
func (c *Conn) die(reason Reason, err error) {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	c.dead, c.stopping = true, true
	c.reason, c.reasonErr = reason, err
	if !reason.ours() {
		c.grownLocked()
	}
	dropped := c.queue.removeAnswered(c.current)
	c.changed.Broadcast()
	c.mu.Unlock()

	// A TLS close would first write an alert, and wait for a client that may not
	// read: end the socket below it.
	c.sock.Close()
	c.cancel()
	close(c.done)
	for _, r := range dropped {
		c.finish(r)
	}
}

// stopReading makes the reader goroutine leave its loop at the next frame
// boundary; the connection ends once its answers are out.
func (c *Conn) stopReading(reason Reason, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopReadingLocked(reason, err)
}

func (c *Conn) stopReadingLocked(reason Reason, err error) {
	if c.stopping {
		return
	}
	c.stopping = true
	c.reason, c.reasonErr = reason, err
	c.changed.Broadcast()
	c.nc.SetReadDeadline(time.Unix(1, 0)) // wake it
}

// armRead sets the deadline of the next read, unless reading is to stop.
func (c *Conn) armRead(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopping {
		c.nc.SetReadDeadline(t)
	}
}
