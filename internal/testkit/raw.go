package testkit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ReadTimeout bounds every read of a RawConn: a broker that stays silent fails
// the test instead of hanging it.
const ReadTimeout = 30 * time.Second

// maxFrameBytes bounds what a broker may answer in a test.
const maxFrameBytes = 256 << 20

// RawConn is one TCP connection to a broker with nothing between the test and
// the wire.
type RawConn struct {
	T        testing.TB
	C        net.Conn
	ClientID string
	nextCorr int32
}

// Dial connects to addr and closes the connection with the test.
func Dial(t testing.TB, addr string) *RawConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, ReadTimeout)
	if err != nil {
		t.Fatalf("dial %s: %v", addr, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &RawConn{T: t, C: c, ClientID: "raw", nextCorr: 1}
}

// Frame builds a whole request frame, size included.
func (r *RawConn) Frame(req kmsg.Request, corr int32) []byte {
	b := make([]byte, 4, 256)
	b = binary.BigEndian.AppendUint16(b, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.ClientID)))
	b = append(b, r.ClientID...)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Send writes a request and returns its correlation id.
func (r *RawConn) Send(req kmsg.Request) int32 {
	r.T.Helper()
	corr := r.nextCorr
	r.nextCorr++
	r.Write(r.Frame(req, corr))
	return corr
}

// Write writes raw bytes.
func (r *RawConn) Write(b []byte) {
	r.T.Helper()
	if _, err := r.C.Write(b); err != nil {
		r.T.Fatalf("write to %s: %v", r.C.RemoteAddr(), err)
	}
}

// ReadFrame reads one whole answer after its size.
func (r *RawConn) ReadFrame() ([]byte, error) {
	if err := r.C.SetReadDeadline(time.Now().Add(ReadTimeout)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(r.C, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 4 || n > maxFrameBytes {
		return nil, fmt.Errorf("answer claims %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r.C, b)
	return b, err
}

// Read reads the answer to a request and checks its correlation id.
func Read[R kmsg.Response](r *RawConn, corr int32, into R) R {
	r.T.Helper()
	b, err := r.ReadFrame()
	if err != nil {
		r.T.Fatalf("read the answer to %s v%d: %v", kmsg.NameForKey(into.Key()), into.GetVersion(), err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != corr {
		r.T.Fatalf("answer carries correlation id %d, want %d", got, corr)
	}
	b = b[4:]
	if into.IsFlexible() && into.Key() != int16(kmsg.ApiVersions) {
		if len(b) == 0 || b[0] != 0 {
			r.T.Fatalf("response header of %s has tags: % x", kmsg.NameForKey(into.Key()), b[:min(len(b), 8)])
		}
		b = b[1:]
	}
	if err := into.ReadFrom(b); err != nil {
		r.T.Fatalf("decode %s v%d: %v", kmsg.NameForKey(into.Key()), into.GetVersion(), err)
	}
	return into
}

// Do sends a request and reads its answer.
func Do[R kmsg.Response](r *RawConn, req kmsg.Request, into R) R {
	r.T.Helper()
	into.SetVersion(req.GetVersion())
	return Read(r, r.Send(req), into)
}

// WantClosed fails unless the broker closes the connection without sending
// anything more.
func (r *RawConn) WantClosed(within time.Duration) {
	r.T.Helper()
	if err := r.C.SetReadDeadline(time.Now().Add(within)); err != nil {
		r.T.Fatal(err)
	}
	var b [1]byte
	n, err := r.C.Read(b[:])
	var ne net.Error
	if n > 0 || err == nil || (errors.As(err, &ne) && ne.Timeout()) {
		r.T.Fatalf("connection to %s is still open (read %d bytes, %v)", r.C.RemoteAddr(), n, err)
	}
}
