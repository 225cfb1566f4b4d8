package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/wire"
)

// Handler answers requests.
type Handler interface {
	// Handle runs on the connection's reader goroutine, in request order; until it
	// returns no later request of that connection starts. It must see to it that
	// exactly one of Respond, RespondPayload, NoResponse and Close is called on r,
	// now or later, from any goroutine, also when ctx (the connection's) is done.
	Handle(ctx context.Context, r *Request)
}

// slotState is where a request stands in its connection's queue.
type slotState int8

const (
	slotPending  slotState = iota
	slotAnswered           // resp or payload is to be written
	slotSilent             // nothing is to be written
	slotClosing            // the connection ends here
)

// Request is one frame of a connection.
type Request struct {
	// Header is parsed. A handler may lower Header.Version before it answers
	// (ApiVersions answers an unknown version in version 0).
	Header wire.RequestHeader
	// Body is what follows the header. It is valid until the request is answered
	// and Handle has returned: the buffer is pooled.
	Body []byte
	// Conn is the connection it came by.
	Conn *Conn
	// ReceivedAt is when the last byte of the frame was here.
	ReceivedAt time.Time
	// Code is the error code to count the answer under; a handler may set it before
	// it answers.
	Code int16

	frame *buffer // what Body points into
	mem   memoryGrant

	claimed atomic.Bool // one of the four ends has been called

	// Set by the goroutine that claimed it, before complete.
	resp       *buffer // whole frame, size included
	payload    wire.Payload
	hasPayload bool
	sizePrefix [4]byte
	answeredAt time.Time
	closeErr   error

	// Guarded by Conn.mu.
	state     slotState
	handledAt time.Time

	startedAt time.Time // Handle began; of the reader goroutine until it returns
	queued    time.Duration
	bytesOut  int
	memory    int  // memoryOut, once it is counted in respBytes
	leakFrame bool // do not pool frame
}

// Respond answers with resp, whose version is set to Header.Version.
func (r *Request) Respond(resp kmsg.Response) {
	if !r.claim("Respond") {
		return
	}
	c := r.Conn
	buf, err := r.encode(resp)
	if err != nil {
		r.closeErr = err
		c.complete(r, slotClosing)
		c.die(ReasonPanic, err)
		return
	}
	r.resp = buf
	c.complete(r, slotAnswered)
}

// encode puts size, header and body into a pooled buffer. A panic of the encoder
// (a message with a nil part) costs this connection only.
func (r *Request) encode(resp kmsg.Response) (buf *buffer, err error) {
	s := r.Conn.srv
	defer func() {
		if p := recover(); p != nil {
			s.panicked("encode", r.Conn, p, debug.Stack())
			buf, err = nil, fmt.Errorf("encode answer to API %d: panic: %v", r.Header.Key, p)
		}
	}()
	resp.SetVersion(r.Header.Version)
	hint := s.sizeHint(r.Header.Key)
	buf = s.pool.get(int(hint.Load()))
	b := wire.AppendResponseHeader(append(buf.b[:0], 0, 0, 0, 0), r.Header)
	buf.b = resp.AppendTo(b)
	if len(buf.b)-4 > math.MaxInt32 {
		return nil, fmt.Errorf("answer to API %d is %d bytes long", r.Header.Key, len(buf.b))
	}
	binary.BigEndian.PutUint32(buf.b, uint32(len(buf.b)-4))
	old := int(hint.Load())
	hint.Store(int32(min(max(len(buf.b), old-old/8), maxSizeHint)))
	return buf, nil
}

// RespondPayload answers with p, which holds the response header and body (not
// the 4-byte size). p belongs to the connection from now on.
func (r *Request) RespondPayload(p wire.Payload) {
	if !r.claim("RespondPayload") {
		p.Release()
		return
	}
	r.payload, r.hasPayload = p, true
	size := p.SizeBytes()
	if size > math.MaxInt32 {
		r.closeErr = fmt.Errorf("answer to API %d is %d bytes long", r.Header.Key, size)
		r.Conn.complete(r, slotClosing)
		return
	}
	binary.BigEndian.PutUint32(r.sizePrefix[:], uint32(size))
	r.Conn.complete(r, slotAnswered)
}

// NoResponse ends a request that gets no answer (Produce with acks=0).
func (r *Request) NoResponse() {
	if r.claim("NoResponse") {
		r.Conn.complete(r, slotSilent)
	}
}

// Close ends the connection in the place of an answer: earlier responses still
// leave, no later request starts. err goes to the log.
func (r *Request) Close(err error) {
	if r.claim("Close") {
		r.closeErr = err
		r.Conn.complete(r, slotClosing)
	}
}

// claim makes the caller the one that ends r. A second end is a bug of a handler;
// the first counts.
func (r *Request) claim(how string) bool {
	if !r.claimed.CompareAndSwap(false, true) {
		r.Conn.srv.log.Error("request was ended twice", "second", how,
			"api", r.Header.Key, "conn", r.Conn.id)
		return false
	}
	r.answeredAt = time.Now()
	return true
}

// rangeOverhead is what a file range takes in memory while it waits to leave.
const rangeOverhead = 128

// memoryOut is what the unwritten answer holds in memory.
func (r *Request) memoryOut() int {
	if r.resp != nil {
		return cap(r.resp.b)
	}
	n := 0
	if r.hasPayload {
		for c := range r.payload.Chunks() {
			n += len(c.Bytes) + rangeOverhead
		}
	}
	return n
}
