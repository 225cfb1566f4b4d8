package segment

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tidemark-io/tidemark/internal/record"
)

// errNotBatch says that the bytes at a position are not a batch header, or
// that the batch does not end before the limit.
var errNotBatch = errors.New("no batch")

const (
	walkBytes = 4096      // read at once when only headers are wanted
	scanBytes = 256 << 10 // and when whole batches are
)

var walkBuffers = sync.Pool{New: func() any { return new([walkBytes]byte) }}

// walker reads batch headers one after the other. Small batches share a read,
// large ones are stepped over.
type walker struct {
	r     io.ReaderAt
	limit int64 // file size to believe
	buf   *[walkBytes]byte
	at    int64 // file position of buf[0]
	have  int
}

func newWalker(r io.ReaderAt, limit int64) *walker {
	return &walker{r: r, limit: limit, buf: walkBuffers.Get().(*[walkBytes]byte)}
}

func (w *walker) close() { walkBuffers.Put(w.buf) }

// header returns the header of the batch at pos, valid until the next call. A
// batch that does not end at or before the limit is errNotBatch.
func (w *walker) header(pos int64) (record.Batch, error) {
	if pos < 0 || pos+record.HeaderSize > w.limit {
		return nil, fmt.Errorf("%w: %d bytes are left", errNotBatch, max(0, w.limit-pos))
	}
	if pos < w.at || pos+record.HeaderSize > w.at+int64(w.have) {
		n := int(min(walkBytes, w.limit-pos))
		if err := readFull(w.r, w.buf[:n], pos); err != nil {
			return nil, err
		}
		w.at, w.have = pos, n
	}
	b := record.Batch(w.buf[pos-w.at : pos-w.at+record.HeaderSize])
	if err := saneHeader(b, w.limit-pos); err != nil {
		return nil, err
	}
	return b, nil
}

// saneHeader checks what can be checked without the records.
func saneHeader(b record.Batch, room int64) error {
	n := int64(b.LengthBytes())
	switch {
	case b.Magic() != 2:
		return fmt.Errorf("%w: magic %d", errNotBatch, b.Magic())
	case n < record.HeaderSize || n > room:
		return fmt.Errorf("%w: length %d with %d bytes left", errNotBatch, n, room)
	case b.BaseOffset() < 0 || b.LastOffsetDelta() < 0:
		return fmt.Errorf("%w: offsets %d+%d", errNotBatch, b.BaseOffset(), b.LastOffsetDelta())
	}
	return nil
}

// readFull is io.ReadFull at a position; an early end is errNotBatch.
func readFull(r io.ReaderAt, b []byte, pos int64) error {
	n, err := r.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the file ends early", errNotBatch)
	}
	return err
}

// scanner reads whole batches one after the other.
type scanner struct {
	r     io.ReaderAt
	limit int64
	buf   []byte
	at    int64
	have  int
}

// batch returns the whole batch at pos, valid until the next call, with its
// header checked but not its CRC.
func (c *scanner) batch(pos int64) (record.Batch, error) {
	head, err := c.bytes(pos, record.HeaderSize)
	if err != nil {
		return nil, err
	}
	if err := saneHeader(record.Batch(head), c.limit-pos); err != nil {
		return nil, err
	}
	b, err := c.bytes(pos, record.Batch(head).LengthBytes())
	return record.Batch(b), err
}

func (c *scanner) bytes(pos int64, n int) ([]byte, error) {
	if pos+int64(n) > c.limit {
		return nil, fmt.Errorf("%w: %d bytes are left", errNotBatch, max(0, c.limit-pos))
	}
	if pos < c.at || pos+int64(n) > c.at+int64(c.have) {
		want := int(min(int64(max(n, scanBytes)), c.limit-pos))
		if cap(c.buf) < want {
			c.buf = make([]byte, want)
		}
		c.buf = c.buf[:want]
		c.have = 0
		if err := readFull(c.r, c.buf, pos); err != nil {
			return nil, err
		}
		c.at, c.have = pos, want
	}
	return c.buf[pos-c.at : pos-c.at+int64(n)], nil
}
