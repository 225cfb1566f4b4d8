package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// maxSnapshotBatchBytes bounds a batch that is read from a snapshot.
const maxSnapshotBatchBytes = 64 << 20

// SnapshotReader reads one snapshot file. It is valid during OnSnapshot only.
type SnapshotReader struct {
	ID SnapshotID
	// LastContainedLogTimestampMs is from the header.
	LastContainedLogTimestampMs int64
	SizeBytes                   int64

	file    vfs.File
	control []recordschema.ControlRecord // of the first batch
}

// openSnapshot opens a file and reads its header.
func openSnapshot(fsys vfs.FS, path string, id SnapshotID) (*SnapshotReader, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("quorum: open snapshot: %w", err)
	}
	r := &SnapshotReader{ID: id, file: f}
	if err := r.readHeader(); err != nil {
		return nil, errors.Join(fmt.Errorf("quorum: snapshot %s: %w", path, err), f.Close())
	}
	return r, nil
}

func (r *SnapshotReader) readHeader() (err error) {
	if r.SizeBytes, err = r.file.Size(); err != nil {
		return err
	}
	b, err := r.batchAt(0)
	if err != nil {
		return err
	}
	if b.IsControl() {
		r.control, err = controlRecords(b)
	}
	if err != nil {
		return err
	}
	if len(r.control) > 0 {
		if h, ok := r.control[0].(*recordschema.SnapshotHeaderRecord); ok {
			r.LastContainedLogTimestampMs = h.LastContainedLogTimestamp
			return nil
		}
	}
	return fmt.Errorf("%w: it does not start with a snapshot header", record.ErrCorrupt)
}

// batchAt reads and checks the batch at a position of the file.
func (r *SnapshotReader) batchAt(pos int64) (record.Batch, error) {
	var head [record.LogOverhead]byte
	if _, err := r.file.ReadAt(head[:], pos); err != nil {
		return nil, shortIsCorrupt(err)
	}
	size := int64(int32(binary.BigEndian.Uint32(head[8:]))) + record.LogOverhead
	if size < record.HeaderSize || size > maxSnapshotBatchBytes || pos+size > r.SizeBytes {
		return nil, fmt.Errorf("%w: batch of %d bytes at position %d of %d", record.ErrCorrupt, size, pos, r.SizeBytes)
	}
	buf := make([]byte, size)
	if _, err := r.file.ReadAt(buf, pos); err != nil {
		return nil, shortIsCorrupt(err)
	}
	b, err := record.Parse(buf)
	if err != nil {
		return nil, err
	}
	return b, b.Verify()
}

func shortIsCorrupt(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the snapshot ends early", record.ErrCorrupt)
	}
	return err
}

// batches yields every batch behind the first and checks that the last one is
// the footer.
func (r *SnapshotReader) batches() iter.Seq2[record.Batch, error] {
	return func(yield func(record.Batch, error) bool) {
		footer := false
		for pos := int64(0); pos < r.SizeBytes; {
			b, err := r.batchAt(pos)
			if err == nil && footer {
				err = fmt.Errorf("%w: batch behind the snapshot footer", record.ErrCorrupt)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if pos > 0 {
				if footer, err = isFooter(b); err == nil && footer {
					pos += int64(len(b))
					continue
				}
				if !yield(b, err) || err != nil {
					return
				}
			}
			pos += int64(len(b))
		}
		if !footer {
			yield(nil, fmt.Errorf("%w: no snapshot footer", record.ErrCorrupt))
		}
	}
}

func isFooter(b record.Batch) (bool, error) {
	if !b.IsControl() {
		return false, nil
	}
	records, err := controlRecords(b)
	if err != nil || len(records) == 0 {
		return false, err
	}
	_, ok := records[0].(*recordschema.SnapshotFooterRecord)
	return ok, nil
}

// verify reads the whole file.
func (r *SnapshotReader) verify() error {
	for _, err := range r.batches() {
		if err != nil {
			return err
		}
	}
	return nil
}

// Records yields the metadata records in order, without the control records.
// An error is the last thing it yields.
func (r *SnapshotReader) Records() iter.Seq2[recordschema.MetadataRecord, error] {
	return func(yield func(recordschema.MetadataRecord, error) bool) {
		for b, err := range r.batches() {
			if err != nil {
				yield(nil, err)
				return
			}
			d, err := decodeBatch(b)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, rec := range d.Records {
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}

func (r *SnapshotReader) close() error { return r.file.Close() }
