package network

import (
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

const sendfileSupported = true

// fileSend moves a file range to the socket with sendfile(2) at an explicit
// offset, so that any number of fetches share one descriptor and its position
// is never used. net.TCPConn.ReadFrom would use, and lock, the file's own.
type fileSend struct {
	s    *sender
	in   int
	off  int64
	want int
	n    int
	err  error
	step func(fd uintptr) bool // bound once: a closure a call would allocate
}

func (f *fileSend) init(s *sender) {
	f.s = s
	f.step = f.ready
}

// send moves n bytes of descriptor fd from pos on.
func (f *fileSend) send(fd uintptr, pos int64, n int) error {
	f.in, f.off = int(fd), pos
	for n > 0 {
		f.want, f.n, f.err = min(n, sendfileChunk), 0, nil
		f.s.armWrite()
		err := f.s.c.raw.Write(f.step)
		if err == nil {
			err = f.err
		}
		if err != nil {
			return fmt.Errorf("send a segment from %d: %w", f.off, err)
		}
		if f.n == 0 { // the file ends before the range does
			return fmt.Errorf("send a segment from %d: %w", f.off, io.ErrUnexpectedEOF)
		}
		n -= f.n
	}
	return nil
}

// ready is called by the poller; false waits until the socket takes more. The
// call may block on a cold page, and with it a thread, so only so many run at
// once.
func (f *fileSend) ready(out uintptr) bool {
	slots := f.s.c.srv.sendfiles
	for {
		slots <- struct{}{}
		n, err := unix.Sendfile(int(out), f.in, &f.off, f.want)
		<-slots
		switch err {
		case nil:
			f.n = n
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		default:
			f.err = err
		}
		return true
	}
}

// moreSend writes bytes that a file follows: MSG_MORE lets the kernel fill one
// segment with the header of an answer and the first records.
type moreSend struct {
	vec  [][]byte
	err  error
	step func(fd uintptr) bool
}

func (m *moreSend) init() { m.step = m.ready }

func (m *moreSend) send(raw syscall.RawConn, vec [][]byte) error {
	m.vec, m.err = vec, nil
	err := raw.Write(m.step)
	m.vec = nil
	if err == nil {
		err = m.err
	}
	return err
}

func (m *moreSend) ready(fd uintptr) bool {
	for len(m.vec) > 0 {
		n, err := unix.SendmsgBuffers(int(fd), m.vec, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		switch err {
		case nil:
			m.advance(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			m.err = err
			return true
		}
	}
	return true
}

// advance drops the first n bytes of vec. It changes vec's elements, which the
// sender forgets after the flush anyway.
func (m *moreSend) advance(n int) {
	for len(m.vec) > 0 && n >= len(m.vec[0]) {
		n -= len(m.vec[0])
		m.vec = m.vec[1:]
	}
	if n > 0 {
		m.vec[0] = m.vec[0][n:]
	}
}
