package network

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// tlsServer serves h on a TLS listener.
func tlsServer(t testing.TB, o Options, h Handler) (s *Server, w *watcher, client *tls.Config) {
	t.Helper()
	ca := testkit.NewCA(t)
	own := ca.Issue(testkit.Leaf{})
	o.Listeners = []Listener{{Name: "SSL", Addr: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{own.TLS()}, DynamicRecordSizingDisabled: true}}}
	s, w = startServer(t, o, h)
	return s, w, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
}

// TestB1HostileHandshakes: whatever comes instead of a handshake costs its own
// connection, in bounded time, and a normal client beside it notices nothing.
func TestB1HostileHandshakes(t *testing.T) {
	s, w, conf := tlsServer(t, Options{}, echo)
	raw := dial(t, s)
	good := &client{t: t, Conn: tls.Client(raw, conf)}
	good.send(0, nil)
	good.receive()
	hello := clientHello(t)
	junk := [][]byte{
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		frame(1, []byte("Kafka in the clear")),
		{0x16, 0x03, 0x01, 0xff, 0xff},                              // a record of 65535 bytes: above the limit
		append([]byte{0x16, 0x03, 0x01, 0, 4}, 1, 0xff, 0xff, 0xff), // a hello of 16 MiB
		append([]byte{0x16, 0x03, 0x01, 0, 4}, 9, 0, 0, 0),          // no hello at all
		append(bytes.Clone(hello), "junk after a good hello"...),
		bytes.Repeat([]byte{0x16, 0x03, 0x01, 0, 0}, 100), // empty records
	}
	const n = 100
	for i := range n {
		c := dial(t, s)
		c.Write(junk[i%len(junk)])
		c.CloseWrite()
		io.Copy(io.Discard, c)
		if i%10 == 0 {
			good.send(int32(i), []byte("one record"))
			if corr, _ := good.receive(); corr != int32(i) {
				t.Fatalf("the normal client got %d", corr)
			}
		}
	}
	for _, reason := range w.awaitClosed(t, n) {
		if reason != string(ReasonTLSHandshake) {
			t.Errorf("closed for %s", reason)
		}
	}
}

// CloseWrite ends what the client sends.
func (c *client) CloseWrite() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.CloseWrite()
	}
}

// clientHello is the first record of a client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	a, b := net.Pipe()
	go func() { _ = tls.Client(a, &tls.Config{ServerName: "localhost"}).Handshake() }()
	defer a.Close()
	defer b.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(b, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(b, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// connectTLS is connect with TLS on top.
func (s *Server) connectTLS(conf *tls.Config) net.Conn {
	client, server := net.Pipe()
	s.quota.enter(&Listener{Name: "pipe"}, addrPortOf(server.RemoteAddr()).Addr())
	s.start(server, "pipe", conf)
	return client
}

// TestB1SilentHandshake: who sends nothing, half a hello, or a hello and then reads
// nothing, has the handshake time and no more.
func TestB1SilentHandshake(t *testing.T) {
	conf, _ := selfSigned(t)
	hello := clientHello(t)
	for name, sent := range map[string][]byte{"nothing": nil, "half": hello[:len(hello)/2], "whole": hello} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := pipeServer(t, Options{}, echo)
				defer s.Close()
				start := time.Now()
				c := s.connectTLS(conf)
				if len(sent) > 0 {
					c.Write(sent)
				}
				w.await(t, "the end", func() bool { return len(w.closed) == 1 })
				if d := time.Since(start); d != DefaultHandshake {
					t.Errorf("closed after %v", d)
				}
				wantReason(t, w, ReasonHandshakeTimeout)
			})
		})
	}
}

// TestStopInsideHandshake: handshakes that hang do not hold the stop up.
func TestStopInsideHandshake(t *testing.T) {
	for name, stop := range map[string]func(*Server) error{
		"drain": func(s *Server) error { return s.Drain(context.Background()) },
		"close": (*Server).Close,
	} {
		t.Run(name, func(t *testing.T) {
			conf, _ := selfSigned(t)
			hello := clientHello(t)
			synctest.Test(t, func(t *testing.T) {
				s, w := pipeServer(t, Options{}, echo)
				s.connectTLS(conf)
				s.connectTLS(conf).Write(hello[:20])
				synctest.Wait()
				start := time.Now()
				if err := stop(s); err != nil {
					t.Error(err)
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("the stop took %v", d)
				}
				w.await(t, "both ended", func() bool { return len(w.closed) == 2 })
			})
		})
	}
}

// TestRefusedCertificateIsSaid: a client whose certificate is refused hears the
// alert, although in TLS 1.3 it is already sending.
func TestRefusedCertificateIsSaid(t *testing.T) {
	ca, other := testkit.NewCA(t), testkit.NewCA(t)
	own := ca.Issue(testkit.Leaf{})
	srv := &tls.Config{Certificates: []tls.Certificate{own.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	s, w := startServer(t, Options{Listeners: []Listener{{Name: "SSL", Addr: "127.0.0.1:0", TLS: srv}}}, echo)
	foreign := other.Issue(testkit.Leaf{}).TLS()
	for name, conf := range map[string]*tls.Config{
		"certificate required": {RootCAs: ca.Pool(), ServerName: "localhost"},
		"unknown certificate authority": {
			RootCAs: ca.Pool(), ServerName: "localhost",
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil },
		},
	} {
		c := tls.Client(dial(t, s).Conn, conf)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		c.Write(frame(1, make([]byte, 64<<10)))
		_, err := c.Read(make([]byte, 1))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, reason := range w.awaitClosed(t, 2) {
		if reason != string(ReasonTLSHandshake) {
			t.Errorf("closed for %s", reason)
		}
	}
}

// TestWrongProtocolIsNamed: TLS on a plaintext port, and the other way round, are
// told apart from junk.
func TestWrongProtocolIsNamed(t *testing.T) {
	size := int(int32(binary.BigEndian.Uint32(clientHello(t))))
	if got := (&frameSizeError{size: size, limit: 100}).Error(); !strings.Contains(got, "speaks TLS") {
		t.Error(got)
	}
	if got := (&frameSizeError{size: 0x47455420, limit: 100}).Error(); strings.Contains(got, "TLS") {
		t.Error(got)
	}
	if got := (&handshakeError{tls.RecordHeaderError{}}).Error(); !strings.Contains(got, "does not speak TLS") {
		t.Error(got)
	}
	if got := (&handshakeError{errors.New("odd")}).Error(); got != "odd" {
		t.Error(got)
	}
}

// countingConn counts what reaches the socket.
type countingConn struct {
	net.Conn
	writes []int
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.writes = append(c.writes, len(b))
	return len(b), nil
}

// TestTLSAnswersLeaveInFewWrites: an answer of 1 MiB is not one write for each record.
func TestTLSAnswersLeaveInFewWrites(t *testing.T) {
	sink := &countingConn{}
	p := &pool{}
	sock := &tlsSocket{Conn: sink, pool: p}
	sock.Write([]byte("through"))
	sock.hold(100<<10, 1)
	for range 7 {
		sock.Write(make([]byte, recordBytes+22))
	}
	if len(sink.writes) != 1 {
		t.Fatalf("writes %v", sink.writes)
	}
	if err := sock.release(); err != nil || len(sink.writes) != 2 || sink.writes[1] != 7*(recordBytes+22) {
		t.Fatalf("%v, writes %v", err, sink.writes)
	}
	sock.Write([]byte("through"))
	if len(sink.writes) != 3 {
		t.Errorf("writes %v", sink.writes)
	}
}
