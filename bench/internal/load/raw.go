package load

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// RawRequest asks the ceiling's second port for Len bytes of its file from Pos
// on; the answer is those bytes and nothing else.
type RawRequest struct {
	Pos int64
	Len int32
}

// Append encodes the request.
func (r RawRequest) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, uint64(r.Pos)), uint32(r.Len))
}

// RawRequestBytes is the size of an encoded RawRequest.
const RawRequestBytes = 12

// DrainRaw reads a file of size bytes again and again in pieces, as Drain reads
// partitions, from a server that does nothing but sendfile.
func DrainRaw(addr string, size int64, piece, conns int, d time.Duration) (Read, error) {
	var wg sync.WaitGroup
	begin := time.Now()
	totals, errs := make([]int64, conns), make([]error, conns)
	for i := range conns {
		wg.Go(func() { totals[i], errs[i] = drainRawConn(addr, size, piece, begin.Add(d)) })
	}
	wg.Wait()
	out := Read{Took: time.Since(begin)}
	for i, err := range errs {
		if err != nil {
			return out, err
		}
		out.Bytes += totals[i]
	}
	return out, nil
}

func drainRawConn(addr string, size int64, piece int, deadline time.Time) (int64, error) {
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	buf, total, pos := make([]byte, piece), int64(0), int64(0)
	var head []byte
	for time.Now().Before(deadline) {
		if pos+int64(piece) > size {
			pos = 0
		}
		head = RawRequest{Pos: pos, Len: int32(piece)}.Append(head[:0])
		if _, err := nc.Write(head); err != nil {
			return total, err
		}
		if _, err := io.ReadFull(nc, buf); err != nil {
			return total, err
		}
		pos += int64(piece)
		total += int64(piece)
	}
	return total, nil
}
