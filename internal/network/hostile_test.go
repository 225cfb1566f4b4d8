package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-io/tidemark/internal/wire"
)

// TestC008JunkOnThePort is field case C008: every junk socket is closed at once,
// no buffer of the claimed size is made, and a normal client notices nothing.
func TestC008JunkOnThePort(t *testing.T) {
	s, w := startServer(t, Options{}, echo)
	good := dial(t, s)
	good.send(0, nil)
	good.receive()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	junk := [][]byte{
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		{0x16, 0x03, 0x01, 0x00, 0x05, 1, 2, 3},
		{0xff, 0xff, 0xff, 0xff},
		binary.BigEndian.AppendUint32(nil, 104857601),
	}
	var wg sync.WaitGroup
	for i := range 200 {
		c := dial(t, s)
		wg.Go(func() {
			c.Write(junk[i%len(junk)])
			c.wantEOF()
			c.Close()
		})
		if i%10 == 0 {
			good.send(int32(i), []byte("one record"))
			if corr, body := good.receive(); corr != int32(i) || string(body) != "one record" {
				t.Fatalf("the normal client got %d %q", corr, body)
			}
		}
	}
	wg.Wait()
	reasons := w.awaitClosed(t, 200)
	if n := len(slices.DeleteFunc(reasons, func(r string) bool { return r == string(ReasonFrameSize) })); n != 0 {
		t.Errorf("%d of 200 closed for another reason: %v", n, reasons)
	}
	runtime.ReadMemStats(&after)
	if rise := int64(after.TotalAlloc - before.TotalAlloc); rise > 20<<20 {
		t.Errorf("200 junk sockets allocated %d bytes", rise)
	}
}

// TestC008ExactLimit: a frame of exactly socket.request.max.bytes is a request.
func TestC008ExactLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 100 MiB")
	}
	h := handlerFunc(func(_ context.Context, r *Request) {
		var p wire.Payload
		p.AppendBytes(wire.AppendResponseHeader(nil, r.Header))
		p.AppendBytes(binary.BigEndian.AppendUint32(nil, uint32(len(r.Body))))
		r.RespondPayload(p)
	})
	s, _ := startServer(t, Options{}, h)
	c := dial(t, s)
	f := frame(9, make([]byte, DefaultMaxRequestBytes-12))
	if got := binary.BigEndian.Uint32(f); got != 104857600 {
		t.Fatalf("the test's frame is %d bytes", got)
	}
	c.Write(f)
	corr, body := c.receive()
	if corr != 9 || binary.BigEndian.Uint32(body) != uint32(len(f)-16) {
		t.Fatalf("answer %d %x", corr, body)
	}
}

// TestClaimIsNotTaken: a claim of 100 MiB with few bytes behind it holds few bytes
// of the budget.
func TestClaimIsNotTaken(t *testing.T) {
	s, w := startServer(t, Options{}, echo)
	const n = 50
	for range n {
		c := dial(t, s)
		c.Write(binary.BigEndian.AppendUint32(nil, DefaultMaxRequestBytes))
		c.Write([]byte("only this"))
	}
	w.await(t, "all connected", func() bool { return w.opened == n })
	good := dial(t, s)
	good.send(1, make([]byte, 1<<20))
	good.receive()
	w.await(t, "the good request finished", func() bool { return len(w.samples) == 1 })
	if used := s.Stats().RequestMemoryBytes; used > n*2*scratchBytes {
		t.Errorf("%d claims of 100 MiB hold %d bytes", n, used)
	}
}

// pipeServer is a server without sockets for tests on fake time.
func pipeServer(t *testing.T, o Options, h Handler) (*Server, *watcher) {
	t.Helper()
	w := newWatcher()
	o.Observer, o.PoisonFreed, o.Logger = w, true, slog.New(slog.DiscardHandler)
	s, err := NewServer(o, h)
	if err != nil {
		t.Fatal(err)
	}
	return s, w
}

// connect runs a new connection and returns the client's end of it.
func (s *Server) connect() net.Conn {
	client, server := net.Pipe()
	s.quota.enter(&Listener{Name: "pipe"}, addrPortOf(server.RemoteAddr()).Addr())
	s.start(server, "pipe", nil)
	return client
}

// closedAfter reads until the server ends the connection and returns how long
// that took on the fake clock.
func closedAfter(t *testing.T, c net.Conn, start time.Time) time.Duration {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatal("the server answered junk")
	}
	return time.Since(start)
}

func wantReason(t *testing.T, w *watcher, want Reason) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.closed) != 1 || w.closed[0] != string(want) {
		t.Errorf("closed for %v, want %s", w.closed, want)
	}
}

func TestB1SilentConnectionHandshakeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := pipeServer(t, Options{}, echo)
		defer s.Close()
		start := time.Now()
		if d := closedAfter(t, s.connect(), start); d != DefaultHandshake {
			t.Errorf("closed after %v", d)
		}
		wantReason(t, w, ReasonHandshakeTimeout)
	})
}

