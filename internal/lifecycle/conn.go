package lifecycle

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// softwareName is what ApiVersions says of us.
const softwareName = "tidemark"

// conn is one connection. Writers take writeMu, so that requests are queued in
// the order they are sent; one goroutine reads the answers, which come in that
// order. mu is a leaf and never held across I/O: the reader needs it while a
// writer is blocked.
type conn struct {
	nc       net.Conn
	opts     ChannelOptions
	versions map[int16]int16 // highest version per key that the controller has
	slots    chan struct{}   // one per request in flight

	writeMu sync.Mutex
	nextID  int32 // under writeMu

	mu      sync.Mutex
	waiting []*call // in order
	err     error
	dead    chan struct{}
}

// call is one request in flight.
type call struct {
	header wire.RequestHeader
	resp   kmsg.Response
	done   chan error
}

// newConn asks for the versions of the other side before anything else.
func newConn(ctx context.Context, nc net.Conn, o ChannelOptions) (*conn, error) {
	c := &conn{nc: nc, opts: o, slots: make(chan struct{}, o.MaxInFlight), dead: make(chan struct{})}
	go c.read()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 3
	req.ClientSoftwareName, req.ClientSoftwareVersion = softwareName, "0"
	r, err := c.exchange(ctx, req)
	if err != nil {
		c.fail(err)
		return nil, err
	}
	resp := r.(*kmsg.ApiVersionsResponse)
	if code := kerrors.Code(resp.ErrorCode); code != kerrors.None {
		c.fail(code)
		return nil, fmt.Errorf("ApiVersions: %w", code)
	}
	c.versions = make(map[int16]int16, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		if k.ApiKey >= 0 && k.MinVersion <= k.MaxVersion {
			c.versions[k.ApiKey] = k.MaxVersion
		}
	}
	return c, nil
}

func (c *conn) failed() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// fail closes the connection and ends every call.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	waiting := c.waiting
	c.waiting = nil
	close(c.dead)
	c.mu.Unlock()
	if cerr := c.nc.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		c.opts.Logger.Debug("close the connection to the controller", "err", cerr)
	}
	for _, w := range waiting {
		w.done <- err
	}
}

// roundTrip negotiates the version unless it is to be kept, sends the request
// and waits.
func (c *conn) roundTrip(ctx context.Context, req kmsg.Request, keepVersion bool) (kmsg.Response, error) {
	theirs, ok := c.versions[req.Key()]
	ours := req.MaxVersion()
	if api, known := apis.ByKey(req.Key()); known {
		ours = api.Max
	}
	if !ok {
		return nil, &fatalError{kerrors.New(kerrors.UnsupportedVersion, "the controller does not serve %s", kmsg.NameForKey(req.Key()))}
	}
	if keepVersion && req.GetVersion() > theirs {
		return nil, &fatalError{kerrors.New(kerrors.UnsupportedVersion, "the controller serves %s up to version %d only", kmsg.NameForKey(req.Key()), theirs)}
	}
	if !keepVersion {
		req.SetVersion(min(ours, theirs))
	}
	return c.exchange(ctx, req)
}

func (c *conn) exchange(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.dead:
		return nil, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w, err := c.write(req)
	if err != nil {
		c.fail(err)
		return nil, err
	}
	t := time.NewTimer(time.Duration(c.opts.RequestTimeoutMs) * time.Millisecond)
	defer t.Stop()
	select {
	case err := <-w.done:
		return w.resp, err
	case <-t.C:
		err := fmt.Errorf("no answer to %s in %d ms", w.header, c.opts.RequestTimeoutMs)
		c.fail(err)
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err() // the answer is dropped when it comes
	}
}

// write sends one request and queues its call. The slot is given back by the
// reader, or not at all when the connection failed.
func (c *conn) write(req kmsg.Request) (*call, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.nextID++
	w := &call{
		header: wire.RequestHeader{Key: req.Key(), Version: req.GetVersion(), CorrelationID: c.nextID, ClientID: c.opts.ClientID},
		resp:   req.ResponseKind(), done: make(chan error, 1),
	}
	frame := wire.AppendRequestHeader(make([]byte, 4, 512), w.header)
	frame = req.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if err := c.queue(w); err != nil {
		return nil, err
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(time.Duration(c.opts.RequestTimeoutMs) * time.Millisecond)); err != nil {
		return nil, err
	}
	if _, err := c.nc.Write(frame); err != nil {
		return nil, err
	}
	return w, nil
}

func (c *conn) queue(w *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.waiting = append(c.waiting, w)
	return nil
}

// read takes the answers off the connection until it fails.
func (c *conn) read() {
	r := bufio.NewReader(c.nc)
	for {
		frame, err := c.readFrame(r)
		if err != nil {
			c.fail(err)
			return
		}
		w := c.next()
		if w == nil {
			c.fail(errors.New("an answer without a request"))
			return
		}
		body, err := wire.ParseResponseHeader(frame, w.header)
		if err == nil {
			err = readResponse(w.resp, body, w.header.Version)
		}
		w.done <- err
		<-c.slots
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func readResponse(resp kmsg.Response, body []byte, version int16) error {
	resp.SetVersion(version)
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("decode %s: %w", kmsg.NameForKey(resp.Key()), err)
	}
	return nil
}

func (c *conn) readFrame(r *bufio.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > c.opts.MaxResponseBytes {
		return nil, fmt.Errorf("an answer of %d bytes, at most %d are taken", n, c.opts.MaxResponseBytes)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func (c *conn) next() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return nil
	}
	w := c.waiting[0]
	c.waiting = c.waiting[1:]
	return w
}
