package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"syscall"
	"testing"
)

// opening is an ApiVersions v0 request.
func opening() []byte {
	b := frame(7, nil)
	binary.BigEndian.PutUint16(b[4:], 18)
	binary.BigEndian.PutUint16(b[6:], 0)
	return b
}

// TestStopResetsYoungConnections: clients take an orderly close before their
// first answer for a wrong security setting and give up; a reset they retry.
func TestStopResetsYoungConnections(t *testing.T) {
	for _, stop := range []struct {
		name string
		do   func(*Server) error
	}{
		{"drain", func(s *Server) error { return s.Drain(context.Background()) }},
		{"close", (*Server).Close},
	} {
		for _, c := range []struct {
			name  string
			reset bool
			talk  func(*client)
		}{
			{"silent", true, func(*client) {}},
			{"half a frame", true, func(c *client) { c.Write(opening()[:6]) }},
			{"opened", true, func(c *client) { c.Write(opening()); c.receive() }},
			{"answered", false, func(c *client) { c.Write(opening()); c.receive(); c.send(8, nil); c.receive() }},
		} {
			t.Run(stop.name+" "+c.name, func(t *testing.T) {
				s, w := startServer(t, Options{}, echo)
				cl := dial(t, s)
				w.await(t, "the connection", func() bool { return w.opened == 1 })
				c.talk(cl)
				if !c.reset {
					w.await(t, "the answers to be accounted", func() bool { return len(w.samples) == 2 })
				}
				ended := make(chan error, 1)
				go func() { ended <- stop.do(s) }()
				_, err := cl.Read(make([]byte, 1))
				if c.reset && !errors.Is(err, syscall.ECONNRESET) || !c.reset && !errors.Is(err, io.EOF) {
					t.Errorf("read: %v; want a reset: %v", err, c.reset)
				}
				cl.Close()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestRefusalOfYoungConnectionIsOrderly: what the client did wrong stays an
// orderly close, from which clients guess the security setting.
func TestRefusalOfYoungConnectionIsOrderly(t *testing.T) {
	s, _ := startServer(t, Options{}, echo)
	c := dial(t, s)
	c.Write([]byte{0x16, 0x03, 0x01, 0x02}) // a TLS hello on a plaintext listener
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v; want EOF", err)
	}
}