// TestB1Slowloris drips a byte a second of a large first frame.
func TestB1Slowloris(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := pipeServer(t, Options{}, echo)
		defer s.Close()
		c := s.connect()
		start := time.Now()
		go func() {
			for _, b := range frame(1, make([]byte, 1<<20)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		if d := closedAfter(t, c, start); d < DefaultHandshake || d > DefaultHandshake+time.Second {
			t.Errorf("closed after %v", d)
		}
		wantReason(t, w, ReasonHandshakeTimeout)
		time.Sleep(2 * time.Second) // the dripping ends too
	})
}

// TestStalledFrame: a known client that stops in the middle of a frame is let go,
// one that is slow but steady is served.
func TestStalledFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := pipeServer(t, Options{}, echo)
		defer s.Close()
		c := s.connect()
		greet(t, c)
		big := frame(2, make([]byte, 4<<20))
		go func() {
			for len(big) > 0 { // 64 KiB a second: 64 s for the frame
				n := min(64<<10, len(big))
				c.Write(big[:n])
				big = big[n:]
				time.Sleep(time.Second)
			}
			c.Write(big)
		}()
		if corr, _, err := readResponse(c); err != nil || corr != 2 {
			t.Fatalf("the slow frame: %d, %v", corr, err)
		}
		time.Sleep(2 * time.Second)
		c.Write(frame(3, make([]byte, 1000))[:500])
		if d := closedAfter(t, c, time.Now()); d != DefaultStall {
			t.Errorf("stalled frame closed after %v", d)
		}
		wantReason(t, w, ReasonFrameTimeout)
	})
}

// greet sends a first request and reads its answer.
func greet(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write(frame(1, nil)); err != nil {
		t.Fatal(err)
	}
	if corr, _, err := readResponse(c); err != nil || corr != 1 {
		t.Fatalf("greeting: %d, %v", corr, err)
	}
}

// TestIdleDeadline: connections.max.idle.ms counts from the last request or
// answer, and not while we owe an answer.
func TestIdleDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handlerFunc(func(_ context.Context, r *Request) {
			wait := time.Duration(len(r.Body)) * time.Minute
			time.AfterFunc(wait, func() { r.RespondPayload(answer(r, nil)) })
		})
		s, w := pipeServer(t, Options{}, h)
		defer s.Close()
		c := s.connect()
		greet(t, c)
		time.Sleep(DefaultMaxIdle - time.Second)
		c.Write(frame(2, make([]byte, 25))) // answered after 25 minutes
		if corr, _, err := readResponse(c); err != nil || corr != 2 {
			t.Fatalf("long wait: %d, %v", corr, err)
		}
		if d := closedAfter(t, c, time.Now()); d != DefaultMaxIdle {
			t.Errorf("idle for %v when closed", d)
		}
		wantReason(t, w, ReasonIdle)
	})
}

// TestWriteDeadlineOnFakeTime: a client that never reads is let go, and what it
// made us hold is given back.
func TestWriteDeadlineOnFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := pipeServer(t, Options{}, echo)
		defer s.Close()
		c := s.connect()
		start := time.Now()
		c.Write(frame(1, make([]byte, 100)))
		time.Sleep(DefaultWriteTimeout - time.Second)
		synctest.Wait()
		if n := s.Stats().Connections; n != 1 {
			t.Errorf("%d connections after %v", n, time.Since(start))
		}
		time.Sleep(2 * time.Second)
		wantReason(t, w, ReasonWriteTimeout)
		if st := s.Stats(); st.Connections != 0 || st.RequestMemoryBytes != 0 || st.RequestsInFlight != 0 {
			t.Errorf("left behind: %+v", st)
		}
	})
}

