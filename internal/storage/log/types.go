package log

import (
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// AppendInput is one append by the leader.
type AppendInput struct {
	// Records is exactly one v2 batch. The bytes are patched in place (base
	// offset, leader epoch, timestamps) and not kept.
	Records     []byte
	LeaderEpoch int32
	// NowMs is the wall clock: timestamp rules, segment.ms, LogAppendTime.
	NowMs  int64
	Origin record.Origin
	// ProduceVersion is the version of the Produce request; 0 for other origins.
	ProduceVersion int16
	// TransactionVersion is what WriteTxnMarkers says of a marker (KIP-1228).
	TransactionVersion int16
}

// AppendInfo says what an append did (LogAppendInfo.java).
type AppendInfo struct {
	// FirstOffset and LastOffset are those of the records; for a Duplicate,
	// those they got the first time.
	FirstOffset, LastOffset int64
	// LogAppendTimeMs is -1 with CreateTime.
	LogAppendTimeMs int64
	LogStartOffset  int64
	MaxTimestampMs  int64
	RecordCount     int
	SizeBytes       int
	// Duplicate says that an idempotent producer had sent this batch before and
	// nothing was written. The caller waits for LastOffset+1 all the same.
	Duplicate bool
}

// NextOffset is the offset that must become visible before the append may be
// acknowledged.
func (i AppendInfo) NextOffset() int64 { return i.LastOffset + 1 }

// ReadInput asks for records.
type ReadInput struct {
	StartOffset int64
	// MaxBytes bounds the range; the last batch in it may be cut.
	MaxBytes int
	// UpperBound is exclusive: the high watermark, the last stable offset or
	// the log end. Nothing at or beyond it is returned.
	UpperBound int64
	// MinOneBatch returns the first batch whole even beyond MaxBytes (KIP-74).
	MinOneBatch bool
	// IncludeAborted asks for the aborted transactions that overlap the range.
	IncludeAborted bool
}

// ReadResult is a range of one segment's file.
type ReadResult struct {
	// Records holds a reference to the file; whoever gets the result releases
	// it (wire.Payload does). File is nil when SizeBytes is 0.
	Records   wire.Range
	SizeBytes int
	// Aborted is nil unless IncludeAborted was set.
	Aborted []wire.AbortedTransaction
	// FirstBatchIncomplete says that MaxBytes cuts the first batch: a caller
	// that wants whole batches drops the range (FetchDataInfo.java).
	FirstBatchIncomplete bool
	LogStartOffset       int64
}

// Release gives the file reference back; for results that are not sent.
func (r *ReadResult) Release() {
	if r.Records.File != nil {
		r.Records.File.Release()
		r.Records = wire.Range{}
	}
}

// TimestampOffset is the answer to a lookup by time.
type TimestampOffset struct {
	Offset      int64
	TimestampMs int64
	LeaderEpoch int32 // -1 unknown
}

// SegmentInfo describes one segment.
type SegmentInfo struct {
	BaseOffset     int64
	SizeBytes      int64
	MaxTimestampMs int64 // -1 none, or not needed so far
	Active         bool
}
