package network

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Accepting backs off between these when it fails: with no descriptor left
// (EMFILE) it must neither spin nor give up.
const (
	minAcceptBackoff = 5 * time.Millisecond
	maxAcceptBackoff = time.Second
)

// boundListener is a Listener with its socket.
type boundListener struct {
	Listener
	ln net.Listener
}

// Listen binds every listener; connections queue in the kernel until Serve. The
// backlog is the kernel's (net.core.somaxconn), not socket.listen.backlog.size.
func (s *Server) Listen() error {
	lc := net.ListenConfig{Control: resetWhenClosed}
	for _, l := range s.opts.Listeners {
		ln, err := lc.Listen(context.Background(), "tcp", l.Addr)
		if err == nil {
			err = s.addListener(&boundListener{Listener: l, ln: ln})
		}
		if err != nil {
			s.closeListeners()
			return fmt.Errorf("listen on %s (listener %s): %w", l.Addr, l.Name, err)
		}
	}
	return nil
}

func (s *Server) addListener(b *boundListener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		b.ln.Close()
		return ErrClosed
	}
	s.bound = append(s.bound, b)
	return nil
}

// Serve starts accepting on every bound listener and returns.
func (s *Server) Serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving || s.stopped {
		return
	}
	s.serving = true
	for _, b := range s.bound {
		s.wg.Add(1)
		go s.acceptLoop(b)
	}
}

// Addr is the bound address of a listener (its real port), nil before Listen.
func (s *Server) Addr(listener string) net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bound {
		if b.Name == listener {
			return b.ln.Addr()
		}
	}
	return nil
}

func (s *Server) acceptLoop(b *boundListener) {
	defer s.wg.Done()
	backoff := time.Duration(0)
	for {
		if wait := s.quota.pace(&b.Listener, time.Now()); !s.pause(wait) {
			return
		}
		nc, err := b.ln.Accept()
		if err == nil {
			backoff = 0
			s.admit(b, nc)
			continue
		}
		if s.acceptCtx.Err() != nil {
			return
		}
		if backoff == 0 {
			s.log.Error("accept failed; trying again until it works", "listener", b.Name, "err", err)
		}
		backoff = min(max(2*backoff, minAcceptBackoff), maxAcceptBackoff)
		if !s.pause(backoff) {
			return
		}
	}
}

// pause waits for d; false when accepting has stopped.
func (s *Server) pause(d time.Duration) bool {
	if d <= 0 {
		return s.acceptCtx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.acceptCtx.Done():
		return false
	}
}

// admit counts an accepted connection and starts it, or turns it away.
func (s *Server) admit(b *boundListener, nc net.Conn) {
	ip := addrPortOf(nc.RemoteAddr()).Addr()
	if !s.quota.enter(&b.Listener, ip) {
		nc.Close()
		s.opts.Observer.ConnClosed(b.Name, string(ReasonTooManyPerIP), false)
		s.warn("connection turned away", "reason", ReasonTooManyPerIP, "remote", ip, "listener", b.Name)
		return
	}
	s.tune(nc)
	s.start(nc, b.Name, b.TLS)
}

// start runs a connection that has entered the quota.
func (s *Server) start(nc net.Conn, listener string, tlsConf *tls.Config) {
	c := newConn(s, nc, listener, tlsConf)
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		nc.Close()
		c.cancel()
		s.quota.leave(listener, c.remote.Addr())
		return
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	s.opts.Observer.ConnOpened(listener)
	go c.run()
}

// tune sets the buffer sizes that were asked for. TCP_NODELAY and keep-alive are
// on by Go's default, as they are in Kafka.
func (s *Server) tune(nc net.Conn) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	if n := s.opts.SendBufferBytes; n > 0 {
		tcp.SetWriteBuffer(n)
	}
	if n := s.opts.ReceiveBufferBytes; n > 0 && receiveBuffer(tcp) < n {
		tcp.SetReadBuffer(n)
	}
}

// receiveBuffer is the size that the operating system gave tcp, 0 if it does not
// say. A size that is set stays: the system no longer fits it to what the
// connection carries. Kafka's default of 100 KiB is less than Linux begins with and
// holds a batch and a half; with it, every other read waits for the client, which
// costs a produced GB 10 (64 KiB batches) to 30 % (256 KiB) more CPU.
func receiveBuffer(tcp *net.TCPConn) int {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	size := 0
	if err := raw.Control(func(fd uintptr) {
		if n, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF); err == nil {
			size = n
		}
	}); err != nil {
		return 0
	}
	return size
}

func (s *Server) closeListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bound {
		b.ln.Close()
	}
}
