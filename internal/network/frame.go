package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

const (
	// scratchBytes is what one read between frames takes in at most; small
	// pipelined requests come many to a read.
	scratchBytes = 16 << 10
	// scratchBatches is the same after a frame of a producer's default batch
	// (batch.size is 16 KiB): several of them to a read cost a copy each, which is
	// less than the system calls that it saves.
	scratchBatches = 64 << 10
	batchFrame     = 20 << 10
	// scratchHead is the same after a larger frame, of which only the beginning
	// should take the way through a second buffer.
	scratchHead = 4 << 10
	// firstGrowth is the first buffer of a frame that is not whole yet, and
	// growthFactor its growth as bytes come in.
	firstGrowth  = 4 << 10
	growthFactor = 4
	// maxEarned bounds the first buffer of a connection that has sent big frames
	// before: growing by steps would copy each of them again.
	maxEarned = 2 << 20
)

// frameSizeError is a size no frame may have: negative, or above the limit.
type frameSizeError struct{ size, limit int }

func (e *frameSizeError) Error() string {
	what := "not a Kafka client?"
	if e.size>>16 == 0x1603 { // a record of the TLS handshake, of any version
		what = "the client speaks TLS, and this listener does not (security.protocol=PLAINTEXT)"
	}
	return fmt.Sprintf("frame of %d bytes (0 to %d are allowed): %s", e.size, e.limit, what)
}

// frameWatch is what a frameReader asks of its connection.
type frameWatch interface {
	// idleExpired is asked when a read between frames hit its deadline; nil means
	// that a new deadline is set and reading goes on.
	idleExpired(err error) error
	// frameProgress is told that got bytes of an unfinished frame are here and sets
	// the deadline of the next read.
	frameProgress(got int)
	// takeMemory charges n more bytes to the frame, waiting if it must.
	takeMemory(n int) error
}

// frameReader cuts a byte stream into frames. While it waits between frames it
// holds no buffer: on a plain socket it takes one only when bytes are there.
// One goroutine uses it.
type frameReader struct {
	conn  net.Conn
	raw   syscall.RawConn // nil for TLS and pipes
	pool  *pool
	limit int // largest frame
	watch frameWatch

	scratch *buffer // read but not consumed: scratch.b[lo:hi]
	lo, hi  int
	stash   [4]byte // the first bytes of a size while there is no scratch
	stashed int
	earned  int // largest frame that came whole, up to maxEarned
	last    int // size of the last frame

	dst   []byte // argument and results of readReady
	n     int
	err   error
	ready func(fd uintptr) bool // readReady, bound once
}

func newFrameReader(conn net.Conn, raw syscall.RawConn, p *pool, limit int, w frameWatch) *frameReader {
	f := &frameReader{conn: conn, raw: raw, pool: p, limit: limit, watch: w}
	f.ready = f.readReady
	return f
}

// size waits for the next frame and returns its size.
func (f *frameReader) size() (int, error) {
	for f.unread() < 4 {
		err := f.more()
		if err == nil {
			continue
		}
		if isTimeout(err) {
			err = f.watch.idleExpired(err)
		}
		if err != nil {
			return 0, err
		}
	}
	var head [4]byte
	f.consume(head[:])
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 || n > f.limit {
		return 0, &frameSizeError{size: n, limit: f.limit}
	}
	return n, nil
}

// scratchSize is what the next read between frames takes in at most: the frames
// of a connection are mostly alike.
func (f *frameReader) scratchSize() int {
	switch {
	case f.last <= scratchBytes/4:
		return scratchBytes
	case f.last <= batchFrame:
		return scratchBatches
	}
	return scratchHead
}

// body reads the n bytes of the frame that size announced into a pooled buffer.
func (f *frameReader) body(n int) (*buffer, error) {
	f.last = n
	if f.unread() >= n {
		if err := f.watch.takeMemory(roundUp(n)); err != nil {
			return nil, err
		}
		buf := f.pool.get(n)
		f.consume(buf.b)
		f.dropEmptyScratch()
		return buf, nil
	}
	buf, err := f.grow(n)
	if err != nil {
		return nil, err
	}
	f.earned = max(f.earned, min(n, maxEarned))
	return buf, nil
}

