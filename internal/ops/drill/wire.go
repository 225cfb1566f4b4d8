package drill

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

var errCut = errors.New("connection cut by the drill")

// cable is a member's network: cut, it resets like a process that was killed.
// The broker sees the connections close, as it does on kill -9, and hears no
// LeaveGroup.
type cable struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	dead  bool
	tls   *tls.Config // nil: plaintext
}

func newCable(conf *tls.Config) *cable { return &cable{conns: map[net.Conn]struct{}{}, tls: conf} }

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		conn.Close()
		return nil, errCut
	}
	c.conns[conn] = struct{}{}
	if c.tls == nil {
		return &plug{conn, c}, nil
	}
	conf := c.tls.Clone()
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return tls.Client(&plug{conn, c}, conf), nil
}

// cut closes all connections and lets no new one through.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// plug is one connection that forgets itself when it closes.
type plug struct {
	net.Conn
	cable *cable
}

func (p *plug) Close() error {
	p.cable.mu.Lock()
	delete(p.cable.conns, p.Conn)
	p.cable.mu.Unlock()
	return p.Conn.Close()
}
