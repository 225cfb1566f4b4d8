package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Bounds of the decoders; see docs/formats/record-batch.md, "bounds".
const (
	// DefaultDecompressLimitBytes is what the records of one batch may inflate
	// to when the caller sets no limit of its own.
	DefaultDecompressLimitBytes = 128 << 20
	// zstdWholeBytes is the output up to which a zstd section is decoded in
	// one go into a pooled buffer, whatever window its frames declare.
	zstdWholeBytes = 2 << 20
	// zstdStreamWindowBytes is the largest window that the streaming decoder
	// keeps (RFC 8878 asks for 8 MiB); frames beyond it are decoded whole.
	zstdStreamWindowBytes = 8 << 20
	// snappyMaxRatio is above what any snappy element can expand to (a
	// three-byte copy gives 64 bytes); a larger claim is a lie.
	snappyMaxRatio = 22
	// keepBytes is the largest buffer that goes back to a pool.
	keepBytes = 2 << 20
)

// inflater streams one decompressed section. It is pooled with the state of
// every codec that it has met.
type inflater struct {
	src   bytes.Reader
	gz    *gzip.Reader
	lz    *lz4.Reader
	zs    *zstd.Decoder // only while a large section is streamed
	codec Codec
	limit int
	in    []byte // snappy: blocks not decoded yet
	block []byte // snappy, zstd: decoded, buffer reused
	out   []byte // the unread part of block
}

var inflaterPool = sync.Pool{New: func() any { return new(inflater) }}

// newInflater starts to decompress src. Errors in src show up in Read, wrapped
// as ErrCorrupt or ErrTooLarge.
func newInflater(codec Codec, src []byte, limit int) (*inflater, error) {
	f := inflaterPool.Get().(*inflater)
	f.codec, f.limit, f.in, f.out = codec, max(limit, 0), nil, nil
	f.src.Reset(src)
	if err := f.start(src); err != nil {
		f.release()
		return nil, codecError(codec, err)
	}
	return f, nil
}

func (f *inflater) start(src []byte) (err error) {
	switch f.codec {
	case None:
		return nil
	case Gzip:
		if f.gz == nil {
			f.gz, err = gzip.NewReader(&f.src)
			return err
		}
		return f.gz.Reset(&f.src)
	case Snappy:
		return f.startSnappy(src)
	case LZ4:
		if f.lz == nil {
			f.lz = lz4.NewReader(&f.src)
			return nil
		}
		f.lz.Reset(&f.src)
		return nil
	case Zstd:
		return f.startZstd(src)
	}
	return fmt.Errorf("unknown codec %d", f.codec)
}

// release returns the inflater to its pool; nil is fine.
func (f *inflater) release() {
	if f == nil {
		return
	}
	if f.zs != nil {
		f.zs.Close()
		f.zs = nil
	}
	if cap(f.block) > keepBytes {
		f.block = nil
	}
	f.src.Reset(nil)
	f.in, f.out = nil, nil
	inflaterPool.Put(f)
}

// Read implements io.Reader.
func (f *inflater) Read(p []byte) (n int, err error) {
	switch f.codec {
	case None:
		return f.src.Read(p)
	case Gzip:
		n, err = f.gz.Read(p)
	case LZ4:
		n, err = f.lz.Read(p)
	case Snappy:
		n, err = f.readSnappy(p)
	case Zstd:
		n, err = f.readZstd(p)
	}
	return n, codecError(f.codec, err)
}

// codecError sorts a decoder's error into the package's sentinels.
func codecError(c Codec, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrCorrupt) {
		return err
	}
	return corrupt("%s: %v", c, err)
}

// --- snappy ---

// xerialMagic starts the framing of snappy-java, which Kafka's Java clients
// write: magic, version, lowest compatible version, then length-prefixed blocks.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderBytes = 16
	xerialBlockBytes  = 32 << 10
)

// startSnappy accepts both forms that clients send: xerial framing and one
// bare block (librdkafka, franz-go).
func (f *inflater) startSnappy(src []byte) error {
	if !bytes.HasPrefix(src, xerialMagic) {
		if len(src) == 0 {
			return nil
		}
		return f.decodeSnappyBlock(src)
	}
	if len(src) < xerialHeaderBytes {
		return errors.New("xerial header is cut short")
	}
	f.in = src[xerialHeaderBytes:]
	return nil
}

