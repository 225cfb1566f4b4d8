package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/wire"
)

func TestRoundTrip(t *testing.T) {
	s, w := startServer(t, Options{}, echo)
	c := dial(t, s)
	for i, n := range []int{0, 1, 100, 5_000, 16_370, 20_000, 300_000, 3 << 20, 10} {
		body := bytes.Repeat([]byte{byte(i + 1)}, n)
		c.send(int32(i), body)
		corr, got := c.receive()
		if corr != int32(i) || !bytes.Equal(got, body) {
			t.Fatalf("%d bytes: answer %d with %d bytes", n, corr, len(got))
		}
	}
	w.await(t, "samples", func() bool { return len(w.samples) == 9 })
	last := w.samples[8]
	if last.APIKey != 3 || last.BytesIn != 26 || last.BytesOut != 18 || last.Handle < 0 || last.Wait < 0 || last.Send < 0 {
		t.Errorf("sample %+v", last)
	}
	if got := s.Stats(); got.RequestMemoryBytes != 0 || got.RequestsInFlight != 0 || got.Connections != 1 {
		t.Errorf("stats %+v; want nothing held and one connection", got)
	}
}

func TestRespondEncodesHeaderAndVersion(t *testing.T) {
	h := handlerFunc(func(_ context.Context, r *Request) {
		if r.Header.Key == wire.KeyAPIVersions {
			r.Header.Version = 0
			r.Conn.SetClientSoftware("librdkafka", "2.8")
			r.Respond(&kmsg.ApiVersionsResponse{ErrorCode: 35})
			return
		}
		name, version := r.Conn.ClientSoftware()
		r.Respond(&kmsg.MetadataResponse{ClusterID: kmsg.StringPtr(name + "/" + version + "@" + r.Conn.RemoteHost())})
	})
	s, _ := startServer(t, Options{}, h)
	c := dial(t, s)
	c.Write([]byte{0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0}) // version 99, no client id
	corr, body := c.receive()
	if want := []byte{0, 35, 0, 0, 0, 0}; corr != 7 || !bytes.Equal(body, want) {
		t.Fatalf("ApiVersions 99: %d %x, want 7 %x", corr, body, want)
	}
	req := frame(8, nil)
	req[7] = 2 // Metadata v2 has the cluster id
	c.Write(req)
	_, body = c.receive()
	resp := kmsg.MetadataResponse{Version: 2}
	if err := resp.ReadFrom(body); err != nil || *resp.ClusterID != "librdkafka/2.8@127.0.0.1" {
		t.Fatalf("metadata %v, %v", resp, err)
	}
}

// TestOrderD10 sends pipelined requests that are answered in any order, by any
// goroutine, in every way there is: responses leave in request order.
func TestOrderD10(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(rt, "requests")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 4), n, n).Draw(rt, "kinds")
		order := rapid.Permutation(seq(n)).Draw(rt, "order")
		inFlight := rapid.SampledFrom([]int{n, 100}).Draw(rt, "inFlight")
		held := make(chan *Request, n)
		h := handlerFunc(func(_ context.Context, r *Request) {
			if kinds[r.Header.CorrelationID] == 0 {
				r.RespondPayload(answer(r, r.Body)) // inside Handle
				return
			}
			held <- r
		})
		s, _ := startServer(t, Options{MaxInFlight: inFlight}, h)
		defer s.Close()
		c := dial(t, s)
		defer c.Close()
		var all []byte
		for i := range n {
			all = append(all, frame(int32(i), fmt.Appendf(nil, "body %d", i))...)
		}
		cut := rapid.IntRange(0, len(all)).Draw(rt, "cut")
		c.Write(all[:cut])
		c.Write(all[cut:])
		endInOrder(held, kinds, order)
		for i := range n {
			if kinds[i] == 1 {
				continue // silent
			}
			corr, body := c.receive()
			if corr != int32(i) || string(body) != fmt.Sprintf("body %d", i) {
				t.Fatalf("answer %d %q in the place of %d", corr, body, i)
			}
		}
	})
}

