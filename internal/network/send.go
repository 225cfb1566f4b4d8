package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tidemark-io/tidemark/internal/wire"
)

const (
	// flushBytes bounds one write, so that the write deadline asks for progress
	// and not for a whole answer. Smaller writes wake the receiver more often:
	// 64 KiB cost twice the CPU (BenchmarkFetchPath). Two pieces and the headers
	// around them fit in.
	flushBytes = 2*copyBytes + headRoom
	// headRoom is for the headers that stand before the pieces of one write.
	headRoom = 4 << 10
	// wrappedFlushBytes is the same for TLS. What a client does not read is held
	// once, encrypted: the copies are given back before the write.
	wrappedFlushBytes = 128<<10 + headRoom
	// joinBelow is the smallest piece that gets TLS records of its own; smaller
	// ones are joined.
	joinBelow = 4 << 10
	// copyBytes is one piece of a file range on the copying path.
	copyBytes = 128 << 10
	// maxPieces bounds the pieces of one write; the kernel takes 1024.
	maxPieces = 512
	// sendfileChunk bounds one sendfile call.
	sendfileChunk = 1 << 20
)

// sendfileMin is the smallest range worth a sendfile call of its own; below it a
// pread into a pooled buffer joins the write of its neighbours.
var sendfileMin = 64 << 10

// path is how a file range goes to the socket.
type path int8

const (
	pathCopy     path = iota // pread into a pooled buffer, then write
	pathSendfile             // the kernel moves pages to the socket
)

// choosePath is the one place that decides (design D11). TLS and pipes have no
// plain socket, in-memory files no descriptor, and small ranges are cheaper
// copied. On loopback there is no card to take the pages, and sendfile hands
// them over in pieces of 64 KiB, each of which wakes the receiver: copying costs
// a third to a half less CPU up to 256 KiB (BenchmarkFetchPath), and a third more
// at 1 MiB, Kafka's default of max.partition.fetch.bytes (bench/NOTES.md).
func choosePath(c *Conn, r wire.Range) (p path, fd uintptr) {
	if !sendfileSupported || c.raw == nil || r.Len < sendfileMin || c.remote.Addr().IsLoopback() && r.Len < sendfileLoopbackMin {
		return pathCopy, 0
	}
	fd, ok := r.File.Fd()
	if !ok {
		return pathCopy, 0
	}
	return pathSendfile, fd
}

// sendfileLoopbackMin is sendfileMin on loopback; tests and the benchmark take
// the kernel's path there with smaller ranges.
var sendfileLoopbackMin = 512 << 10

// sender writes answers to one connection; one goroutine at a time owns it
// (Conn.writing).
type sender struct {
	c        *Conn
	batch    []*Request
	vec      [][]byte // gathered and not written
	vecBytes int
	limit    int         // of vecBytes
	copies   []*buffer   // pooled buffers that vec points into
	vecOut   net.Buffers // vec as WriteTo eats it
	deadline time.Time   // of the socket's writes

	file fileSend
	more moreSend
}

func (s *sender) init(c *Conn) {
	s.c, s.limit = c, flushBytes
	if c.raw == nil {
		s.limit = wrappedFlushBytes
	}
	s.file.init(s)
	s.more.init()
}

// responses writes the answers of batch in order and sets their bytesOut.
func (s *sender) responses(batch []*Request) error {
	defer s.forget()
	for _, r := range batch {
		if err := s.response(r); err != nil {
			return err
		}
	}
	return s.flush(false)
}

