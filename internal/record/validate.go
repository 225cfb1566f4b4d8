package record

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Origin says who appends (AppendOrigin.java).
type Origin int8

// The origins of a batch.
const (
	OriginClient Origin = iota
	OriginCoordinator
	OriginReplication
	OriginRaftLeader
)

// ValidateOptions is what the log of a partition demands of a batch.
type ValidateOptions struct {
	// Compacted refuses records without a key.
	Compacted bool
	// TimestampType is the topic's message.timestamp.type.
	TimestampType TimestampType
	// TimestampBeforeMaxMs and TimestampAfterMaxMs bound how far a CreateTime
	// may lie before and after NowMs.
	TimestampBeforeMaxMs, TimestampAfterMaxMs int64
	// TargetCodec is the topic's compression.type (CodecProducer keeps the
	// sender's). The zero value is None: it would decompress.
	TargetCodec Codec
	// Level is the compression level of TargetCodec; LevelDefault for Kafka's default.
	Level int
	// MaxMessageBytes is max.message.bytes; 0 or less is no limit.
	MaxMessageBytes int
	// SegmentBytes is segment.bytes; 0 or less is no limit.
	SegmentBytes int
	NowMs        int64
	Origin       Origin
	// ProduceVersion is the version of the Produce request (OriginClient only).
	ProduceVersion int16
	// BaseOffset and LeaderEpoch are stamped into the batch.
	BaseOffset  int64
	LeaderEpoch int32
	// DecompressLimitBytes bounds what the records may inflate to; 0 means
	// DefaultDecompressLimitBytes.
	DecompressLimitBytes int
}

// Validated is an accepted batch, stamped and ready to be written.
type Validated struct {
	Batch          Batch
	MaxTimestampMs int64
	// OffsetOfMaxTimestamp is the batch's last offset, which is what Kafka's
	// time index holds (LogSegment.append); a lookup then scans the batch.
	OffsetOfMaxTimestamp int64
	LogAppendTimeMs      int64 // NoTimestamp with CreateTime
	RecordCount          int
	Rebuilt              bool // Batch is new memory, not the caller's bytes
}

// MaxRecordErrors bounds the records that one refusal names; Kafka has no
// bound, but a compressed batch can hold millions of bad records.
const MaxRecordErrors = 1000

// Validate checks raw, the records of one partition, by the leader's rules and
// stamps base offset, leader epoch and timestamps; raw is patched in place
// unless the codec must change. The error is *InvalidError, and raw is then
// untouched.
//
// Order and codes follow ProduceRequest.validateRecords, UnifiedLog.append and
// LogValidator of Apache Kafka 4.3. Like Kafka it steps over every record,
// streaming compressed ones through one fixed window: counts, offsets and the
// largest timestamp are what later lookups rely on, so none is taken on the
// producer's word. Where it is stricter or names another code than Kafka,
// docs/formats/record-batch.md says so under "validation".
func Validate(raw []byte, o ValidateOptions) (Validated, error) {
	c, err := Check(raw, o)
	if err != nil {
		return Validated{}, err
	}
	return c.Stamp(o.BaseOffset, o.LeaderEpoch, o.NowMs), nil
}

// Checked is a batch that passed all checks and is not stamped yet.
type Checked struct {
	batch         Batch
	maxTimestamp  int64
	timestampType TimestampType
	count         int
	rebuilt       bool
}

// Check is the part of Validate that needs no offset: all of the work. A log
// can run it before it takes its lock and call Stamp under it. o.BaseOffset is
// not used; o.LeaderEpoch only for OriginRaftLeader.
func Check(raw []byte, o ValidateOptions) (Checked, error) {
	batch, err := onlyBatch(raw, &o)
	if err != nil {
		return Checked{}, err
	}
	if err := checkEnvelope(batch, &o); err != nil {
		return Checked{}, err
	}
	if err := checkClaims(batch, &o); err != nil {
		return Checked{}, err
	}
	target := targetCodec(batch, &o)
	found, packed, err := checkRecords(batch, &o, target)
	if err != nil {
		return Checked{}, err
	}
	c := Checked{batch: batch, maxTimestamp: found.maxTimestamp, timestampType: o.TimestampType, count: int(batch.Count())}
	if target != batch.Codec() {
		if c.batch, err = rebuild(batch, target, packed, &o); err != nil {
			return Checked{}, err
		}
		c.rebuilt = true
	}
	if o.SegmentBytes > 0 && len(c.batch) > o.SegmentBytes {
		return Checked{}, invalid(kerrors.RecordListTooLarge, "the batch is %d bytes, a segment holds at most %d", len(c.batch), o.SegmentBytes)
	}
	return c, nil
}

// SizeBytes is the size that the batch will take in the log.
func (c Checked) SizeBytes() int { return len(c.batch) }

// Header returns the batch as it is before Stamp, to look at its header.
func (c Checked) Header() Batch { return c.batch }

// Stamp writes what the leader decides into the batch: its offsets, the
// leader's epoch, the largest timestamp, and with LogAppendTime the time. The
// CRC is recomputed only if timestamps change.
func (c Checked) Stamp(baseOffset int64, leaderEpoch int32, nowMs int64) Validated {
	b := c.batch
	v := Validated{Batch: b, MaxTimestampMs: c.maxTimestamp, LogAppendTimeMs: NoTimestamp, RecordCount: c.count, Rebuilt: c.rebuilt}
	b.SetBaseOffset(baseOffset)
	b.SetPartitionLeaderEpoch(leaderEpoch)
	if c.timestampType == LogAppendTime {
		v.MaxTimestampMs, v.LogAppendTimeMs = nowMs, nowMs
	}
	b.SetMaxTimestamp(v.MaxTimestampMs, c.timestampType)
	v.OffsetOfMaxTimestamp = b.LastOffset()
	return v
}

