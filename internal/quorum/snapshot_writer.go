package quorum

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// snapshotBatchBytes is the size at which a batch of a snapshot is closed.
const snapshotBatchBytes = 1 << 20

// snapshotWriter writes a snapshot file: a control batch with the header (and
// the membership), batches of records, a footer (RecordsSnapshotWriter).
type snapshotWriter struct {
	file   vfs.File
	pos    int64
	next   int64 // offset inside the snapshot
	epoch  int32
	nowMs  int64
	b      *record.Builder
	sizeB  int
	filled int
}

func newSnapshotWriter(f vfs.File, epoch int32, nowMs int64) *snapshotWriter {
	return &snapshotWriter{file: f, epoch: epoch, nowMs: nowMs}
}

func (w *snapshotWriter) writeBatch(b record.Batch, count int) error {
	if _, err := w.file.WriteAt(b, w.pos); err != nil {
		return err
	}
	w.pos += int64(len(b))
	w.next += int64(count)
	return nil
}

func (w *snapshotWriter) control(records ...recordschema.ControlRecord) error {
	b, err := encodeControl(w.next, w.epoch, w.nowMs, records...)
	if err != nil {
		return err
	}
	return w.writeBatch(b, len(records))
}

func (w *snapshotWriter) append(r recordschema.MetadataRecord) error {
	frame := recordschema.AppendFrame(nil, r)
	if w.filled > 0 && (w.filled == MaxRecordsPerBatch || w.sizeB+len(frame) > snapshotBatchBytes) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.filled == 0 {
		w.b = record.NewBuilder(record.BuilderOptions{BaseOffset: w.next, LeaderEpoch: w.epoch})
		w.sizeB = record.HeaderSize
	}
	w.b.Append(w.nowMs, nil, frame)
	w.sizeB += len(frame) + recordOverheadBytes
	w.filled++
	return nil
}

func (w *snapshotWriter) flush() error {
	if w.filled == 0 {
		return nil
	}
	b, err := w.b.Build()
	if err != nil {
		return err
	}
	n := w.filled
	w.filled = 0
	return w.writeBatch(b, n)
}

// snapshotContent is what goes into a snapshot file.
type snapshotContent struct {
	lastTimestampMs int64
	voters          *voterSet // nil: none recorded
	records         func(yield func(recordschema.MetadataRecord) bool)
}

// writeSnapshotFile writes path durably: part file, fsync. The caller renames.
func writeSnapshotFile(fsys vfs.FS, part string, epoch int32, nowMs int64, c snapshotContent) (err error) {
	f, err := fsys.Create(part)
	if err != nil {
		return fmt.Errorf("quorum: create snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newSnapshotWriter(f, epoch, nowMs)
	head := []recordschema.ControlRecord{&recordschema.SnapshotHeaderRecord{LastContainedLogTimestamp: c.lastTimestampMs}}
	if c.voters != nil && c.voters.version > 0 {
		head = append(head, &recordschema.KRaftVersionRecord{KRaftVersion: c.voters.version}, votersRecord(c.voters.voters))
	}
	err = w.control(head...)
	if c.records != nil {
		c.records(func(r recordschema.MetadataRecord) bool {
			if err == nil {
				err = w.append(r)
			}
			return err == nil
		})
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = w.control(&recordschema.SnapshotFooterRecord{})
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("quorum: write snapshot %s: %w", part, err)
	}
	return nil
}

// installSnapshot gives a complete part file its final name, durably.
func installSnapshot(fsys vfs.FS, part, path string) error {
	if err := fsys.Rename(part, path); err != nil {
		return fmt.Errorf("quorum: install snapshot: %w", err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("quorum: install snapshot: %w", err)
	}
	return nil
}
