package record

import (
	"errors"
	"io"
	"sync"
)

// scanWindowBytes is the look-ahead of a scanner over a compressed section.
const scanWindowBytes = 32 << 10

var errScanEnd = errors.New("records end early")

// recordMeta is what the leader checks of a record without looking at its
// key, value and headers.
type recordMeta struct {
	attributes  int8
	timeDelta   int64
	offsetDelta int32
	keyBytes    int32 // negative: null
}

// scanner steps over encoded records. With src nil all bytes are in buf;
// otherwise buf is a window that fill moves along src, so memory stays at one
// window however much the section inflates to.
type scanner struct {
	buf   []byte
	r, w  int // buf[r:w] is unread
	src   io.Reader
	tee   io.Writer // gets every byte read from src
	read  int64     // bytes taken from src
	limit int64
	err   error // sticky error of src
	own   []byte
}

var scannerPool = sync.Pool{New: func() any { return &scanner{own: make([]byte, scanWindowBytes)} }}

// newScanner returns a pooled scanner over plain bytes.
func newScanner(plain []byte) *scanner {
	s := scannerPool.Get().(*scanner)
	own := s.own
	*s = scanner{own: own, buf: plain, w: len(plain), err: io.EOF}
	return s
}

// newStreamScanner returns a pooled scanner over src that stops with
// ErrTooLarge after limit bytes. Everything read is also written to tee.
func newStreamScanner(src io.Reader, tee io.Writer, limit int) *scanner {
	s := scannerPool.Get().(*scanner)
	own := s.own
	*s = scanner{own: own, buf: own, src: src, tee: tee, limit: int64(limit)}
	return s
}

func (s *scanner) release() {
	own := s.own
	*s = scanner{own: own}
	scannerPool.Put(s)
}

