package network

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/wire"
)

// segment is a wire.RangeFile that counts its references.
type segment struct {
	f      *os.File
	mem    []byte // when f is nil
	refs   atomic.Int64
	reads  atomic.Int64
	hideFd bool
}

func (s *segment) Fd() (uintptr, bool) {
	if s.f == nil || s.hideFd {
		return 0, false
	}
	return s.f.Fd(), true
}

func (s *segment) ReadAt(p []byte, off int64) (int, error) {
	s.reads.Add(1)
	if s.f == nil {
		return bytes.NewReader(s.mem).ReadAt(p, off)
	}
	return s.f.ReadAt(p, off)
}

func (s *segment) Release() { s.refs.Add(-1) }

// rng takes a reference.
func (s *segment) rng(pos int64, n int) wire.Range {
	s.refs.Add(1)
	return wire.Range{File: s, Pos: pos, Len: n}
}

// newSegment is a file of n random bytes.
func newSegment(t testing.TB, n int) (*segment, []byte) {
	t.Helper()
	data, rng := make([]byte, n), mathrand.New(mathrand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	path := filepath.Join(t.TempDir(), "00000000000000000000.log")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &segment{f: f}, data
}

// selfSigned makes a server certificate for 127.0.0.1.
func selfSigned(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// piece is a part of an answer: bytes, or a range of the segment.
type piece struct{ inFile, pos, n int }

// TestPayloadPaths answers with random mixtures of bytes and ranges, over every
// path: sendfile, copied on a plain socket, and TLS. Each arrives whole, and
// every reference comes back.
func TestPayloadPaths(t *testing.T) {
	const fileBytes = 2 << 20
	useSendfile(t, 16<<10)
	seg, data := newSegment(t, fileBytes)
	hidden := &segment{f: seg.f, hideFd: true}
	serverTLS, clientTLS := selfSigned(t)
	pieces := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) piece {
		p := piece{inFile: rapid.IntRange(0, 2).Draw(t, "kind"), pos: rapid.IntRange(0, fileBytes-1).Draw(t, "pos")}
		most := min(fileBytes-p.pos, rapid.SampledFrom([]int{64, 20_000, 600_000}).Draw(t, "scale"))
		p.n = rapid.IntRange(0, most).Draw(t, "len")
		return p
	}), 0, 6)
	var answers [][]piece
	h := handlerFunc(func(_ context.Context, r *Request) {
		var p wire.Payload
		p.AppendBytes(wire.AppendResponseHeader(nil, r.Header))
		for _, x := range answers[r.Header.CorrelationID] {
			switch x.inFile {
			case 0:
				p.AppendBytes(data[x.pos : x.pos+x.n])
			case 1:
				p.AppendRange(seg.rng(int64(x.pos), x.n))
			default:
				p.AppendRange(hidden.rng(int64(x.pos), x.n))
			}
		}
		go r.RespondPayload(p)
	})
	s, w := startServer(t, Options{Listeners: []Listener{
		{Name: "PLAINTEXT", Addr: "127.0.0.1:0"}, {Name: "SSL", Addr: "127.0.0.1:0", TLS: serverTLS},
	}}, h)
	done := 0
	rapid.Check(t, func(rt *rapid.T) {
		answers = rapid.SliceOfN(pieces, 1, 4).Draw(rt, "answers")
		secure := rapid.Bool().Draw(rt, "tls")
		nc, err := net.Dial("tcp", s.Addr(map[bool]string{false: "PLAINTEXT", true: "SSL"}[secure]).String())
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(testTimeout))
		if secure {
			nc = tls.Client(nc, clientTLS)
		}
		defer nc.Close()
		for i := range answers {
			if _, err := nc.Write(frame(int32(i), nil)); err != nil {
				t.Fatal(err)
			}
		}
		for i, a := range answers {
			var want []byte
			for _, x := range a {
				want = append(want, data[x.pos:x.pos+x.n]...)
			}
			corr, got, err := readResponse(nc)
			if err != nil || corr != int32(i) || !bytes.Equal(got, want) {
				t.Fatalf("answer %d (%d bytes, want %d of %v), %v", corr, len(got), len(want), a, err)
			}
		}
		done += len(answers)
		w.await(t, "all finished", func() bool { return len(w.samples) == done })
		if n := seg.refs.Load() + hidden.refs.Load(); n != 0 {
			t.Fatalf("%d references were not released", n)
		}
	})
}

