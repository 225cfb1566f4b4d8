package load

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	clientID = "bench"
	// maxResponse bounds what a response may announce.
	maxResponse = 256 << 20
	ioTimeout   = 120 * time.Second
)

// Conn is one connection to a broker.
type Conn struct {
	nc  net.Conn
	br  *bufio.Reader
	buf []byte
}

// Dial connects to host:port.
func Dial(addr string) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{nc: nc, br: bufio.NewReaderSize(nc, 4<<10)}, nil
}

// DialTLS connects over TLS, and says with which cipher suite; a nil config is
// plaintext, without one.
func DialTLS(addr string, config *tls.Config) (c *Conn, suite string, err error) {
	if c, err = Dial(addr); err != nil || config == nil {
		return c, "", err
	}
	config = config.Clone()
	if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
		c.Close()
		return nil, "", err
	}
	tc := tls.Client(c.nc, config)
	if err := tc.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		c.Close()
		return nil, "", err
	}
	if err := tc.Handshake(); err != nil {
		c.Close()
		return nil, "", err
	}
	state := tc.ConnectionState()
	c.nc = tc
	c.br.Reset(tc)
	return c, tls.VersionName(state.Version) + " " + tls.CipherSuiteName(state.CipherSuite), nil
}

// Close ends the connection.
func (c *Conn) Close() { _ = c.nc.Close() }

// Frame encodes a request whole: size, header, body.
func Frame(req kmsg.Request) []byte {
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	return f.AppendRequest(nil, req, 1)
}

// Write sends a frame that Frame made.
func (c *Conn) Write(frame []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	_, err := c.nc.Write(frame)
	return err
}

// Read returns the next response without its size; it is valid until the next
// Read. A large one is read straight into the connection's buffer.
func (c *Conn) Read() ([]byte, error) {
	var head [4]byte
	if err := c.nc.SetReadDeadline(time.Now().Add(ioTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > maxResponse {
		return nil, fmt.Errorf("response of %d bytes", n)
	}
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	_, err := io.ReadFull(c.br, c.buf)
	return c.buf, err
}

// Do sends one request and decodes its response into resp, which has req's
// version.
func (c *Conn) Do(req kmsg.Request, resp kmsg.Response) error {
	if err := c.Write(Frame(req)); err != nil {
		return err
	}
	b, err := c.Read()
	if err != nil {
		return err
	}
	resp.SetVersion(req.GetVersion())
	return Decode(b, resp)
}

// Decode reads a response (correlation id, tags where the version has them,
// body); it may keep references into b.
func Decode(b []byte, resp kmsg.Response) error {
	head := 4
	if resp.IsFlexible() {
		head++ // no response here has header tags
	}
	if len(b) < head {
		return io.ErrUnexpectedEOF
	}
	if u, ok := resp.(interface{ UnsafeReadFrom([]byte) error }); ok {
		return u.UnsafeReadFrom(b[head:])
	}
	return resp.ReadFrom(b[head:])
}
