package wire

import (
	"iter"
	"sync"
)

// RangeFile is a file that a response sends from. A reference to it was taken
// when the Range was made; Release gives it back exactly once.
type RangeFile interface {
	// Fd returns the descriptor for the kernel's send path, and whether there
	// is one (an in-memory file has none).
	Fd() (uintptr, bool)
	ReadAt(p []byte, off int64) (int, error)
	Release()
}

// Range is Len bytes of a file from Pos on.
type Range struct {
	File RangeFile
	Pos  int64
	Len  int
}

// Chunk is one piece of a Payload: bytes, or a range when Range.File is set.
type Chunk struct {
	Bytes []byte
	Range Range
}

// Payload is the body of a message as a sequence of bytes and file ranges. The
// sender owns it from the moment it gets it until Release. The zero value is
// empty and ready. Not safe for concurrent use. Copies share the content:
// release only one of them.
type Payload struct {
	head      []byte  // all byte chunks, back to back
	chunks    []chunk // where they and the ranges lie
	sizeBytes int
}

// chunk is head[start:end], or a range when it has a file.
type chunk struct {
	start, end int
	borrowed   []byte
	rng        Range
}

// Buffers of small responses are pooled; larger ones are left to the collector,
// so that one big Metadata answer does not pin its size for good.
const (
	headStartBytes = 1 << 10
	headKeepBytes  = 64 << 10
)

var headPool = sync.Pool{New: func() any { b := make([]byte, 0, headStartBytes); return &b }}

// AppendBytes copies b to the end of the payload.
func (p *Payload) AppendBytes(b []byte) {
	p.grow(func(dst []byte) []byte { return append(dst, b...) })
}

// grow lets f append to the bytes at the end of the payload.
func (p *Payload) grow(f func(dst []byte) []byte) {
	if p.head == nil {
		p.head = *headPool.Get().(*[]byte)
	}
	start := len(p.head)
	p.head = f(p.head)
	p.sizeBytes += len(p.head) - start
	p.noteHead(start)
}

// BorrowBytes appends b without copying: it must not change until Release.
func (p *Payload) BorrowBytes(b []byte) {
	if len(b) == 0 {
		return
	}
	p.sizeBytes += len(b)
	p.chunks = append(p.chunks, chunk{borrowed: b})
}

// AppendRange appends a file range; its reference now belongs to the payload.
// An empty range is released at once.
func (p *Payload) AppendRange(r Range) {
	if r.Len <= 0 {
		if r.File != nil {
			r.File.Release()
		}
		return
	}
	p.sizeBytes += r.Len
	p.chunks = append(p.chunks, chunk{rng: r})
}

// AppendPayload moves the content of q to the end of p; q is empty afterwards.
func (p *Payload) AppendPayload(q *Payload) {
	for _, c := range q.chunks {
		switch {
		case c.rng.File != nil:
			p.AppendRange(c.rng)
		case c.borrowed != nil:
			p.BorrowBytes(c.borrowed)
		default:
			p.AppendBytes(q.head[c.start:c.end])
		}
	}
	q.chunks = nil // their files belong to p now
	q.Release()
}

// SizeBytes is the number of bytes the payload puts on the wire.
func (p *Payload) SizeBytes() int { return p.sizeBytes }

// Chunks yields the pieces in order. They are valid until Release.
func (p *Payload) Chunks() iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		for _, c := range p.chunks {
			out := Chunk{Bytes: c.borrowed, Range: c.rng}
			if c.rng.File == nil && c.borrowed == nil {
				out.Bytes = p.head[c.start:c.end:c.end]
			}
			if !yield(out) {
				return
			}
		}
	}
}

// Release gives back the files and empties the payload. It may be called again.
func (p *Payload) Release() {
	for _, c := range p.chunks {
		if c.rng.File != nil {
			c.rng.File.Release()
		}
	}
	if p.head != nil && cap(p.head) <= headKeepBytes {
		b := p.head[:0]
		headPool.Put(&b)
	}
	*p = Payload{}
}

// noteHead records that head grew from start to its end, joining neighbours.
func (p *Payload) noteHead(start int) {
	end := len(p.head)
	if end == start {
		return
	}
	if n := len(p.chunks); n > 0 {
		last := &p.chunks[n-1]
		if last.rng.File == nil && last.borrowed == nil && last.end == start {
			last.end = end
			return
		}
	}
	p.chunks = append(p.chunks, chunk{start: start, end: end})
}