func TestChoosePath(t *testing.T) {
	seg, _ := newSegment(t, 10)
	mem := &segment{mem: make([]byte, 10)}
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	far, near := netip.MustParseAddrPort("10.1.2.3:9"), netip.MustParseAddrPort("127.0.0.1:9")
	for _, c := range []struct {
		raw  syscall.RawConn
		from netip.AddrPort
		seg  *segment
		n    int
		want path
	}{
		{raw, far, seg, sendfileMin, pathSendfile},
		{raw, far, seg, sendfileMin - 1, pathCopy},
		{raw, near, seg, sendfileMin, pathCopy},
		{nil, far, seg, sendfileMin, pathCopy},
		{raw, far, mem, sendfileMin, pathCopy},
	} {
		if !sendfileSupported {
			c.want = pathCopy
		}
		if got, _ := choosePath(&Conn{raw: c.raw, remote: c.from}, wire.Range{File: c.seg, Len: c.n}); got != c.want {
			t.Errorf("%+v: path %d", c, got)
		}
	}
}

// useSendfile takes the kernel's path on loopback, from a size on, for a test.
func useSendfile(t testing.TB, from int) {
	oldMin, oldLoop := sendfileMin, sendfileLoopbackMin
	sendfileMin, sendfileLoopbackMin = from, from
	t.Cleanup(func() { sendfileMin, sendfileLoopbackMin = oldMin, oldLoop })
}

// TestManyPieces answers with more pieces than one system call takes.
func TestManyPieces(t *testing.T) {
	useSendfile(t, 16<<10)
	seg, data := newSegment(t, 100_000)
	h := handlerFunc(func(_ context.Context, r *Request) {
		p := answer(r, nil)
		for i := range 3000 {
			p.AppendRange(seg.rng(int64(i), 3))
			p.AppendBytes([]byte{1, 2})
		}
		p.AppendRange(seg.rng(0, len(data)))
		r.RespondPayload(p)
	})
	s, _ := startServer(t, Options{}, h)
	c := dial(t, s)
	c.send(1, nil)
	_, got := c.receive()
	var want []byte
	for i := range 3000 {
		want = append(append(want, data[i:i+3]...), 1, 2)
	}
	if !bytes.Equal(got, append(want, data...)) {
		t.Error("the pieces arrived changed")
	}
}

// TestShortFile: a range past the end of its file cannot be answered; the
// connection ends, because the size is on the wire already.
func TestShortFile(t *testing.T) {
	useSendfile(t, 16<<10)
	for _, hide := range []bool{false, true} {
		seg, _ := newSegment(t, 100_000)
		seg.hideFd = hide
		h := handlerFunc(func(_ context.Context, r *Request) {
			p := answer(r, nil)
			p.AppendRange(seg.rng(50_000, 100_000))
			r.RespondPayload(p)
		})
		s, w := startServer(t, Options{}, h)
		c := dial(t, s)
		c.send(1, nil)
		if _, _, err := readResponse(c); err == nil {
			t.Error("a short file was answered")
		}
		if got := w.awaitClosed(t, 1); got[0] != string(ReasonWriteError) {
			t.Errorf("closed for %v", got)
		}
		if n := seg.refs.Load(); n != 0 {
			t.Errorf("%d references were not released", n)
		}
	}
}

// TestSlowReaderOfFile reads a large range slowly: the write deadline asks for
// progress only.
func TestSlowReaderOfFile(t *testing.T) {
	useSendfile(t, 16<<10)
	seg, data := newSegment(t, 8<<20)
	h := handlerFunc(func(_ context.Context, r *Request) {
		p := answer(r, nil)
		p.AppendRange(seg.rng(0, len(data)))
		r.RespondPayload(p)
	})
	s, _ := startServer(t, Options{WriteTimeout: 2 * time.Second, SendBufferBytes: 16 << 10}, h)
	c := dial(t, s)
	c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	c.send(1, nil)
	var got bytes.Buffer
	buf := make([]byte, 64<<10)
	for got.Len() < 8+len(data) {
		n, err := io.ReadFull(c, buf[:min(len(buf), 8+len(data)-got.Len())])
		if err != nil {
			t.Fatalf("after %d bytes: %v", got.Len(), err)
		}
		got.Write(buf[:n])
	}
	if !bytes.Equal(got.Bytes()[8:], data) {
		t.Error("the range arrived changed")
	}
}

