package log

import (
	"errors"
	"io/fs"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/index"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// Read returns a range that starts with the batch holding StartOffset, of one
// segment at most. An offset below the log start or above the log end is
// OFFSET_OUT_OF_RANGE; one at or beyond UpperBound gives an empty result.
func (l *Log) Read(in ReadInput) (ReadResult, error) {
	if err := l.usable(); err != nil {
		return ReadResult{}, err
	}
	var r ReadResult
	err := l.onSegments("read", func(segs []*segment.Segment) (err error) {
		r, err = l.read(&in, segs)
		return err
	})
	return r, err
}

// onSegments runs a read on the list of segments, and again on the new list when a
// segment was deleted under it: lists change before files go.
func (l *Log) onSegments(what string, read func(segs []*segment.Segment) error) error {
	for {
		segs := l.segs.Load()
		err := read(*segs)
		if vanished(err) && l.segs.Load() != segs && !l.gone.Load() {
			continue
		}
		return l.env.storage(err, what+" "+l.tp.String())
	}
}

// vanished reports an error that a file may give which was deleted under its reader.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, filecache.ErrClosed)
}

func (l *Log) read(in *ReadInput, segs []*segment.Segment) (ReadResult, error) {
	r := ReadResult{LogStartOffset: l.start.Load()}
	if in.IncludeAborted {
		r.Aborted = []wire.AbortedTransaction{}
	}
	end := l.end.Load()
	if in.StartOffset < r.LogStartOffset || in.StartOffset > end {
		return r, kerrors.New(kerrors.OffsetOutOfRange, "offset %d of %s is outside [%d, %d]", in.StartOffset, l.tp, r.LogStartOffset, end)
	}
	upper := min(in.UpperBound, end)
	if in.StartOffset >= upper {
		return r, nil
	}
	for i := max(0, floor(segs, in.StartOffset)); i < len(segs) && segs[i].BaseOffset() < upper; i++ {
		ok, err := l.readSegment(&r, in, segs, i, upper)
		if err != nil || ok {
			return r, err
		}
	}
	return r, nil
}

// readSegment fills r from segment i; false when the offset lies behind its
// last batch.
func (l *Log) readSegment(r *ReadResult, in *ReadInput, segs []*segment.Segment, i int, upper int64) (bool, error) {
	seg := segs[i]
	var err error
	limit := seg.Size()
	if i+1 == len(segs) || segs[i+1].BaseOffset() > upper {
		if limit, err = seg.EndPosition(upper); err != nil {
			return false, err
		}
	}
	got, ok, err := seg.Read(in.StartOffset, in.MaxBytes, limit, in.MinOneBatch)
	if err != nil || !ok {
		return ok, err
	}
	r.FirstBatchIncomplete = got.FirstIncomplete
	if got.File == nil {
		return true, nil
	}
	r.Records = wire.Range{File: got.File, Pos: got.Pos, Len: got.Len}
	r.SizeBytes = got.Len
	if in.IncludeAborted {
		if err := l.addAborted(r, in, segs, i, upper); err != nil {
			r.Release()
			return true, err
		}
	}
	return true, nil
}

// addAborted lists the aborted transactions that overlap what is returned
// (LocalLog.addAbortedTransactions).
func (l *Log) addAborted(r *ReadResult, in *ReadInput, segs []*segment.Segment, i int, upper int64) error {
	until, ok, err := segs[i].OffsetAfter(r.Records.Pos + int64(r.Records.Len))
	if err != nil {
		return err
	}
	if !ok || until > upper {
		until = upper
	}
	var found []index.AbortedTxn
	for _, seg := range segs[i:] {
		var complete bool
		found, complete, err = l.collectAborted(seg, found, in.StartOffset, until)
		if err != nil {
			return err
		}
		if complete {
			break
		}
	}
	for _, t := range found {
		r.Aborted = append(r.Aborted, wire.AbortedTransaction{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
	}
	return nil
}

// collectAborted rebuilds a transaction index that does not hold.
func (l *Log) collectAborted(seg *segment.Segment, dst []index.AbortedTxn, from, until int64) ([]index.AbortedTxn, bool, error) {
	out, complete, err := seg.CollectAborted(dst, from, until)
	if !errors.Is(err, index.ErrCorrupt) {
		return out, complete, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.rebuildTxns(seg, err); err != nil {
		return dst, false, err
	}
	return seg.CollectAborted(dst, from, until)
}

// AbortedTxns returns the aborted transactions that overlap [from, upper).
func (l *Log) AbortedTxns(from, upper int64) ([]index.AbortedTxn, error) {
	var found []index.AbortedTxn
	err := l.onSegments("aborted transactions of", func(segs []*segment.Segment) error {
		found = nil
		for _, seg := range segs[max(0, floor(segs, from)):] {
			var complete bool
			var err error
			found, complete, err = l.collectAborted(seg, found, from, upper)
			if err != nil || complete {
				return err
			}
		}
		return nil
	})
	return found, err
}
