package log

import (
	"errors"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/index"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
)

// restoreAborted adds an aborted transaction found by a replay unless its
// segment's index has it already.
func (l *Log) restoreAborted(seg *segment.Segment, t producerstate.AbortedTxn) error {
	l.newNames = true
	err := seg.RestoreAborted(index.AbortedTxn(t))
	if !errors.Is(err, index.ErrCorrupt) {
		return err
	}
	return l.rebuildTxns(seg, err)
}

// rebuildTxns makes a transaction index anew by replaying the producers of the
// log up to the segment's end. That reads a lot, but an index that lost an entry
// would show aborted records to read_committed consumers. l.mu is held, or the
// log is being loaded.
func (l *Log) rebuildTxns(seg *segment.Segment, reason error) error {
	l.env.logger.Warn("rebuilding a transaction index from the log", "partition", l.tp.String(), "segment", seg.BaseOffset(), "reason", reason)
	if err := seg.ResetAborted(); err != nil {
		return err
	}
	st := producerstate.NewState()
	stop := errors.New("behind the segment")
	err := l.walk(l.start.Load(), func(b record.Batch, s *segment.Segment) error {
		if s.BaseOffset() > seg.BaseOffset() {
			return stop
		}
		if !b.HasProducerID() {
			return nil
		}
		view, err := producerstate.BatchOf(b)
		if err != nil {
			return err
		}
		_, done, err := st.Apply(view, record.OriginReplication)
		if err != nil {
			return err
		}
		for _, c := range done {
			if t, ok := st.Aborted(c); ok && s == seg {
				if err := seg.AppendAborted(index.AbortedTxn(t)); err != nil {
					return err
				}
			}
			if err := st.CompleteTxn(c); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, stop) {
		return nil
	}
	return err
}
