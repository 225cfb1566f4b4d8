package wire

import (
	"bytes"
	"io"
	"testing"
)

// memFile is a RangeFile in memory that counts its releases.
type memFile struct {
	data     []byte
	released int
}

func (m *memFile) Fd() (uintptr, bool) { return 0, false }
func (m *memFile) Release()            { m.released++ }
func (m *memFile) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, m.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// payloadBytes reads a payload as a sender would, checks its size and releases it.
func payloadBytes(t testing.TB, p *Payload) []byte {
	t.Helper()
	var out []byte
	size := p.SizeBytes()
	for c := range p.Chunks() {
		if c.Range.File == nil {
			out = append(out, c.Bytes...)
			continue
		}
		buf := make([]byte, c.Range.Len)
		if _, err := c.Range.File.ReadAt(buf, c.Range.Pos); err != nil {
			t.Fatal(err)
		}
		out = append(out, buf...)
	}
	if len(out) != size {
		t.Errorf("SizeBytes says %d, the chunks have %d", size, len(out))
	}
	p.Release()
	return out
}

func TestPayload(t *testing.T) {
	f := &memFile{data: []byte("0123456789")}
	var p, q Payload
	p.AppendBytes([]byte("a"))
	p.AppendBytes([]byte("b"))
	p.AppendRange(Range{File: f, Pos: 2, Len: 3})
	p.AppendRange(Range{File: f}) // empty: given back at once
	q.AppendBytes([]byte("q"))
	q.BorrowBytes([]byte("borrowed"))
	q.AppendRange(Range{File: f, Pos: 9, Len: 1})
	p.AppendPayload(&q)
	p.AppendBytes([]byte("z"))
	if q.SizeBytes() != 0 || f.released != 1 {
		t.Errorf("moved payload keeps %d bytes, %d releases", q.SizeBytes(), f.released)
	}
	n := 0
	for range p.Chunks() {
		n++
	}
	if n != 6 {
		t.Errorf("%d chunks, want 6: neighbouring bytes are joined", n)
	}
	if got := payloadBytes(t, &p); !bytes.Equal(got, []byte("ab234qborrowed9z")) {
		t.Errorf("%q", got)
	}
	p.Release()
	q.Release()
	if f.released != 3 {
		t.Errorf("%d releases, want one for each of 3 ranges", f.released)
	}
}

// TestPayloadStopsEarly: a sender that stops half way still releases all.
func TestPayloadStopsEarly(t *testing.T) {
	f := &memFile{data: []byte("0123456789")}
	var p Payload
	for range 4 {
		p.AppendRange(Range{File: f, Pos: 0, Len: 1})
	}
	for range p.Chunks() {
		break
	}
	p.Release()
	if f.released != 4 {
		t.Errorf("%d of 4 released", f.released)
	}
}