// grow reads a frame that is not whole yet, never holding more than a few times
// what has been received.
func (f *frameReader) grow(n int) (*buffer, error) {
	capacity := min(n, max(firstGrowth, f.unread(), f.earned))
	if err := f.watch.takeMemory(roundUp(capacity)); err != nil {
		return nil, err
	}
	buf := f.pool.get(capacity)
	got := f.unread()
	f.consume(buf.b[:got])
	f.dropEmptyScratch()
	f.watch.frameProgress(got)
	for got < n {
		if got == capacity {
			capacity = min(n, capacity*growthFactor)
			if err := f.watch.takeMemory(roundUp(capacity) - roundUp(got)); err != nil {
				f.pool.put(buf)
				return nil, err
			}
			bigger := f.pool.get(capacity)
			copy(bigger.b, buf.b)
			f.pool.put(buf)
			buf = bigger
		}
		m, err := f.read(buf.b[got:])
		if err != nil {
			f.pool.put(buf)
			return nil, unexpectedEOF(err)
		}
		got += m
		f.watch.frameProgress(got)
	}
	return buf, nil
}

// wholeFrameUnread reports whether the next frame is here already, or is known
// to be bad.
func (f *frameReader) wholeFrameUnread() bool {
	if f.scratch == nil || f.hi-f.lo < 4 {
		return false
	}
	n := int(int32(binary.BigEndian.Uint32(f.scratch.b[f.lo:])))
	return n < 0 || f.hi-f.lo-4 >= n
}

// close gives back what the reader holds.
func (f *frameReader) close() {
	f.pool.put(f.scratch)
	f.scratch, f.lo, f.hi, f.stashed = nil, 0, 0, 0
}

func (f *frameReader) unread() int {
	if f.scratch != nil {
		return f.hi - f.lo
	}
	return f.stashed
}

// consume moves len(dst) unread bytes to dst; there are that many.
func (f *frameReader) consume(dst []byte) {
	if f.scratch != nil {
		f.lo += copy(dst, f.scratch.b[f.lo:f.hi])
		return
	}
	n := copy(dst, f.stash[:f.stashed])
	f.stashed = copy(f.stash[:], f.stash[n:f.stashed])
}

func (f *frameReader) dropEmptyScratch() {
	if f.scratch != nil && f.lo == f.hi {
		f.pool.put(f.scratch)
		f.scratch, f.lo, f.hi = nil, 0, 0
	}
}

// more reads on when fewer than four bytes are unread.
func (f *frameReader) more() error {
	if f.scratch != nil { // keep the few bytes, give the buffer back while waiting
		f.stashed = copy(f.stash[:], f.scratch.b[f.lo:f.hi])
		f.pool.put(f.scratch)
		f.scratch, f.lo, f.hi = nil, 0, 0
	}
	if f.raw == nil {
		n, err := f.conn.Read(f.stash[f.stashed:])
		f.stashed += n
		return eofOnlyWhenEmpty(n, err, f.stashed)
	}
	_, err := f.read(nil)
	return eofOnlyWhenEmpty(0, err, f.stashed)
}

// read reads into dst; with a nil dst (plain sockets only) into a scratch buffer
// that is taken when there is something to read.
func (f *frameReader) read(dst []byte) (int, error) {
	if f.raw == nil {
		n, err := f.conn.Read(dst)
		if n > 0 {
			return n, nil
		}
		return 0, err
	}
	f.dst, f.n, f.err = dst, 0, nil
	err := f.raw.Read(f.ready)
	f.dst = nil
	if err == nil {
		err = f.err
	}
	return f.n, err
}

// readReady is called by the poller: false means "wait until readable".
func (f *frameReader) readReady(fd uintptr) bool {
	dst := f.dst
	if dst == nil {
		f.scratch = f.pool.get(f.scratchSize())
		dst = f.scratch.b[copy(f.scratch.b, f.stash[:f.stashed]):]
	}
	for {
		n, err := syscall.Read(int(fd), dst)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			f.dropScratchUnused()
			return false
		case err != nil:
			f.dropScratchUnused()
			f.err = err
		case n == 0:
			f.dropScratchUnused()
			f.err = io.EOF
		default:
			f.n = n
			if f.scratch != nil && f.dst == nil {
				f.lo, f.hi = 0, f.stashed+n
				f.stashed = 0
			}
		}
		return true
	}
}

func (f *frameReader) dropScratchUnused() {
	if f.dst == nil {
		f.pool.put(f.scratch)
		f.scratch = nil
	}
}

// eofOnlyWhenEmpty keeps io.EOF for an end between frames.
func eofOnlyWhenEmpty(n int, err error, unread int) error {
	if n > 0 {
		return nil
	}
	if unread > 0 {
		return unexpectedEOF(err)
	}
	return err
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
