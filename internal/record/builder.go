package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// BuilderOptions says what kind of batch to build. ProducerID, ProducerEpoch
// and BaseSequence count only with HasProducer; without it they are "none".
type BuilderOptions struct {
	Codec         Codec
	Level         int // compression level; LevelDefault for Kafka's default
	BaseOffset    int64
	LeaderEpoch   int32 // NoLeaderEpoch when a leader will stamp it
	HasProducer   bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
	// TimestampType LogAppendTime stamps the batch with AppendTimeMs.
	TimestampType TimestampType
	AppendTimeMs  int64
	// DeleteHorizonMs is stored with HasDeleteHorizon (KIP-534).
	HasDeleteHorizon bool
	DeleteHorizonMs  int64
}

// Builder collects records into one batch. It is not safe for concurrent use.
type Builder struct {
	opts          BuilderOptions
	b             []byte // header space, then encoded records
	count         int32
	lastOffset    int64
	baseTimestamp int64
	maxTimestamp  int64
	err           error
}

// NewBuilder returns an empty builder.
func NewBuilder(o BuilderOptions) *Builder {
	b := &Builder{opts: o, b: make([]byte, HeaderSize, 512)}
	b.reset()
	return b
}

// Reset empties the builder and gives it new options; the buffer is kept.
func (b *Builder) Reset(o BuilderOptions) {
	b.opts = o
	b.reset()
}

func (b *Builder) reset() {
	b.b = b.b[:HeaderSize]
	clear(b.b)
	b.count, b.err = 0, nil
	b.lastOffset = b.opts.BaseOffset - 1
	b.maxTimestamp = NoTimestamp
	b.baseTimestamp = NoTimestamp
	if b.opts.HasDeleteHorizon {
		b.baseTimestamp = b.opts.DeleteHorizonMs
	}
}

// Append adds a record behind the last one. A nil key or value is null.
func (b *Builder) Append(timestampMs int64, key, value []byte, headers ...Header) {
	b.AppendWithOffset(b.lastOffset+1, timestampMs, key, value, headers...)
}

// AppendWithOffset adds a record at an offset above the last one's; the first
// wrong offset is reported by Build.
func (b *Builder) AppendWithOffset(offset, timestampMs int64, key, value []byte, headers ...Header) {
	delta := offset - b.opts.BaseOffset
	if offset <= b.lastOffset || delta > math.MaxInt32 || b.count == math.MaxInt32 {
		if b.err == nil {
			b.err = fmt.Errorf("record batch: offset %d cannot follow %d in a batch from %d", offset, b.lastOffset, b.opts.BaseOffset)
		}
		return
	}
	if b.count == 0 && !b.opts.HasDeleteHorizon {
		b.baseTimestamp = timestampMs
	}
	b.b = AppendRecord(b.b, timestampMs-b.baseTimestamp, int32(delta), key, value, headers)
	b.count++
	b.lastOffset = offset
	b.maxTimestamp = max(b.maxTimestamp, timestampMs)
}

// Count returns the number of records appended so far.
func (b *Builder) Count() int { return int(b.count) }

// SizeBytes returns the size that the batch would have uncompressed.
func (b *Builder) SizeBytes() int { return len(b.b) }

// Build returns the finished batch, in memory of its own. Building an empty
// batch is an error: a leader stores none.
func (b *Builder) Build() (Batch, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.count == 0 {
		return nil, errors.New("record batch: no records")
	}
	out := make([]byte, HeaderSize, len(b.b))
	if b.opts.Codec == None {
		out = append(out, b.b[HeaderSize:]...)
	} else {
		var err error
		if out, err = Compress(out, b.opts.Codec, b.opts.Level, b.b[HeaderSize:]); err != nil {
			return nil, err
		}
	}
	if len(out) > math.MaxInt32 {
		return nil, fmt.Errorf("record batch: %d bytes exceed the format's bound", len(out))
	}
	batch := Batch(out)
	b.putHeader(batch)
	return batch, nil
}

func (b *Builder) putHeader(h Batch) {
	o := b.opts
	if !o.HasProducer {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence = NoProducerID, NoProducerEpoch, NoSequence
	}
	maxTimestamp := b.maxTimestamp
	if o.TimestampType == LogAppendTime {
		maxTimestamp = o.AppendTimeMs
	}
	be := binary.BigEndian
	be.PutUint64(h[baseOffsetPos:], uint64(o.BaseOffset))
	be.PutUint32(h[lengthPos:], uint32(len(h)-LogOverhead))
	be.PutUint32(h[leaderEpochPos:], uint32(o.LeaderEpoch))
	h[magicPos] = byte(magicV2)
	be.PutUint16(h[attributesPos:], uint16(o.attributes()))
	be.PutUint32(h[lastOffsetDeltaPos:], uint32(b.lastOffset-o.BaseOffset))
	be.PutUint64(h[baseTimestampPos:], uint64(b.baseTimestamp))
	be.PutUint64(h[maxTimestampPos:], uint64(maxTimestamp))
	be.PutUint64(h[producerIDPos:], uint64(o.ProducerID))
	be.PutUint16(h[producerEpochPos:], uint16(o.ProducerEpoch))
	be.PutUint32(h[baseSequencePos:], uint32(o.BaseSequence))
	be.PutUint32(h[countPos:], uint32(b.count))
	h.setCRC()
}

func (o BuilderOptions) attributes() int16 {
	a := int16(o.Codec) & attrCodecMask
	for _, f := range []struct {
		on  bool
		bit int16
	}{
		{o.TimestampType == LogAppendTime, attrLogAppendTime},
		{o.Transactional, attrTransactional},
		{o.Control, attrControl},
		{o.HasDeleteHorizon, attrDeleteHorizon},
	} {
		if f.on {
			a |= f.bit
		}
	}
	return a
}

// AppendRecord appends one encoded record, length first, to dst.
func AppendRecord(dst []byte, timestampDelta int64, offsetDelta int32, key, value []byte, headers []Header) []byte {
	size := 1 + varlongLen(timestampDelta) + varintLen(offsetDelta) + fieldLen(key) + fieldLen(value) + varintLen(int32(len(headers)))
	for _, h := range headers {
		size += varintLen(int32(len(h.Key))) + len(h.Key) + fieldLen(h.Value)
	}
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = binary.AppendVarint(dst, int64(len(headers)))
	for _, h := range headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendField(dst, h.Value)
	}
	return dst
}

func appendField(dst, f []byte) []byte {
	if f == nil {
		return append(dst, 1) // zigzag of -1: null
	}
	return append(binary.AppendVarint(dst, int64(len(f))), f...)
}

func fieldLen(f []byte) int {
	if f == nil {
		return 1
	}
	return varintLen(int32(len(f))) + len(f)
}

// varlongLen is the size of a zigzag varint, in bytes.
func varlongLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}

func varintLen(v int32) int { return varlongLen(int64(v)) }