// endInOrder collects the requests that were not answered at once and ends them
// in the given order from many goroutines.
func endInOrder(held <-chan *Request, kinds, order []int) {
	requests := map[int]*Request{}
	for _, k := range kinds {
		if k != 0 {
			r := <-held
			requests[int(r.Header.CorrelationID)] = r
		}
	}
	var wg sync.WaitGroup
	for _, i := range order {
		r := requests[i]
		if r == nil {
			continue
		}
		end := func() {
			if kinds[i] == 1 {
				r.NoResponse()
			} else {
				r.RespondPayload(answer(r, r.Body))
			}
		}
		if kinds[i] == 2 {
			end()
			continue
		}
		wg.Go(end)
	}
	wg.Wait()
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestC006AcksZeroIsSilent has the shape of field case C006: the answer to the
// next request is the first thing to arrive, and an error closes the connection
// behind the answers before it.
func TestC006AcksZeroIsSilent(t *testing.T) {
	h := handlerFunc(func(_ context.Context, r *Request) {
		switch string(r.Body) {
		case "acks=0":
			go r.NoResponse()
		case "acks=0 to nowhere":
			r.Close(errors.New("unknown topic"))
		default:
			r.RespondPayload(answer(r, r.Body))
		}
	})
	s, w := startServer(t, Options{}, h)
	c := dial(t, s)
	c.send(1, []byte("acks=0"))
	c.send(2, []byte("metadata"))
	if corr, _ := c.receive(); corr != 2 {
		t.Fatalf("first bytes answer %d, want 2", corr)
	}
	all := slices.Concat(frame(3, []byte("metadata")), frame(4, []byte("acks=0 to nowhere")), frame(5, nil))
	c.Write(all)
	if corr, _ := c.receive(); corr != 3 {
		t.Fatalf("answer %d, want 3", corr)
	}
	c.wantEOF()
	c.Close()
	if got := w.awaitClosed(t, 1); got[0] != string(ReasonHandler) {
		t.Errorf("closed for %v", got)
	}
	w.await(t, "no request after Close", func() bool { return len(w.samples) == 4 })
}

func TestPanicClosesOneConnection(t *testing.T) {
	h := handlerFunc(func(_ context.Context, r *Request) {
		switch string(r.Body) {
		case "panic":
			panic("boom")
		case "encode":
			go r.Respond((*kmsg.MetadataResponse)(nil))
		default:
			r.RespondPayload(answer(r, r.Body))
		}
	})
	s, w := startServer(t, Options{}, h)
	good := dial(t, s)
	for i, kind := range []string{"panic", "encode"} {
		bad := dial(t, s)
		bad.send(1, []byte(kind))
		bad.wantEOF()
		w.await(t, "the panic counted", func() bool { return w.panics == i+1 })
		if got := w.awaitClosed(t, i+1); got[i] != string(ReasonPanic) {
			t.Errorf("%s: closed for %v", kind, got)
		}
		good.send(2, []byte("still here"))
		if _, body := good.receive(); string(body) != "still here" {
			t.Fatalf("healthy client got %q", body)
		}
	}
	w.await(t, "all requests finished", func() bool { return len(w.samples) == 4 })
	if st := s.Stats(); st.RequestMemoryBytes != 0 || st.RequestsInFlight != 0 {
		t.Errorf("a panic leaked: %+v", st)
	}
}

// TestAnswerAfterDeath ends requests of a connection that is gone: nothing leaks.
func TestAnswerAfterDeath(t *testing.T) {
	held := make(chan *Request, 8)
	h := handlerFunc(func(ctx context.Context, r *Request) { held <- r })
	s, w := startServer(t, Options{}, h)
	c := dial(t, s)
	for i := range 5 {
		c.send(int32(i), []byte("hold"))
	}
	var rs []*Request
	for range 5 {
		rs = append(rs, <-held)
	}
	rs[1].RespondPayload(answer(rs[1], nil)) // waits behind 0
	c.Close()
	w.awaitClosed(t, 1)
	rs[0].Respond(&kmsg.MetadataResponse{})
	rs[2].NoResponse()
	rs[3].Close(nil)
	rs[4].RespondPayload(answer(rs[4], rs[4].Body))
	rs[4].NoResponse() // a second end does nothing
	w.await(t, "all finished", func() bool { return len(w.samples) == 5 })
	if st := s.Stats(); st.RequestMemoryBytes != 0 || st.RequestsInFlight != 0 {
		t.Errorf("leaked: %+v", st)
	}
}

func TestInFlightBound(t *testing.T) {
	held := make(chan *Request, 100)
	h := handlerFunc(func(_ context.Context, r *Request) { held <- r })
	s, _ := startServer(t, Options{MaxInFlight: 3}, h)
	c := dial(t, s)
	for i := range 10 {
		c.send(int32(i), nil)
	}
	for i := range 10 {
		if n := s.Stats().RequestsInFlight; n > 3 {
			t.Fatalf("%d requests in flight, bound 3", n)
		}
		r := <-held
		if r.Header.CorrelationID != int32(i) {
			t.Fatalf("request %d came in the place of %d", r.Header.CorrelationID, i)
		}
		r.RespondPayload(answer(r, nil))
		c.receive()
	}
}

func TestPerIPCap(t *testing.T) {
	s, w := startServer(t, Options{Limits: Limits{MaxConnectionsPerIP: 2}}, echo)
	a, b := dial(t, s), dial(t, s)
	a.send(1, nil)
	a.receive()
	b.send(1, nil)
	b.receive()
	if nc, err := net.Dial("tcp", s.Addr("PLAINTEXT").String()); err == nil {
		turned := &client{t: t, Conn: nc}
		turned.SetDeadline(time.Now().Add(testTimeout))
		turned.wantEOF()
		turned.Close()
	} else if !errors.Is(err, syscall.ECONNRESET) { // it may be closed before the dial has looked
		t.Fatal(err)
	}
	w.await(t, "one turned away", func() bool { return slices.Equal(w.turned, []string{string(ReasonTooManyPerIP)}) })
	s.SetLimits(Limits{MaxConnectionsPerIP: 2, PerIPOverrides: map[netip.Addr]int{netip.MustParseAddr("127.0.0.1"): 3}})
	d := dial(t, s)
	d.send(1, nil)
	d.receive()
}

// TestMaxConnectionsWaits: as in Kafka, a client above max.connections is not
// refused; it is served when another leaves. A protected listener is not held up.
func TestMaxConnectionsWaits(t *testing.T) {
	s, w := startServer(t, Options{
		Limits: Limits{MaxConnections: 1},
		Listeners: []Listener{
			{Name: "PLAINTEXT", Addr: "127.0.0.1:0"},
			{Name: "CONTROLLER", Addr: "127.0.0.1:0", Protected: true},
		},
	}, echo)
	first := dial(t, s)
	first.send(1, nil)
	first.receive()
	second := dial(t, s)
	second.send(2, nil)
	nc, err := net.Dial("tcp", s.Addr("CONTROLLER").String())
	if err != nil {
		t.Fatal(err)
	}
	protected := &client{t: t, Conn: nc}
	defer protected.Close()
	protected.send(3, nil)
	protected.receive()
	w.mu.Lock()
	if w.opened != 2 {
		t.Errorf("%d connections opened, want 2", w.opened)
	}
	w.mu.Unlock()
	first.Close()
	protected.Close()
	if corr, _ := second.receive(); corr != 2 {
		t.Errorf("answer %d, want 2", corr)
	}
}

func TestCreationRate(t *testing.T) {
	q := newQuota(Limits{MaxCreationRate: 10})
	l := &Listener{Name: "PLAINTEXT"}
	now := time.Unix(100, 0)
	for i := range 10 {
		if d := q.pace(l, now); d != 0 {
			t.Fatalf("connection %d waits %v", i, d)
		}
	}
	if d := q.pace(l, now); d != 100*time.Millisecond {
		t.Errorf("the eleventh waits %v, want 100ms", d)
	}
	if d := q.pace(&Listener{Protected: true}, now); d != 0 {
		t.Errorf("a protected listener waits %v", d)
	}
	if d := q.pace(l, now.Add(time.Second)); d != 0 {
		t.Errorf("a second later it waits %v", d)
	}
}

func TestDrainAnswersWhatIsInFlight(t *testing.T) {
	held := make(chan *Request, 1)
	h := handlerFunc(func(_ context.Context, r *Request) { held <- r })
	s, w := startServer(t, Options{}, h)
	idle, busy := dial(t, s), dial(t, s)
	busy.send(1, []byte("in flight"))
	r := <-held
	w.await(t, "both accepted", func() bool { return w.opened == 2 })
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	idle.wantEOF()
	idle.Close()
	if _, err := net.DialTimeout("tcp", busy.RemoteAddr().String(), time.Second); err == nil {
		t.Error("a draining server accepted")
	}
	busy.Write(frame(2, []byte("too late")))
	r.RespondPayload(answer(r, r.Body))
	if corr, body := busy.receive(); corr != 1 || string(body) != "in flight" {
		t.Errorf("answer %d %q", corr, body)
	}
	busy.wantEOF()
	busy.Close()
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if got := w.awaitClosed(t, 2); got[0] != string(ReasonDrained) || got[1] != string(ReasonDrained) {
		t.Errorf("closed for %v", got)
	}
}

func TestDrainGivesUp(t *testing.T) {
	held := make(chan *Request, 1)
	h := handlerFunc(func(_ context.Context, r *Request) { held <- r })
	s, _ := startServer(t, Options{}, h)
	c := dial(t, s)
	c.send(1, nil)
	r := <-held
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("drain: %v", err)
	}
	c.wantEOF()
	r.NoResponse()
}