// CheckShape is the part of Check that looks at the number and the format of the
// batches only. The leader's checks of the request come after it.
func CheckShape(raw []byte, produceVersion int16) error {
	_, err := onlyBatch(raw, &ValidateOptions{ProduceVersion: produceVersion, Origin: OriginClient})
	return err
}

// onlyBatch finds the single batch of a partition (ProduceRequest.validateRecords).
// Trailing bytes that are no whole batch are dropped, as Kafka does.
func onlyBatch(raw []byte, o *ValidateOptions) (Batch, error) {
	batch, err := Parse(raw)
	switch {
	case errors.Is(err, ErrShort):
		return nil, invalid(kerrors.InvalidRecord, "a partition needs at least one record batch")
	case errors.Is(err, ErrMagic):
		return nil, invalid(kerrors.InvalidRecord, "only record batches with magic 2 are accepted")
	case err != nil:
		return nil, invalid(kerrors.CorruptMessage, "%v", err)
	}
	if o.Origin == OriginClient && o.ProduceVersion < 7 && batch.Codec() == Zstd {
		return nil, invalid(kerrors.UnsupportedCompressionType, "zstd needs Produce version 7, the request has version %d", o.ProduceVersion)
	}
	_, err = Parse(raw[len(batch):])
	switch {
	case errors.Is(err, ErrShort):
		return batch, nil
	case errors.Is(err, ErrCorrupt):
		return nil, invalid(kerrors.CorruptMessage, "behind the first batch: %v", err)
	}
	return nil, invalid(kerrors.InvalidRecord, "a partition takes exactly one record batch per request")
}

// checkEnvelope is UnifiedLog.analyzeAndValidateRecords.
func checkEnvelope(b Batch, o *ValidateOptions) error {
	if o.Origin == OriginRaftLeader && b.PartitionLeaderEpoch() != o.LeaderEpoch {
		return invalid(kerrors.InvalidRecord, "the batch has leader epoch %d, expected %d", b.PartitionLeaderEpoch(), o.LeaderEpoch)
	}
	if o.Origin == OriginClient && b.BaseOffset() != 0 {
		return invalid(kerrors.InvalidRecord, "the base offset of a produced batch must be 0, it is %d", b.BaseOffset())
	}
	if o.MaxMessageBytes > 0 && len(b) > o.MaxMessageBytes {
		return tooLarge(len(b), o)
	}
	if sum := b.ComputeCRC(); sum != b.CRC() {
		return invalid(kerrors.CorruptMessage, "record batch is corrupt (stored CRC %#08x, computed %#08x)", b.CRC(), sum)
	}
	if !b.Codec().Valid() {
		return invalid(kerrors.UnsupportedCompressionType, "unknown compression type %d", b.Codec())
	}
	return nil
}

func tooLarge(size int, o *ValidateOptions) error {
	return invalid(kerrors.MessageTooLarge, "the record batch is %d bytes, max.message.bytes is %d", size, o.MaxMessageBytes)
}

// checkClaims is LogValidator.validateBatch.
func checkClaims(b Batch, o *ValidateOptions) error {
	count := int64(b.Count())
	span := int64(b.LastOffsetDelta()) + 1
	switch {
	case span <= 0:
		return invalid(kerrors.InvalidRecord, "invalid offset range [%d, %d]", b.BaseOffset(), b.LastOffset())
	case count <= 0:
		return invalid(kerrors.InvalidRecord, "invalid record count %d", count)
	case span != count:
		return invalid(kerrors.InvalidRecord, "offset range [%d, %d] contradicts the count of %d records", b.BaseOffset(), b.LastOffset(), count)
	}
	if o.Origin != OriginClient {
		return nil
	}
	if b.IsControl() {
		return invalid(kerrors.InvalidRecord, "clients must not write control records")
	}
	if b.HasProducerID() && b.BaseSequence() < 0 {
		return invalid(kerrors.InvalidRecord, "invalid sequence number %d of producer %d", b.BaseSequence(), b.ProducerID())
	}
	if b.HasDeleteHorizon() {
		return invalid(kerrors.InvalidRecord, "clients must not set a delete horizon")
	}
	return nil
}

// targetCodec says how the batch will be stored. An uncompressed control batch
// stays so, whatever the topic says.
func targetCodec(b Batch, o *ValidateOptions) Codec {
	if o.TargetCodec == CodecProducer || (b.IsControl() && b.Codec() == None) {
		return b.Codec()
	}
	return o.TargetCodec
}

// rebuild puts b's header in front of packed, its records in the target codec.
func rebuild(b Batch, target Codec, packed *cappedBuffer, o *ValidateOptions) (Batch, error) {
	if packed.full {
		return nil, invalid(kerrors.MessageTooLarge, "the record batch exceeds %d bytes once stored as %s", packed.max, target)
	}
	out := Batch(packed.b)
	copy(out[:HeaderSize], b)
	attrs := b.Attributes()&^attrCodecMask | int16(target)
	binary.BigEndian.PutUint16(out[attributesPos:], uint16(attrs))
	binary.BigEndian.PutUint32(out[lengthPos:], uint32(len(out)-LogOverhead))
	if o.MaxMessageBytes > 0 && len(out) > o.MaxMessageBytes {
		return nil, tooLarge(len(out), o)
	}
	out.setCRC()
	return out, nil
}
