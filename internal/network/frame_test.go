package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// noWatch lets everything pass and counts memory.
type noWatch struct{ taken int }

func (w *noWatch) idleExpired(err error) error { return err }
func (w *noWatch) frameProgress(int)           {}
func (w *noWatch) takeMemory(n int) error {
	w.taken += n
	return nil
}

// chunked is a net.Conn whose reads return the stream in pieces as the cuts say.
type chunked struct {
	net.Conn
	stream []byte
	cuts   []byte
	turn   int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.stream) == 0 {
		return 0, io.EOF
	}
	n := len(c.stream)
	if len(c.cuts) > 0 {
		n = int(c.cuts[c.turn%len(c.cuts)]) + 1
		c.turn++
	}
	n = copy(p, c.stream[:min(n, len(c.stream))])
	c.stream = c.stream[n:]
	return n, nil
}

// reference cuts a stream the simple way.
func reference(stream []byte, limit int) (frames [][]byte, bad bool) {
	for len(stream) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(stream)))
		if n < 0 || n > limit {
			return frames, true
		}
		if len(stream)-4 < n {
			return frames, false
		}
		frames = append(frames, stream[4:4+n])
		stream = stream[4+n:]
	}
	return frames, false
}

// readFrames reads until an error and checks each frame against want.
func readFrames(t *testing.T, f *frameReader, w *noWatch, want [][]byte) error {
	t.Helper()
	defer f.close()
	for i := 0; ; i++ {
		n, err := f.size()
		if err == nil {
			var buf *buffer
			w.taken = 0
			if buf, err = f.body(n); err == nil {
				if i >= len(want) || !bytes.Equal(buf.b, want[i]) {
					t.Fatalf("frame %d is %d bytes %.20x", i, len(buf.b), buf.b)
				}
				if w.taken < cap(buf.b) {
					t.Fatalf("frame %d took %d of the budget for a buffer of %d", i, w.taken, cap(buf.b))
				}
				f.pool.put(buf)
				continue
			}
		}
		if i != len(want) {
			t.Fatalf("%d frames, then %v; want %d frames", i, err, len(want))
		}
		return err
	}
}

// fuzzLimit is the largest frame of the fuzz target.
const fuzzLimit = 20_000

// FuzzFrames: any stream, arriving in any pieces, over a pipe-like connection and
// over a socket, is cut as the simple way cuts it.
func FuzzFrames(f *testing.F) {
	long := append([]byte{0, 0, 0x4e, 0}, make([]byte, 0x4e00)...)
	f.Add([]byte{0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2}, []byte{0})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte{3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, []byte{})
	f.Add(append(long, long...), []byte{255, 1, 90})
	f.Add(append([]byte{0, 0, 0, 0, 0, 0, 0x4e, 0x20}, make([]byte, fuzzLimit)...), []byte{200})
	f.Add([]byte{0, 0, 0x4e, 0x21}, []byte{})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		want, bad := reference(stream, fuzzLimit)
		p := &pool{}
		var w noWatch
		err := readFrames(t, newFrameReader(&chunked{stream: stream, cuts: cuts}, nil, p, fuzzLimit, &w), &w, want)
		checkEnd(t, err, bad, stream, want)
		client, server := socketPair(t)
		defer server.Close()
		go func() {
			defer client.Close()
			rest := stream
			for i := 0; len(rest) > 0; i++ {
				n := len(rest)
				if len(cuts) > 0 && i < 20 {
					n = min(n, 1+int(cuts[i%len(cuts)]))
				}
				if _, err := client.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		raw, err := server.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = readFrames(t, newFrameReader(server, raw, p, fuzzLimit, &w), &w, want)
		checkEnd(t, err, bad, stream, want)
	})
}

// checkEnd checks how a stream ended: with a bad size, in the middle, or between
// frames.
func checkEnd(t *testing.T, err error, bad bool, stream []byte, frames [][]byte) {
	t.Helper()
	whole := 0
	for _, f := range frames {
		whole += 4 + len(f)
	}
	var size *frameSizeError
	switch {
	case bad:
		if !errors.As(err, &size) {
			t.Fatalf("a bad size ended with %v", err)
		}
	case whole == len(stream):
		if err != io.EOF {
			t.Fatalf("a whole stream ended with %v", err)
		}
	case err != io.ErrUnexpectedEOF:
		t.Fatalf("a cut stream ended with %v", err)
	}
}

// socketPair is a TCP connection on loopback.
func socketPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(testTimeout))
	other.SetDeadline(time.Now().Add(testTimeout))
	return nc.(*net.TCPConn), other.(*net.TCPConn)
}

func TestPoolClasses(t *testing.T) {
	var p pool
	for _, n := range []int{0, 1, 511, 512, 513, 4096, 1 << 20, 1<<22 - 1, 1 << 22, 1<<22 + 1} {
		b := p.get(n)
		if len(b.b) != n || cap(b.b) != roundUp(n) {
			t.Errorf("get(%d): len %d cap %d, budget is charged %d", n, len(b.b), cap(b.b), roundUp(n))
		}
		p.put(b)
	}
	p.put(nil)
	grown := p.get(100)
	grown.b = append(grown.b, make([]byte, 2000)...)
	p.put(grown)
	if b := p.get(512); cap(b.b) < 512 {
		t.Errorf("a grown buffer came back with %d", cap(b.b))
	}
	q := pool{poison: true}
	b := q.get(10)
	kept := b.b
	q.put(b)
	if kept[0] != poisonByte || kept[9] != poisonByte {
		t.Error("a freed buffer is not poisoned")
	}
}
