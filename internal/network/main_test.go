package network

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds what a test waits for; it is never slept through.
const testTimeout = time.Minute

// handlerFunc makes a Handler of a function.
type handlerFunc func(ctx context.Context, r *Request)

func (f handlerFunc) Handle(ctx context.Context, r *Request) { f(ctx, r) }

// echo answers with the request's body.
var echo = handlerFunc(func(_ context.Context, r *Request) { r.RespondPayload(answer(r, r.Body)) })

// answer is a response to r with body b.
func answer(r *Request, b []byte) wire.Payload {
	var p wire.Payload
	p.AppendBytes(wire.AppendResponseHeader(nil, r.Header))
	p.AppendBytes(b)
	return p
}

// watcher is an Observer that tests wait on.
type watcher struct {
	mu      sync.Mutex
	changed *sync.Cond
	opened  int
	closed  []string
	turned  []string
	samples []telemetry.RequestSample
	panics  int
}

func newWatcher() *watcher {
	w := &watcher{}
	w.changed = sync.NewCond(&w.mu)
	return w
}

func (w *watcher) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.changed.Broadcast()
}

func (w *watcher) ConnOpened(string) { w.note(func() { w.opened++ }) }
func (w *watcher) ConnClosed(_, reason string, opened bool) {
	w.note(func() {
		if opened {
			w.closed = append(w.closed, reason)
		} else {
			w.turned = append(w.turned, reason)
		}
	})
}
func (w *watcher) RequestDone(s telemetry.RequestSample) {
	w.note(func() { w.samples = append(w.samples, s) })
}
func (w *watcher) Panicked(string) { w.note(func() { w.panics++ }) }

// await waits until ok, which is called with the watcher locked.
func (w *watcher) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.AfterFunc(testTimeout, func() { w.changed.Broadcast() })
	defer late.Stop()
	start := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !ok() {
		if time.Since(start) >= testTimeout {
			t.Fatalf("waited in vain for %s: opened %d, closed %v, turned away %v", what, w.opened, w.closed, w.turned)
		}
		w.changed.Wait()
	}
}

// awaitClosed waits for n closed connections and returns their reasons.
func (w *watcher) awaitClosed(t testing.TB, n int) []string {
	t.Helper()
	w.await(t, "closed connections", func() bool { return len(w.closed) >= n })
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.closed...)
}

// startServer serves h on a free port of loopback, with poisoned buffers.
func startServer(t testing.TB, o Options, h Handler) (*Server, *watcher) {
	t.Helper()
	w := newWatcher()
	if o.Observer == nil {
		o.Observer = w
	}
	if o.Listeners == nil {
		o.Listeners = []Listener{{Name: "PLAINTEXT", Addr: "127.0.0.1:0"}}
	}
	o.Logger = slog.New(slog.DiscardHandler)
	if _, bench := t.(*testing.B); !bench {
		o.PoisonFreed = true
	}
	s, err := NewServer(o, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(func() { s.Close() })
	return s, w
}

// client is one raw connection.
type client struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, s *Server) *client {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr(s.opts.Listeners[0].Name).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(testTimeout))
	return &client{t: t, Conn: nc}
}

// frame is a Metadata v1 request (header v1) with any body.
func frame(corr int32, body []byte) []byte {
	b := make([]byte, 4, 20+len(body))
	b = binary.BigEndian.AppendUint16(b, 3)
	b = binary.BigEndian.AppendUint16(b, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	b = binary.BigEndian.AppendUint16(b, 2)
	b = append(b, "me"...)
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// send writes a request.
func (c *client) send(corr int32, body []byte) {
	c.t.Helper()
	if _, err := c.Write(frame(corr, body)); err != nil {
		c.t.Fatalf("send %d: %v", corr, err)
	}
}

// receive reads one response.
func (c *client) receive() (corr int32, body []byte) {
	c.t.Helper()
	corr, body, err := readResponse(c)
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	return corr, body
}

func readResponse(r io.Reader) (corr int32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(head[4:])), body, nil
}

// wantEOF fails unless the server ends the connection without another byte.
func (c *client) wantEOF() {
	c.t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		c.t.Fatalf("read %d bytes, %v; want the connection closed", n, err)
	}
}