func (s *sender) response(r *Request) error {
	switch {
	case r.resp != nil:
		r.bytesOut = len(r.resp.b)
		return s.bytes(r.resp.b)
	case r.hasPayload:
		r.bytesOut = r.payload.SizeBytes() + len(r.sizePrefix)
		if err := s.bytes(r.sizePrefix[:]); err != nil {
			return err
		}
		for c := range r.payload.Chunks() {
			if err := s.chunk(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sender) chunk(c wire.Chunk) error {
	if c.Range.File == nil {
		return s.bytes(c.Bytes)
	}
	how, fd := choosePath(s.c, c.Range)
	if how == pathCopy {
		return s.copyRange(c.Range)
	}
	if err := s.flush(true); err != nil {
		return err
	}
	return s.file.send(fd, c.Range.Pos, c.Range.Len)
}

// bytes gathers b, which must not change until the flush.
func (s *sender) bytes(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), s.limit-s.vecBytes)
		s.vec = append(s.vec, b[:n])
		s.vecBytes += n
		b = b[n:]
		if s.vecBytes == s.limit || len(s.vec) == maxPieces {
			if err := s.flush(false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sender) copyRange(r wire.Range) error {
	for done := 0; done < r.Len; {
		piece := min(r.Len-done, copyBytes, s.limit-headRoom)
		if piece > s.limit-s.vecBytes { // a small piece now would make all that follow small
			if err := s.flush(false); err != nil {
				return err
			}
		}
		buf := s.c.srv.pool.get(piece)
		s.copies = append(s.copies, buf)
		n, err := r.File.ReadAt(buf.b, r.Pos+int64(done))
		if n < len(buf.b) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %d bytes of a segment at %d: %w", len(buf.b), r.Pos+int64(done), err)
		}
		if err := s.bytes(buf.b); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// flush writes what is gathered. more says that a file follows, so that the
// kernel may hold a short segment back for it.
func (s *sender) flush(more bool) error {
	if s.vecBytes == 0 {
		return nil
	}
	s.armWrite()
	err := s.write(more)
	s.forget()
	return err
}

func (s *sender) write(more bool) error {
	switch {
	case s.c.wrap != nil:
		return s.writeWrapped()
	case s.c.raw == nil:
		return s.writeJoined(s.vec)
	case more && sendfileSupported:
		return s.more.send(s.c.raw, s.vec)
	case len(s.vec) == 1:
		_, err := s.c.nc.Write(s.vec[0])
		return err
	}
	s.vecOut = s.vec
	_, err := s.vecOut.WriteTo(s.c.nc)
	s.vecOut = nil
	return err
}

// writeWrapped encrypts what is gathered and then writes it at once. Every write to
// crypto/tls becomes records of its own, so small neighbours are joined.
func (s *sender) writeWrapped() error {
	if s.vecBytes <= recordBytes {
		return s.writeJoined(s.vec)
	}
	s.c.wrap.hold(s.vecBytes, len(s.vec))
	var err error
	for vec := s.vec; len(vec) > 0 && err == nil; {
		n := 1
		for len(vec[0]) < joinBelow && n < len(vec) && len(vec[n]) < joinBelow {
			n++
		}
		err = s.writeJoined(vec[:n])
		vec = vec[n:]
	}
	s.forget()
	return errors.Join(err, s.c.wrap.release())
}

// writeJoined makes one write of many pieces where there is no writev.
func (s *sender) writeJoined(vec [][]byte) error {
	if len(vec) == 1 {
		_, err := s.c.nc.Write(vec[0])
		return err
	}
	n := 0
	for _, v := range vec {
		n += len(v)
	}
	buf := s.c.srv.pool.get(n)
	defer s.c.srv.pool.put(buf)
	b := buf.b[:0]
	for _, v := range vec {
		b = append(b, v...)
	}
	_, err := s.c.nc.Write(b)
	return err
}

// forget drops what is gathered and gives the copies back.
func (s *sender) forget() {
	for i, b := range s.copies {
		s.c.srv.pool.put(b)
		s.copies[i] = nil
	}
	clear(s.vec)
	s.vec, s.copies, s.vecBytes = s.vec[:0], s.copies[:0], 0
}

// armWrite gives the next write its deadline. The deadline is moved only when a
// quarter of it is gone: arming a timer for each small answer costs more than
// the answer.
func (s *sender) armWrite() {
	limit := s.c.srv.opts.WriteTimeout
	now := time.Now()
	if s.deadline.Sub(now) < limit-limit/4 {
		s.deadline = now.Add(limit)
		s.c.nc.SetWriteDeadline(s.deadline)
	}
}
