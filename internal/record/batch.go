package record

import (
	"encoding/binary"
	"hash/crc32"
	"iter"
	"math"
)

// Sizes of the fixed parts, in bytes (DefaultRecordBatch.java, Records.java).
const (
	// HeaderSize is the size of a v2 batch header, records excluded.
	HeaderSize = 61
	// LogOverhead is the size of the base offset and the length field, which
	// the length field itself does not count.
	LogOverhead = 12
)

// Byte positions in the header; docs/formats/record-batch.md has the table.
const (
	baseOffsetPos      = 0
	lengthPos          = 8
	leaderEpochPos     = 12
	magicPos           = 16
	crcPos             = 17
	attributesPos      = 21
	lastOffsetDeltaPos = 23
	baseTimestampPos   = 27
	maxTimestampPos    = 35
	producerIDPos      = 43
	producerEpochPos   = 51
	baseSequencePos    = 53
	countPos           = 57
)

// Values that mean "none" in a batch (RecordBatch.java).
const (
	NoTimestamp     int64 = -1
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
	NoLeaderEpoch   int32 = -1
)

// Attribute bits of a batch.
const (
	attrCodecMask          = 0x07
	attrLogAppendTime      = 0x08
	attrTransactional      = 0x10
	attrControl            = 0x20
	attrDeleteHorizon      = 0x40
	magicV2           int8 = 2
)

// TimestampType says who stamped the records.
type TimestampType int8

// The two kinds of timestamps.
const (
	CreateTime    TimestampType = 0 // by the producer
	LogAppendTime TimestampType = 1 // by the leader when it appended
)

// String returns the name that message.timestamp.type uses.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is one whole v2 batch, header included. Its methods read and patch the
// bytes in place and expect what Parse checked: at least HeaderSize bytes.
type Batch []byte

// Parse returns the first batch of b, aliasing b. It checks what is needed to
// step over the batch safely (length, magic), not the CRC: see Verify.
// The error is ErrShort when b ends before the batch does, ErrMagic for the
// old formats, ErrCorrupt for bytes that cannot be a batch.
func Parse(b []byte) (Batch, error) {
	if len(b) < LogOverhead {
		return nil, ErrShort
	}
	n := int64(int32(binary.BigEndian.Uint32(b[lengthPos:])))
	if n < 0 || n > math.MaxInt32-LogOverhead {
		return nil, corrupt("length field %d", n)
	}
	if len(b) > magicPos {
		if n < legacyOverhead { // before the magic is looked at (ByteBufferLogInputStream.nextBatchSize)
			return nil, corrupt("length field %d is below any record", n)
		}
		if m := int8(b[magicPos]); m >= 0 && m < magicV2 {
			return nil, ErrMagic
		} else if m != magicV2 {
			return nil, corrupt("magic %d", m)
		}
	}
	if n < HeaderSize-LogOverhead {
		return nil, corrupt("length field %d is below a batch header", n)
	}
	if int64(len(b)) < n+LogOverhead {
		return nil, ErrShort
	}
	return Batch(b[: n+LogOverhead : n+LogOverhead]), nil
}

// legacyOverhead is the size of an empty record of magic 0 behind its length.
const legacyOverhead = 14

// Batches yields the batches of b in order, aliasing b. The first error ends
// the sequence; ErrShort then means that b ends with a partial batch.
func Batches(b []byte) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for len(b) > 0 {
			batch, err := Parse(b)
			if !yield(batch, err) || err != nil {
				return
			}
			b = b[len(batch):]
		}
	}
}

// BaseOffset is the offset of the first record (that there was before compaction).
func (b Batch) BaseOffset() int64 { return b.int64At(baseOffsetPos) }

// LastOffset is the offset of the last record (that there was before compaction).
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset that follows the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// LengthBytes is the size of the whole batch, base offset and length included.
func (b Batch) LengthBytes() int { return int(b.int32At(lengthPos)) + LogOverhead }

// PartitionLeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) PartitionLeaderEpoch() int32 { return b.int32At(leaderEpochPos) }

// Magic is the message format, 2 for every Batch.
func (b Batch) Magic() int8 { return int8(b[magicPos]) }

// CRC is the stored CRC-32C over everything from the attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[crcPos:]) }

// Attributes is the raw attribute word.
func (b Batch) Attributes() int16 { return b.int16At(attributesPos) }

// Codec is the compression of the records; it may be a number that no codec has.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodecMask) }

// IsTransactional reports whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&attrTransactional != 0 }

// IsControl reports whether the batch holds a marker instead of user records.
func (b Batch) IsControl() bool { return b.Attributes()&attrControl != 0 }

