package record

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// LevelDefault is the level that picks Kafka's default for each codec: gzip -1
// (the library's own), lz4 9 (the fast compressor), zstd 3.
const LevelDefault = 0

// Kafka's defaults and bounds of compression.<codec>.level.
const (
	gzipMaxLevel     = 9
	lz4DefaultLevel  = 9
	lz4MaxLevel      = 17
	zstdDefaultLevel = 3
	zstdWindowBytes  = 1 << 20
)

// deflater compresses one section into an io.Writer; Close ends the section.
type deflater interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// deflaterPools holds finished deflaters by codec and effort.
var deflaterPools [Zstd + 1][gzipMaxLevel + 1]sync.Pool

// effort maps Kafka's level to the few efforts our libraries have.
func effort(c Codec, level int) int {
	switch c {
	case Gzip:
		if level < 1 || level > gzipMaxLevel {
			return 0 // library default
		}
		return level
	case LZ4:
		if level <= 0 || level == lz4DefaultLevel || level > lz4MaxLevel {
			return 0 // fast, as Kafka does for its default level
		}
		return min(level, 9)
	case Zstd:
		if level == LevelDefault {
			level = zstdDefaultLevel
		}
		return int(zstd.EncoderLevelFromZstd(level))
	}
	return 0
}

// newDeflater returns a pooled deflater that writes to w. Give it back with
// putDeflater after Close.
func newDeflater(c Codec, level int, w io.Writer) (deflater, error) {
	e := effort(c, level)
	if !c.Valid() {
		return nil, fmt.Errorf("compress: unknown codec %d", c)
	}
	if d, ok := deflaterPools[c][e].Get().(deflater); ok {
		d.Reset(w)
		return d, nil
	}
	switch c {
	case None:
		return &plainWriter{w: w}, nil
	case Gzip:
		if e == 0 {
			e = gzip.DefaultCompression
		}
		return gzip.NewWriterLevel(w, e)
	case Snappy:
		d := &xerialWriter{}
		d.Reset(w)
		return d, nil
	case LZ4:
		return newLZ4Writer(w, e)
	default:
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.EncoderLevel(e)), zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWindowBytes),
			zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
	}
}

func putDeflater(c Codec, level int, d deflater) {
	d.Reset(io.Discard)
	deflaterPools[c][effort(c, level)].Put(d)
}

// newLZ4Writer maps an effort to the library's level bits.
func newLZ4Writer(w io.Writer, e int) (*lz4.Writer, error) {
	level := lz4.Fast
	if e > 0 {
		level = lz4.CompressionLevel(1 << (8 + e)) // Level1 is 1<<9
	}
	d := lz4.NewWriter(w)
	// Kafka's own writer uses 64 KiB independent blocks without checksums.
	err := d.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false),
		lz4.CompressionLevelOption(level), lz4.ConcurrencyOption(1))
	return d, err
}

// plainWriter is the deflater of codec None.
type plainWriter struct{ w io.Writer }

func (p *plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *plainWriter) Close() error                { return nil }
func (p *plainWriter) Reset(w io.Writer)           { p.w = w }

// xerialWriter writes snappy-java's framing with 32 KiB blocks.
type xerialWriter struct {
	w       io.Writer
	started bool
	plain   []byte
	packed  []byte
}

func (x *xerialWriter) Reset(w io.Writer) {
	x.w, x.started, x.plain = w, false, x.plain[:0]
}

func (x *xerialWriter) Write(b []byte) (int, error) {
	total := len(b)
	for len(b) > 0 {
		n := min(len(b), xerialBlockBytes-len(x.plain))
		x.plain = append(x.plain, b[:n]...)
		b = b[n:]
		if len(x.plain) == xerialBlockBytes {
			if err := x.flush(); err != nil {
				return total - len(b), err
			}
		}
	}
	return total, nil
}

func (x *xerialWriter) Close() error { return x.flush() }

func (x *xerialWriter) flush() error {
	if !x.started {
		x.started = true
		var h [xerialHeaderBytes]byte
		copy(h[:], xerialMagic)
		binary.BigEndian.PutUint32(h[8:], 1)
		binary.BigEndian.PutUint32(h[12:], 1)
		if _, err := x.w.Write(h[:]); err != nil {
			return err
		}
	}
	if len(x.plain) == 0 {
		return nil
	}
	if need := 4 + s2.MaxEncodedLen(len(x.plain)); cap(x.packed) < need {
		x.packed = make([]byte, need)
	}
	block := s2.EncodeSnappy(x.packed[4:cap(x.packed)], x.plain)
	out := x.packed[: 4+len(block) : cap(x.packed)]
	binary.BigEndian.PutUint32(out, uint32(len(block)))
	x.plain = x.plain[:0]
	_, err := x.w.Write(out)
	return err
}

// cappedBuffer collects output up to a bound; beyond it everything is dropped
// and full is set, so that a caller can go on reading the input.
type cappedBuffer struct {
	b    []byte
	max  int
	full bool
}

func (c *cappedBuffer) Write(p []byte) (int, error) {
	if c.full || len(c.b)+len(p) > c.max {
		c.full = true
		return len(p), nil
	}
	c.b = append(c.b, p...)
	return len(p), nil
}

// appendWriter appends to a slice without a bound.
type appendWriter struct{ b []byte }

func (a *appendWriter) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// Compress appends src, compressed as Kafka's own clients do it, to dst. Level
// is Kafka's compression.<codec>.level; LevelDefault picks its default.
func Compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	out := &appendWriter{b: dst}
	d, err := newDeflater(codec, level, out)
	if err != nil {
		return dst, err
	}
	if _, err = d.Write(src); err == nil {
		err = d.Close()
	}
	if err != nil {
		return dst, fmt.Errorf("compress %s: %w", codec, err)
	}
	putDeflater(codec, level, d)
	return out.b, nil
}