// TestB6ClientNeverReads does the same over TCP, where the kernel's buffers take
// the first megabytes, with thousands of pipelined requests: what we hold stays
// within the connection's bounds until the write deadline ends it.
func TestB6ClientNeverReads(t *testing.T) {
	big := make([]byte, 64<<10)
	h := handlerFunc(func(_ context.Context, r *Request) { r.RespondPayload(answer(r, big)) })
	s, w := startServer(t, Options{WriteTimeout: 300 * time.Millisecond, SendBufferBytes: 64 << 10}, h)
	c := dial(t, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f := frame(1, nil)
		for range 10_000 {
			if _, err := c.Write(f); err != nil {
				return
			}
		}
	}()
	if got := w.awaitClosed(t, 1); got[0] != string(ReasonWriteTimeout) {
		t.Errorf("closed for %v", got)
	}
	c.Close()
	<-done
	s.Close() // waits for writers
	if st := s.Stats(); st.RequestsInFlight != 0 || st.RequestMemoryBytes != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

// TestB6BudgetBackPressure: clients that together want far more memory than the
// budget has are all served, and what is taken stays within the budget and one
// request.
func TestB6BudgetBackPressure(t *testing.T) {
	const limit, size = 256 << 10, 60_000
	var (
		mu   sync.Mutex
		most int64
	)
	h := handlerFunc(func(_ context.Context, r *Request) {
		used := r.Conn.srv.Stats().RequestMemoryBytes
		mu.Lock()
		most = max(most, used)
		mu.Unlock()
		go r.RespondPayload(answer(r, r.Body[:8]))
	})
	s, w := startServer(t, Options{RequestMemoryBytes: limit}, h)
	var wg sync.WaitGroup
	for i := range 24 {
		c := dial(t, s)
		wg.Go(func() {
			f := frame(int32(i), make([]byte, size))
			for range 20 {
				if _, err := c.Write(f); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
			for range 20 {
				if corr, _, err := readResponse(c); err != nil || corr != int32(i) {
					t.Errorf("client %d: answer %d, %v", i, corr, err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.await(t, "all finished", func() bool { return len(w.samples) == 24*20 })
	if most > limit+int64(2*roundUp(size)) {
		t.Errorf("%d bytes were taken of a budget of %d", most, limit)
	}
	if used := s.Stats().RequestMemoryBytes; used != 0 {
		t.Errorf("%d bytes never came back", used)
	}
}

// TestB6SmallRequestsPassStalledFrames: large frames that stall half arrived hold
// the whole budget, and others wait behind them; a small request is served all
// the same.
func TestB6SmallRequestsPassStalledFrames(t *testing.T) {
	s, w := startServer(t, Options{RequestMemoryBytes: 4 << 20}, echo)
	big := frame(1, make([]byte, 16<<20))
	for range 8 {
		c := dial(t, s)
		go c.Write(big[:8<<20])
	}
	limit := time.AfterFunc(testTimeout, func() { panic("the budget never filled") })
	for s.Stats().BudgetWaiters < 7 { // one of the eight may pass the limit
		runtime.Gosched()
	}
	limit.Stop()
	good := dial(t, s)
	for i := range 20 {
		good.send(int32(i), make([]byte, 20_000))
		if corr, body := good.receive(); corr != int32(i) || len(body) != 20_000 {
			t.Fatalf("answer %d with %d bytes", corr, len(body))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.closed) != 0 {
		t.Errorf("closed meanwhile: %v", w.closed)
	}
}

// TestB6UnreadAnswersAreBounded: 20 clients that pipeline and never read hold no
// more answers together than the bound and one round of each.
func TestB6UnreadAnswersAreBounded(t *testing.T) {
	const clients, limit, size = 20, 4 << 20, 200 << 10
	var most atomic.Int64
	h := handlerFunc(func(_ context.Context, r *Request) {
		r.RespondPayload(answer(r, make([]byte, size)))
		for now, old := r.Conn.srv.respBytes.Load(), most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
	})
	s, w := startServer(t, Options{ResponseMemoryBytes: limit, WriteTimeout: 300 * time.Millisecond, SendBufferBytes: 64 << 10}, h)
	for range clients {
		c := dial(t, s)
		c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		c.Write(bytes.Repeat(frame(1, nil), 500))
	}
	for _, reason := range w.awaitClosed(t, clients) {
		if reason != string(ReasonWriteTimeout) {
			t.Errorf("closed for %s", reason)
		}
	}
	if most.Load() > limit+clients*2*(size+1000) {
		t.Errorf("%d bytes of unread answers, bound %d", most.Load(), limit)
	}
	s.Close() // waits for writers
	if n := s.respBytes.Load(); n != 0 {
		t.Errorf("%d bytes still count", n)
	}
}

// FuzzConnection sends any bytes to a live connection: no panic, and all that it
// took comes back.
func FuzzConnection(f *testing.F) {
	f.Add(frame(1, []byte("hello")))
	f.Add(append(frame(1, nil), frame(2, nil)...))
	f.Add([]byte{0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0})
	f.Add([]byte{0, 0, 0, 12, 0, 3, 0, 9, 0, 0, 0, 7, 0, 0, 0x7f, 0xff})
	f.Add([]byte{0, 0, 0, 10, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stream []byte) {
		w := newWatcher()
		s, err := NewServer(Options{Observer: w, PoisonFreed: true, Logger: slog.New(slog.DiscardHandler)}, decodeAndEcho)
		if err != nil {
			t.Fatal(err)
		}
		c := s.connect()
		go io.Copy(io.Discard, c)
		c.Write(stream)
		c.Close()
		w.awaitClosed(t, 1)
		s.Close()
		if st := s.Stats(); w.panics != 0 || st.RequestMemoryBytes != 0 || st.RequestsInFlight != 0 || st.Connections != 0 {
			t.Fatalf("%d panics, left behind %+v", w.panics, st)
		}
	})
}

// decodeAndEcho decodes as a real handler would.
var decodeAndEcho = handlerFunc(func(_ context.Context, r *Request) {
	if _, err := wire.DecodeRequest(r.Header, r.Body); err != nil {
		r.Close(err)
		return
	}
	r.RespondPayload(answer(r, r.Body))
})