// TestPlaintextOnTLSPort: a plaintext client on a TLS port is let go at once.
func TestPlaintextOnTLSPort(t *testing.T) {
	serverTLS, _ := selfSigned(t)
	s, w := startServer(t, Options{Listeners: []Listener{{Name: "SSL", Addr: "127.0.0.1:0", TLS: serverTLS}}}, echo)
	c := dial(t, s)
	c.send(1, []byte("in the clear"))
	io.Copy(io.Discard, c)
	if got := w.awaitClosed(t, 1); got[0] != string(ReasonTLSHandshake) {
		t.Errorf("closed for %v", got)
	}
}

// metadataBody is a body of 100 bytes that decodes: one topic name.
func metadataBody() []byte {
	return append([]byte{0, 0, 0, 1, 0, 94}, bytes.Repeat([]byte{'t'}, 94)...)
}

// benchmarkEcho sends depth requests at a time and reads their answers.
func benchmarkEcho(b *testing.B, depth int, h Handler) {
	s, _ := startServer(b, Options{Observer: nobody{}}, h)
	c := dial(b, s)
	c.SetDeadline(time.Time{})
	f := bytes.Repeat(frame(1, metadataBody()), depth)
	in := make([]byte, 108*depth)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(f); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/request")
}

// BenchmarkRoundTrip is the cost of a request and its answer, one at a time and
// pipelined, answered by the Handler or by another goroutine, as a commit loop
// does.
func BenchmarkRoundTrip(b *testing.B) {
	later := make(chan *Request, 1000)
	defer close(later)
	go func() {
		for r := range later {
			r.RespondPayload(answer(r, r.Body))
		}
	}()
	async := handlerFunc(func(_ context.Context, r *Request) { later <- r })
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("sync/depth=%d", depth), func(b *testing.B) { benchmarkEcho(b, depth, echo) })
		b.Run(fmt.Sprintf("async/depth=%d", depth), func(b *testing.B) { benchmarkEcho(b, depth, async) })
	}
}

// BenchmarkProduceFrame receives one frame of about 1 MiB at a time.
func BenchmarkProduceFrame(b *testing.B) {
	h := handlerFunc(func(_ context.Context, r *Request) { r.RespondPayload(answer(r, nil)) })
	s, _ := startServer(b, Options{Observer: nobody{}}, h)
	c := dial(b, s)
	c.SetDeadline(time.Time{})
	f, in := frame(1, make([]byte, 1<<20)), make([]byte, 8)
	b.SetBytes(int64(len(f)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(f); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
	}
}

// cpuTime is what this process has used, client and server together.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFetchPath compares the two ways a range can take (choosePath), per
// size of range. Loopback flatters the copy: the receiver pays the same in both,
// and no card takes the pages.
func BenchmarkFetchPath(b *testing.B) {
	seg, _ := newSegment(b, 4<<20)
	for _, size := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		for _, how := range []string{"copy", "sendfile"} {
			b.Run(fmt.Sprintf("%s/%dKiB", how, size>>10), func(b *testing.B) {
				useSendfile(b, map[string]int{"copy": 1 << 30, "sendfile": 1}[how])
				h := handlerFunc(func(_ context.Context, r *Request) {
					p := answer(r, nil)
					p.AppendRange(seg.rng(0, size))
					r.RespondPayload(p)
				})
				s, _ := startServer(b, Options{Observer: nobody{}}, h)
				c := dial(b, s)
				c.SetDeadline(time.Time{})
				f, in := frame(1, nil), make([]byte, size+8)
				b.SetBytes(int64(size))
				before := cpuTime(b)
				for b.Loop() {
					if _, err := c.Write(f); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(c, in); err != nil {
						b.Fatal(err)
					}
				}
				used := cpuTime(b) - before
				b.ReportMetric(used.Seconds()*1000/(float64(b.N)*float64(size)/(1<<30)), "cpu-ms/GiB")
				s.Close() // no handler may read sendfileMin when it changes
			})
		}
	}
}