func (f *inflater) readSnappy(p []byte) (int, error) {
	for len(f.out) == 0 {
		if len(f.in) == 0 {
			return 0, io.EOF
		}
		if len(f.in) < 4 {
			return 0, errors.New("xerial block length is cut short")
		}
		// Concatenated streams repeat the header between blocks.
		if bytes.HasPrefix(f.in, xerialMagic) && len(f.in) >= xerialHeaderBytes {
			f.in = f.in[xerialHeaderBytes:]
			continue
		}
		n := int64(binary.BigEndian.Uint32(f.in))
		if n > int64(len(f.in)-4) {
			return 0, fmt.Errorf("xerial block of %d bytes, %d left", n, len(f.in)-4)
		}
		block := f.in[4 : 4+n]
		f.in = f.in[4+n:]
		if err := f.decodeSnappyBlock(block); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// decodeSnappyBlock decodes one block after checking the length it claims.
func (f *inflater) decodeSnappyBlock(src []byte) error {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return err
	}
	if n > len(src)*snappyMaxRatio+64 {
		return fmt.Errorf("block of %d bytes claims to hold %d", len(src), n)
	}
	if n > f.limit {
		return ErrTooLarge
	}
	if cap(f.block) < n {
		f.block = make([]byte, n)
	}
	f.out, err = snappy.Decode(f.block[:cap(f.block)], src)
	return err
}

// --- zstd ---

// zstdWhole decodes into the capacity it is given and never beyond. It is safe
// for concurrent use and bounds the decoders in use to GOMAXPROCS. Its errors
// do not tell a small capacity from a corrupt input.
var zstdWhole = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(math.MaxUint32))
	if err != nil {
		panic(err) // constant options
	}
	return d
})

// startZstd decodes small sections whole, because a frame may declare a window
// far above its content, and streams what does not fit.
func (f *inflater) startZstd(src []byte) (err error) {
	// Most batches shrink less than sixteenfold: a buffer of that size first.
	for _, size := range [...]int{max(16*len(src), 64<<10), zstdWholeBytes} {
		size = min(size, zstdWholeBytes, f.limit)
		if cap(f.block) < size {
			f.block = make([]byte, 0, size)
		}
		if f.out, err = zstdWhole().DecodeAll(src, f.block[:0:min(cap(f.block), f.limit)]); err == nil {
			return nil
		}
		f.out = nil
	}
	// Callers count what they read, so the decoder's own bound may be its window.
	f.zs, err = zstd.NewReader(&f.src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max(f.limit, zstdStreamWindowBytes))), zstd.WithDecoderMaxWindow(zstdStreamWindowBytes))
	if err != nil {
		return err
	}
	return f.probeZstd(src)
}

// probeZstd reads the first bytes of the stream to learn whether its window
// fits; if not, the section is decoded whole into memory that grows with it.
func (f *inflater) probeZstd(src []byte) error {
	first := make([]byte, 1)
	n, err := f.zs.Read(first)
	if err == nil {
		f.out = first[:n]
		return nil
	}
	f.zs.Close()
	f.zs = nil
	if errors.Is(err, io.EOF) {
		return nil
	}
	if !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return zstdError(err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max(f.limit, 1))), zstd.WithDecoderMaxWindow(math.MaxUint32))
	if err != nil {
		return err
	}
	defer d.Close()
	f.out, err = d.DecodeAll(src, nil)
	return zstdError(err)
}

// zstdError sorts out the errors of the bounded decoders. A window beyond the
// limit comes here only after the content was found to be no small one.
func zstdError(err error) error {
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return ErrTooLarge
	}
	return err
}

func (f *inflater) readZstd(p []byte) (int, error) {
	if len(f.out) > 0 {
		n := copy(p, f.out)
		f.out = f.out[n:]
		return n, nil
	}
	if f.zs == nil {
		return 0, io.EOF
	}
	n, err := f.zs.Read(p)
	return n, zstdError(err)
}

// Decompress appends the decompressed src to dst. The error is ErrTooLarge when
// the result would exceed limitBytes, ErrCorrupt when src is not what codec
// writes. Memory stays near the smaller of the result and the limit.
func Decompress(dst []byte, codec Codec, src []byte, limitBytes int) ([]byte, error) {
	if codec == None {
		if len(src) > limitBytes {
			return dst, ErrTooLarge
		}
		return append(dst, src...), nil
	}
	f, err := newInflater(codec, src, limitBytes)
	if err != nil {
		return dst, err
	}
	defer f.release()
	base := len(dst)
	if hint := min(4*len(src), limitBytes, keepBytes); cap(dst)-base < hint {
		dst = append(make([]byte, 0, base+hint), dst...)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := f.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-base > limitBytes {
			return dst[:base], ErrTooLarge
		}
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst[:base], err
		}
	}
}
