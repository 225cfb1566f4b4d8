package beacon

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Bounds of a decoded set: damaged or hostile metadata must not cost memory.
const (
	maxRuns       = 1 << 17
	maxPlainBytes = 1 << 19
)

// Encodings of a set, the first character of its text.
const (
	encRuns       = 'r' // uvarint pairs: gap since the last run's end, length
	encBits       = 'b' // bit i is offset Effect+i, lowest bit first
	encRunsPacked = 'z' // encRuns in one zstd frame
	encBitsPacked = 'y' // encBits in one zstd frame
)

// Run is a closed range of completed offsets. Every offset in it was delivered
// and completed: gaps in the log never enter a run.
type Run struct{ First, Last int64 }

// Set is a list of runs, ascending and never touching each other.
type Set []Run

// Add appends an offset that is above every offset of the set.
func (s Set) Add(offset int64) Set {
	if n := len(s); n > 0 && s[n-1].Last+1 == offset {
		s[n-1].Last = offset
		return s
	}
	return append(s, Run{offset, offset})
}

// Contains reports whether offset is in the set.
func (s Set) Contains(offset int64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].Last >= offset })
	return i < len(s) && s[i].First <= offset
}

// Len counts the offsets of the set.
func (s Set) Len() (n int64) {
	for _, r := range s {
		n += r.Last - r.First + 1
	}
	return n
}

// encodeSet returns the smallest text of a prefix of s that fits limit
// characters, and how many runs that prefix has: all of them, or within a few
// per cent of as many as fit.
func encodeSet(s Set, base int64, limit int) (string, int) {
	text := encodeSmallest(s, base, encodings)
	if len(text) <= limit || limit < 4 {
		return fitting(text, len(s), limit)
	}
	// Size grows about evenly with the number of runs: a few guesses get close,
	// where a search would encode the set a dozen times. The encoding that was the
	// smallest for the whole is kept.
	kind := text[:1]
	n := len(s)
	for range 12 {
		if n = int(int64(n) * int64(limit) * 99 / 100 / int64(len(text))); n == 0 {
			return "", 0
		}
		if text = encodeSmallest(s[:n], base, kind); len(text) <= limit {
			return text, n
		}
	}
	return "", 0
}

func fitting(text string, n, limit int) (string, int) {
	if len(text) > limit {
		return "", 0
	}
	return text, n
}

// encodings are all kinds, in the order in which they are tried.
const encodings = string(encRuns) + string(encBits) + string(encRunsPacked) + string(encBitsPacked)

// encodeSmallest tries the given kinds.
func encodeSmallest(s Set, base int64, kinds string) string {
	var best []byte
	var bestKind byte
	// A set that is thin over a wide span is no case for one bit an offset.
	span := (s[len(s)-1].Last - base + 8) / 8
	bitsFit := span <= maxPlainBytes && span <= int64(16*len(s)+64)
	for i := range len(kinds) {
		var b []byte
		switch kind := kinds[i]; {
		case kind == encRuns:
			b = appendRuns(nil, s, base)
		case kind == encRunsPacked && (best == nil || len(best) > packFrom):
			b = pack(appendRuns(nil, s, base))
		case kind == encBits && bitsFit:
			b = appendBits(nil, s, base)
		case kind == encBitsPacked && bitsFit && (best == nil || len(best) > packFrom):
			b = pack(appendBits(nil, s, base))
		default:
			continue
		}
		if best == nil || len(b) < len(best) {
			best, bestKind = b, kinds[i]
		}
	}
	if best == nil { // a prefix may be thinner than the whole that chose the kind
		return encodeText(encRuns, appendRuns(nil, s, base))
	}
	return encodeText(bestKind, best)
}

func encodeText(kind byte, b []byte) string {
	return string(rune(kind)) + ":" + base64.RawURLEncoding.EncodeToString(b)
}

// packFrom is the size below which a zstd frame cannot win.
const packFrom = 48

func appendRuns(dst []byte, s Set, base int64) []byte {
	end := base
	for _, r := range s {
		dst = binary.AppendUvarint(dst, uint64(r.First-end))
		dst = binary.AppendUvarint(dst, uint64(r.Last-r.First+1))
		end = r.Last + 1
	}
	return dst
}

func appendBits(dst []byte, s Set, base int64) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, (s[len(s)-1].Last-base+8)/8)...)
	for _, r := range s {
		for o := r.First; o <= r.Last; o++ {
			i := o - base
			dst[at+int(i/8)] |= 1 << (i % 8)
		}
	}
	return dst
}

// decodeSet reads what encodeSet wrote.
func decodeSet(text string, base int64) (Set, error) {
	if len(text) < 2 || text[1] != ':' {
		return nil, fmt.Errorf("%w: done has no encoding", ErrCorrupt)
	}
	b, err := base64.RawURLEncoding.DecodeString(text[2:])
	if err != nil {
		return nil, fmt.Errorf("%w: done: %v", ErrCorrupt, err)
	}
	kind := text[0]
	if kind == encRunsPacked || kind == encBitsPacked {
		if b, err = unpacker().DecodeAll(b, nil); err != nil || len(b) > maxPlainBytes {
			return nil, fmt.Errorf("%w: done: zstd frame: %v", ErrCorrupt, err)
		}
	}
	switch kind {
	case encRuns, encRunsPacked:
		return parseRuns(b, base)
	case encBits, encBitsPacked:
		return parseBits(b, base)
	}
	return nil, fmt.Errorf("%w: done: unknown encoding %q", ErrCorrupt, kind)
}

func parseRuns(b []byte, base int64) (Set, error) {
	var s Set
	end := base
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: done: a run is cut short", ErrCorrupt)
		}
		length, m := binary.Uvarint(b[n:])
		// Only the first run may start right away, and offsets stay below
		// 2^62, so that no sum can overflow.
		if m <= 0 || gap == 0 && len(s) > 0 || length == 0 || gap > 1<<60 || length > 1<<60 || end > 1<<62 || len(s) == maxRuns {
			return nil, fmt.Errorf("%w: done: a run is out of range", ErrCorrupt)
		}
		b = b[n+m:]
		first := end + int64(gap)
		s = append(s, Run{first, first + int64(length) - 1})
		end = first + int64(length)
	}
	return s, nil
}

func parseBits(b []byte, base int64) (Set, error) {
	var s Set
	for i, v := range b {
		for v != 0 {
			bit := bits.TrailingZeros8(v)
			v &= v - 1
			if s = s.Add(base + int64(i)*8 + int64(bit)); len(s) > maxRuns {
				return nil, fmt.Errorf("%w: done: too many runs", ErrCorrupt)
			}
		}
	}
	return s, nil
}

// One coder for all: EncodeAll and DecodeAll are stateless and safe to share.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPlainBytes))
		return d
	})
)

func pack(b []byte) []byte { return packer().EncodeAll(b, nil) }