// TimestampType says who stamped the batch.
func (b Batch) TimestampType() TimestampType {
	if b.Attributes()&attrLogAppendTime != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// HasDeleteHorizon reports whether BaseTimestamp holds the time from which
// compaction may drop tombstones and markers (KIP-534).
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// LastOffsetDelta is the offset of the last record relative to the base offset.
func (b Batch) LastOffsetDelta() int32 { return b.int32At(lastOffsetDeltaPos) }

// BaseTimestamp is what record timestamps are relative to, in ms.
func (b Batch) BaseTimestamp() int64 { return b.int64At(baseTimestampPos) }

// MaxTimestamp is the largest record timestamp, or the append time, in ms.
func (b Batch) MaxTimestamp() int64 { return b.int64At(maxTimestampPos) }

// ProducerID is NoProducerID when the producer is not idempotent.
func (b Batch) ProducerID() int64 { return b.int64At(producerIDPos) }

// HasProducerID reports whether the batch carries an idempotent producer's id.
func (b Batch) HasProducerID() bool { return b.ProducerID() > NoProducerID }

// ProducerEpoch is NoProducerEpoch when the producer is not idempotent.
func (b Batch) ProducerEpoch() int16 { return b.int16At(producerEpochPos) }

// BaseSequence is the sequence number of the first record, or NoSequence.
func (b Batch) BaseSequence() int32 { return b.int32At(baseSequencePos) }

// LastSequence is the sequence number of the last record, or NoSequence.
// Sequences wrap from 2^31-1 to 0 (DefaultRecordBatch.incrementSequence).
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return IncrementSequence(base, b.LastOffsetDelta())
}

// IncrementSequence returns the sequence number that follows sequence by n
// records; it wraps from 2^31-1 to 0.
func IncrementSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) % (math.MaxInt32 + 1))
}

// Count is the number of records that the header claims.
func (b Batch) Count() int32 { return b.int32At(countPos) }

// RecordBytes is the section behind the header, still compressed.
func (b Batch) RecordBytes() []byte { return b[HeaderSize:] }

// SetBaseOffset patches the base offset; the CRC does not cover it.
func (b Batch) SetBaseOffset(o int64) { binary.BigEndian.PutUint64(b[baseOffsetPos:], uint64(o)) }

// SetLastOffset moves the batch so that it ends at offset o.
func (b Batch) SetLastOffset(o int64) { b.SetBaseOffset(o - int64(b.LastOffsetDelta())) }

// SetPartitionLeaderEpoch patches the leader epoch; the CRC does not cover it.
func (b Batch) SetPartitionLeaderEpoch(e int32) {
	binary.BigEndian.PutUint32(b[leaderEpochPos:], uint32(e))
}

// SetMaxTimestamp patches the largest timestamp and its type and recomputes the
// CRC, unless nothing changes.
func (b Batch) SetMaxTimestamp(ts int64, t TimestampType) {
	if b.MaxTimestamp() == ts && b.TimestampType() == t {
		return
	}
	attrs := b.Attributes() &^ attrLogAppendTime
	if t == LogAppendTime {
		attrs |= attrLogAppendTime
	}
	binary.BigEndian.PutUint16(b[attributesPos:], uint16(attrs))
	binary.BigEndian.PutUint64(b[maxTimestampPos:], uint64(ts))
	b.setCRC()
}

// ComputeCRC returns the CRC-32C that the stored one must equal.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[attributesPos:], castagnoli) }

func (b Batch) setCRC() { binary.BigEndian.PutUint32(b[crcPos:], b.ComputeCRC()) }

// Verify checks the CRC and that length, offset range and count of the header
// can be true together. The error is ErrCorrupt with the reason.
func (b Batch) Verify() error {
	switch {
	case len(b) < HeaderSize || b.LengthBytes() != len(b):
		return corrupt("%d bytes do not hold the whole batch", len(b))
	case b.Magic() != magicV2:
		return corrupt("magic %d", b.Magic())
	case b.CRC() != b.ComputeCRC():
		return corrupt("stored CRC %#08x, computed %#08x", b.CRC(), b.ComputeCRC())
	case b.LastOffsetDelta() < 0:
		return corrupt("last offset delta %d", b.LastOffsetDelta())
	case b.Count() < 0 || int64(b.Count()) > int64(b.LastOffsetDelta())+1:
		return corrupt("%d records in an offset range of %d", b.Count(), int64(b.LastOffsetDelta())+1)
	}
	return nil
}

func (b Batch) int16At(pos int) int16 { return int16(binary.BigEndian.Uint16(b[pos:])) }
func (b Batch) int32At(pos int) int32 { return int32(binary.BigEndian.Uint32(b[pos:])) }
func (b Batch) int64At(pos int) int64 { return int64(binary.BigEndian.Uint64(b[pos:])) }