// fill reads more of src behind the unread bytes; false when there is none.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	if s.r > 0 {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
	for range 100 {
		n, err := s.src.Read(s.buf[s.w:])
		s.read += int64(n)
		if s.read > s.limit {
			s.err = ErrTooLarge
			return false
		}
		if n > 0 && s.tee != nil {
			if _, werr := s.tee.Write(s.buf[s.w : s.w+n]); werr != nil {
				s.err = werr
				return false
			}
		}
		s.w += n
		if err != nil {
			s.err = err
		}
		if n > 0 || err != nil {
			return n > 0
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// failure says why no more bytes came: errScanEnd at a clean end.
func (s *scanner) failure() error {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		return errScanEnd
	}
	return s.err
}

func (s *scanner) byte() (byte, error) {
	if s.r == s.w && !s.fill() {
		return 0, s.failure()
	}
	b := s.buf[s.r]
	s.r++
	return b, nil
}

// uvarint reads at most maxBytes bytes of base-128 digits.
func (s *scanner) uvarint(maxBytes int) (uint64, error) {
	var v uint64
	for i := range maxBytes {
		if s.r == s.w && !s.fill() {
			return 0, s.failure()
		}
		b := s.buf[s.r]
		s.r++
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, corrupt("varint longer than %d bytes", maxBytes)
}

// varint reads a zigzag int32; the fast path is one byte in the window.
func (s *scanner) varint() (int32, error) {
	if s.r < s.w && s.buf[s.r] < 0x80 {
		b := uint32(s.buf[s.r])
		s.r++
		return int32(b>>1) ^ -int32(b&1), nil
	}
	u, err := s.uvarint(5)
	return int32(uint32(u)>>1) ^ -int32(uint32(u)&1), err
}

// varlong reads a zigzag int64.
func (s *scanner) varlong() (int64, error) {
	u, err := s.uvarint(10)
	return int64(u>>1) ^ -int64(u&1), err
}

// skip passes over n bytes.
func (s *scanner) skip(n int64) error {
	for n > 0 {
		if s.r == s.w && !s.fill() {
			return s.failure()
		}
		step := min(n, int64(s.w-s.r))
		s.r += int(step)
		n -= step
	}
	return nil
}

// position is the number of bytes consumed so far.
func (s *scanner) position() int64 {
	if s.src == nil {
		return int64(s.r)
	}
	return s.read - int64(s.w-s.r)
}

// atEnd reports whether nothing is left to read.
func (s *scanner) atEnd() (bool, error) {
	if s.r < s.w || s.fill() {
		return false, nil
	}
	if err := s.failure(); !errors.Is(err, errScanEnd) {
		return false, err
	}
	return true, nil
}

// next steps over one record and returns its fixed part. A record whose fields
// do not fill its declared length exactly is corrupt.
func (s *scanner) next(m *recordMeta) error {
	if n := parseMeta(s.buf[s.r:s.w], m); n > 0 {
		s.r += n
		return nil
	}
	return s.nextSlow(m)
}

// nextSlow is next field by field: for records that reach beyond the window,
// have headers, or are wrong, and then it says how.
func (s *scanner) nextSlow(m *recordMeta) error {
	size, err := s.varint()
	if err != nil {
		return err
	}
	if size < 0 {
		return corrupt("record length %d", size)
	}
	end := s.position() + int64(size)
	attrs, err := s.byte()
	if err != nil {
		return err
	}
	m.attributes = int8(attrs)
	if m.timeDelta, err = s.varlong(); err != nil {
		return err
	}
	if m.offsetDelta, err = s.varint(); err != nil {
		return err
	}
	if m.keyBytes, err = s.skipField(end); err != nil {
		return err
	}
	if _, err = s.skipField(end); err != nil {
		return err
	}
	if err = s.skipHeaders(end); err != nil {
		return err
	}
	if p := s.position(); p != end {
		return corrupt("record is %d bytes away from its declared length", p-end)
	}
	return nil
}

// parseMeta is the fast path of next: a whole record in b, without headers. It
// returns the record's size, or 0 to leave it to the slow path.
func parseMeta(b []byte, m *recordMeta) int {
	size, i := zigzag(b, 0)
	if i == 0 || i > 5 || size < 6 || size > int64(len(b)-i) {
		return 0
	}
	b = b[:i+int(size)]
	m.attributes = int8(b[i])
	if m.timeDelta, i = zigzag(b, i+1); i == 0 {
		return 0
	}
	delta, j := zigzag(b, i)
	if j == 0 || j-i > 5 {
		return 0
	}
	m.offsetDelta = int32(delta)
	key, i := zigzag(b, j)
	if i == 0 || i-j > 5 || key > int64(len(b)-i) {
		return 0
	}
	m.keyBytes = int32(key)
	i += int(max(key, 0))
	value, j := zigzag(b, i)
	if j == 0 || j-i > 5 || value > int64(len(b)-j) {
		return 0
	}
	j += int(max(value, 0))
	if j != len(b)-1 || b[j] != 0 { // headers, or fields that do not fit
		return 0
	}
	return len(b)
}

// zigzag reads a varint at b[i:] and returns the position behind it, or 0. One
// and two bytes, which nearly all are, go without a loop.
func zigzag(b []byte, i int) (int64, int) {
	if i+1 < len(b) {
		v, next := uint64(b[i]), uint64(b[i+1])
		if v < 0x80 {
			return int64(v>>1) ^ -int64(v&1), i + 1
		}
		if next < 0x80 {
			v = v&0x7f | next<<7
			return int64(v>>1) ^ -int64(v&1), i + 2
		}
	}
	return zigzagLong(b, i)
}

func zigzagLong(b []byte, i int) (int64, int) {
	var v uint64
	for shift := 0; shift < 70 && i < len(b); shift += 7 {
		c := b[i]
		i++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(v>>1) ^ -int64(v&1), i
		}
	}
	return 0, 0
}

// skipField passes a length and that many bytes; a negative length is null.
func (s *scanner) skipField(end int64) (int32, error) {
	n, err := s.varint()
	if err != nil || n <= 0 {
		return n, err
	}
	if s.position()+int64(n) > end {
		return n, corrupt("field of %d bytes leaves its record", n)
	}
	return n, s.skip(int64(n))
}

func (s *scanner) skipHeaders(end int64) error {
	count, err := s.varint()
	if err != nil {
		return err
	}
	if count < 0 || int64(count) > end-s.position() {
		return corrupt("%d headers in a record", count)
	}
	for range count {
		n, err := s.skipField(end)
		if err != nil {
			return err
		}
		if n < 0 {
			return corrupt("header key length %d", n)
		}
		if _, err = s.skipField(end); err != nil {
			return err
		}
	}
	return nil
}
