package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Sizes of the entries in bytes.
const (
	OffsetEntrySize = 8
	TimeEntrySize   = 12
	TxnEntrySize    = 34
)

// ErrCorrupt marks a file that cannot be the index it claims to be.
var ErrCorrupt = errors.New("corrupt index")

// OffsetEntry says that the batch that ends with Offset starts at Position.
type OffsetEntry struct {
	Offset   int64
	Position int64
}

// TimeEntry says that TimestampMs is the largest timestamp up to Offset.
type TimeEntry struct {
	TimestampMs int64
	Offset      int64
}

// AbortedTxn is one entry of a transaction index (AbortedTxn.java).
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64 // of the transaction's first record
	LastOffset       int64 // of the abort marker
	LastStableOffset int64 // once the marker was appended
}

// relative is the 32-bit form of an offset, false when it does not fit.
func relative(base, offset int64) (int32, bool) {
	d := offset - base
	if offset < base || d < 0 || d > math.MaxInt32 {
		return 0, false
	}
	return int32(d), true
}

// AppendOffsetEntry appends e's bytes; offset and position must fit 31 bits.
func AppendOffsetEntry(dst []byte, base int64, e OffsetEntry) ([]byte, error) {
	r, ok := relative(base, e.Offset)
	if !ok || e.Position < 0 || e.Position > math.MaxInt32 {
		return dst, fmt.Errorf("offset %d at position %d does not fit an index of base %d", e.Offset, e.Position, base)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(r))
	return binary.BigEndian.AppendUint32(dst, uint32(e.Position)), nil
}

func decodeOffset(b []byte, base int64) OffsetEntry {
	return OffsetEntry{
		Offset:   base + int64(int32(binary.BigEndian.Uint32(b))),
		Position: int64(int32(binary.BigEndian.Uint32(b[4:]))),
	}
}

// AppendTimeEntry appends e's bytes.
func AppendTimeEntry(dst []byte, base int64, e TimeEntry) ([]byte, error) {
	r, ok := relative(base, e.Offset)
	if !ok {
		return dst, fmt.Errorf("offset %d does not fit a time index of base %d", e.Offset, base)
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.TimestampMs))
	return binary.BigEndian.AppendUint32(dst, uint32(r)), nil
}

func decodeTime(b []byte, base int64) TimeEntry {
	return TimeEntry{
		TimestampMs: int64(binary.BigEndian.Uint64(b)),
		Offset:      base + int64(int32(binary.BigEndian.Uint32(b[8:]))),
	}
}

// AppendTxnEntry appends t's bytes (version 0).
func AppendTxnEntry(dst []byte, t AbortedTxn) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	for _, v := range [...]int64{t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// DecodeOffsetEntries reads a whole .index of the given base offset. Zeros
// behind the last entry (preallocation) end it. The error is ErrCorrupt; what
// was read before it is returned too.
func DecodeOffsetEntries(b []byte, base int64) ([]OffsetEntry, error) {
	if len(b)%OffsetEntrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole entries of %d", ErrCorrupt, len(b), OffsetEntrySize)
	}
	n := validOffsets(b, base, math.MaxInt64, math.MaxInt64)
	out := make([]OffsetEntry, n)
	for i := range out {
		out[i] = decodeOffset(b[i*OffsetEntrySize:], base)
	}
	if !zero(b[n*OffsetEntrySize:]) {
		return out, fmt.Errorf("%w: entry %d does not follow the one before it", ErrCorrupt, n)
	}
	return out, nil
}

// DecodeTimeEntries is DecodeOffsetEntries for a .timeindex.
func DecodeTimeEntries(b []byte, base int64) ([]TimeEntry, error) {
	if len(b)%TimeEntrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole entries of %d", ErrCorrupt, len(b), TimeEntrySize)
	}
	n := validTimes(b, base, math.MaxInt64)
	out := make([]TimeEntry, n)
	for i := range out {
		out[i] = decodeTime(b[i*TimeEntrySize:], base)
	}
	if !zero(b[n*TimeEntrySize:]) {
		return out, fmt.Errorf("%w: entry %d does not follow the one before it", ErrCorrupt, n)
	}
	return out, nil
}

// DecodeTxnEntries reads a whole .txnindex of a segment that starts at base. A
// partial last entry is ignored, as Kafka does. The error is ErrCorrupt.
func DecodeTxnEntries(b []byte, base int64) ([]AbortedTxn, error) {
	out := make([]AbortedTxn, 0, len(b)/TxnEntrySize)
	last := int64(-1)
	for ; len(b) >= TxnEntrySize; b = b[TxnEntrySize:] {
		if v := binary.BigEndian.Uint16(b); v != 0 {
			return out, fmt.Errorf("%w: aborted transaction of version %d", ErrCorrupt, v)
		}
		t := AbortedTxn{
			ProducerID:       int64(binary.BigEndian.Uint64(b[2:])),
			FirstOffset:      int64(binary.BigEndian.Uint64(b[10:])),
			LastOffset:       int64(binary.BigEndian.Uint64(b[18:])),
			LastStableOffset: int64(binary.BigEndian.Uint64(b[26:])),
		}
		if t.ProducerID < 0 || t.FirstOffset < 0 || t.LastOffset < base || t.LastOffset < t.FirstOffset || t.LastOffset <= last {
			return out, fmt.Errorf("%w: aborted transaction %+v cannot follow offset %d of base %d", ErrCorrupt, t, last, base)
		}
		last = t.LastOffset
		out = append(out, t)
	}
	return out, nil
}

// validOffsets counts the leading entries with growing offsets and positions
// that lie below both limits.
func validOffsets(b []byte, base, offsetLimit, positionLimit int64) int {
	n := 0
	prev := OffsetEntry{Offset: base - 1, Position: -1}
	for ; len(b) >= OffsetEntrySize; b = b[OffsetEntrySize:] {
		e := decodeOffset(b, base)
		if e.Offset <= prev.Offset || e.Position <= prev.Position || e.Offset >= offsetLimit || e.Position >= positionLimit {
			break
		}
		prev = e
		n++
	}
	// A lone zero entry is what preallocation leaves; no batch was ever indexed
	// at position 0 because an entry needs bytes before it.
	if n == 1 && prev == (OffsetEntry{Offset: base}) {
		return 0
	}
	return n
}

// validTimes counts the leading entries with growing timestamps, offsets that
// do not fall, and offsets below the limit.
func validTimes(b []byte, base, offsetLimit int64) int {
	n := 0
	prev := TimeEntry{TimestampMs: -1, Offset: base}
	for ; len(b) >= TimeEntrySize; b = b[TimeEntrySize:] {
		e := decodeTime(b, base)
		if e.TimestampMs <= prev.TimestampMs || e.Offset < prev.Offset || e.Offset >= offsetLimit || zero(b[:TimeEntrySize]) {
			break
		}
		prev = e
		n++
	}
	return n
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