// failingListener fails as accept does when no descriptor is left.
type failingListener struct {
	net.Listener
	fails int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.fails > 0 {
		l.fails--
		return nil, errors.New("accept4: too many open files")
	}
	return l.Listener.Accept()
}

// TestL2AcceptSurvivesEMFILE: accept errors pause accepting, and it goes on.
func TestL2AcceptSurvivesEMFILE(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := startServer(t, Options{Listeners: []Listener{}}, echo)
	b := &boundListener{Listener: Listener{Name: "X"}, ln: &failingListener{Listener: ln, fails: 4}}
	if err := s.addListener(b); err != nil {
		t.Fatal(err)
	}
	s.wg.Add(1)
	go s.acceptLoop(b)
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, Conn: nc}
	defer c.Close()
	c.send(1, nil)
	c.receive()
}

func TestOptionsRefused(t *testing.T) {
	for _, o := range []Options{
		{MaxInFlight: -1},
		{Listeners: []Listener{{Name: "A"}, {Name: "A"}}},
	} {
		if _, err := NewServer(o, echo); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	s, err := NewServer(Options{Listeners: []Listener{{Name: "A", Addr: "256.0.0.1:0"}}}, echo)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err == nil {
		t.Error("listening on an impossible address succeeded")
	}
	s.Close()
}

var _ io.Reader = (*client)(nil)
