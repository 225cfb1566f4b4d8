package quorum

import (
	"fmt"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// recordOverheadBytes is an upper bound of what a batch adds to one record:
// length, attributes, deltas, null key, value length, header count.
const recordOverheadBytes = 32

// encoded is one batch on its way into the log.
type encoded struct {
	batch record.Batch
	count int
}

// encodeRecords packs records into as few batches as MaxRecordsPerBatch and
// MaxBatchBytes allow, numbered from base. ErrTooLarge when a single record
// cannot fit, or when atomic and one batch is not enough.
func encodeRecords(records []recordschema.MetadataRecord, base int64, epoch int32, timestampMs int64, atomic bool) ([]encoded, error) {
	var out []encoded
	for len(records) > 0 {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: base, LeaderEpoch: epoch})
		sizeBytes, n := record.HeaderSize, 0
		for n < len(records) && n < MaxRecordsPerBatch {
			frame := recordschema.AppendFrame(nil, records[n])
			if sizeBytes += len(frame) + recordOverheadBytes; sizeBytes > MaxBatchBytes {
				break
			}
			b.Append(timestampMs, nil, frame)
			n++
		}
		if n == 0 || atomic && n < len(records) {
			return nil, ErrTooLarge
		}
		batch, err := b.Build()
		if err != nil {
			return nil, fmt.Errorf("quorum: encode records: %w", err)
		}
		out = append(out, encoded{batch, n})
		records = records[n:]
		base += int64(n)
	}
	return out, nil
}

// encodeControl packs control records into one control batch.
func encodeControl(base int64, epoch int32, timestampMs int64, records ...recordschema.ControlRecord) (record.Batch, error) {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: base, LeaderEpoch: epoch, Control: true})
	for _, r := range records {
		b.Append(timestampMs, recordschema.AppendControlKey(nil, r.Type()), recordschema.AppendControlValue(nil, r))
	}
	batch, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("quorum: encode control records: %w", err)
	}
	return batch, nil
}

// decodeBatch reads the metadata records of a batch. The records of a control
// batch are left out; see controlRecords.
func decodeBatch(b record.Batch) (Batch, error) {
	out := Batch{
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Epoch: b.PartitionLeaderEpoch(),
		TimestampMs: b.MaxTimestamp(), SizeBytes: len(b), Control: b.IsControl(),
	}
	if out.Control {
		return out, nil
	}
	out.Records = make([]recordschema.MetadataRecord, 0, min(int(b.Count()), MaxRecordsPerBatch))
	for rec, err := range b.Records(MaxBatchBytes) {
		if err != nil {
			return out, fmt.Errorf("quorum: batch at offset %d: %w", out.BaseOffset, err)
		}
		r, err := recordschema.ParseFrame(rec.Value)
		if err != nil {
			return out, fmt.Errorf("quorum: record at offset %d: %w", rec.Offset, err)
		}
		out.Records = append(out.Records, r)
	}
	return out, nil
}

// controlRecords reads the raft control records of a control batch. Types that
// a newer version added are skipped.
func controlRecords(b record.Batch) ([]recordschema.ControlRecord, error) {
	var out []recordschema.ControlRecord
	for rec, err := range b.Records(MaxBatchBytes) {
		if err != nil {
			return nil, fmt.Errorf("quorum: control batch at offset %d: %w", b.BaseOffset(), err)
		}
		t, err := recordschema.ParseControlKey(rec.Key)
		if err != nil || t > recordschema.ControlKRaftVoters {
			continue
		}
		c, err := recordschema.ParseControlRecord(rec.Key, rec.Value)
		if err != nil {
			return nil, fmt.Errorf("quorum: control record at offset %d: %w", rec.Offset, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// FitsBatch reports whether records fit one batch, so that Propose with atomic
// takes them.
func FitsBatch(records []recordschema.MetadataRecord) bool {
	if len(records) > MaxRecordsPerBatch {
		return false
	}
	sizeBytes := record.HeaderSize
	var frame []byte
	for _, r := range records {
		frame = recordschema.AppendFrame(frame[:0], r)
		if sizeBytes += len(frame) + recordOverheadBytes; sizeBytes > MaxBatchBytes {
			return false
		}
	}
	return true
}
