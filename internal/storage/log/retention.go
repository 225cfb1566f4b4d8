package log

import (
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
)

// IncrementLogStartOffset raises the log start (DeleteRecords, retention).
// Above the high watermark it is OFFSET_OUT_OF_RANGE; below the present start it
// does nothing. The checkpoint follows within a second.
func (l *Log) IncrementLogStartOffset(offset int64) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.mu.Lock()
	changed, err := l.raiseStart(offset)
	l.mu.Unlock()
	if err != nil || !changed {
		return err
	}
	return l.env.moved(l, false)
}

func (l *Log) raiseStart(offset int64) (bool, error) {
	if hw := l.hw.Load(); offset > hw {
		return false, kerrors.New(kerrors.OffsetOutOfRange, "cannot raise the log start of %s to %d, above the high watermark %d", l.tp, offset, hw)
	}
	if offset <= l.start.Load() {
		return false, nil
	}
	l.start.Store(offset)
	if l.durable.Load() < offset {
		l.durable.Store(offset) // nothing below is needed any more
	}
	l.epochs.TruncateFromStart(offset)
	l.producers.OnLogStartOffset(offset)
	l.updateUnstable()
	return true, nil
}

// DeleteOldSegments applies the retention of the topic and returns how many
// segments went. Nothing at or above the high watermark goes. Kafka's order:
// what lies below the log start, then by size, then by time.
func (l *Log) DeleteOldSegments(nowMs int64) (int, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	n := 0
	for _, rule := range l.rules(nowMs) {
		gone, err := l.deleteWhile(rule.reason, rule.due)
		n += gone
		if err != nil {
			return n, l.env.storage(err, "retention of "+l.tp.String())
		}
	}
	if n > 0 {
		return n, l.env.moved(l, false)
	}
	return n, nil
}

// DeleteSegmentsBelowStart removes the segments that lie wholly below the log
// start and returns how many.
func (l *Log) DeleteSegmentsBelowStart() (int, error) {
	n, err := l.deleteWhile("log start offset", l.belowStart)
	return n, l.env.storage(err, "delete segments of "+l.tp.String())
}

// rule says whether the oldest segment is due; next is nil for the active one.
type rule struct {
	reason string
	due    func(seg, next *segment.Segment) (bool, error)
}

func (l *Log) belowStart(_, next *segment.Segment) (bool, error) {
	return next != nil && next.BaseOffset() <= l.start.Load(), nil
}

func (l *Log) rules(nowMs int64) []rule {
	cfg := l.cfg.Load()
	rules := []rule{{"log start offset", l.belowStart}}
	if !cfg.CleanupDelete {
		return rules
	}
	if size := l.SizeBytes(); cfg.RetentionBytes >= 0 && size >= cfg.RetentionBytes {
		excess := size - cfg.RetentionBytes
		rules = append(rules, rule{"retention.bytes", func(seg, _ *segment.Segment) (bool, error) {
			if excess < seg.Size() {
				return false, nil
			}
			excess -= seg.Size()
			return true, nil
		}})
	}
	if cfg.RetentionMs >= 0 {
		rules = append(rules, rule{"retention.ms", func(seg, _ *segment.Segment) (bool, error) {
			ts, err := seg.LargestTimestamp()
			return nowMs-ts > cfg.RetentionMs, err
		}})
	}
	return rules
}

// deleteWhile removes segments from the oldest on, as long as they are due. The
// rule is asked without the lock because it may have to read; the lock then
// takes only what is still the head of the list.
func (l *Log) deleteWhile(reason string, due func(seg, next *segment.Segment) (bool, error)) (int, error) {
	list := l.segs.Load()
	segs := *list
	n := 0
	for n < len(segs) {
		var next *segment.Segment
		upper := l.end.Load()
		if n+1 < len(segs) {
			next = segs[n+1]
			upper = next.BaseOffset()
		}
		if l.hw.Load() < upper || next == nil && segs[n].Size() == 0 {
			break
		}
		ok, err := due(segs[n], next)
		if vanished(err) && l.segs.Load() != list {
			return 0, nil // somebody else deletes; next time
		}
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deleteHead(segs[:n], reason)
}

func (l *Log) deleteHead(head []*segment.Segment, reason string) (int, error) {
	segs := *l.segs.Load()
	if l.gone.Load() || len(segs) < len(head) || segs[0] != head[0] || segs[len(head)-1] != head[len(head)-1] {
		return 0, nil // something else changed the list; next time
	}
	if len(head) == len(segs) {
		// The active segment goes too: what comes next needs a new one.
		if l.hw.Load() < l.end.Load() {
			head = head[:len(head)-1]
		} else if _, err := l.roll(l.end.Load()); err != nil {
			return 0, err
		}
		segs = *l.segs.Load()
	}
	if len(head) == 0 || len(head) == len(segs) {
		return 0, nil
	}
	rest := segs[len(head):]
	if _, err := l.raiseStart(rest[0].BaseOffset()); err != nil {
		return 0, err
	}
	l.setSegments(append([]*segment.Segment(nil), rest...))
	l.env.logger.Info("deleting segments", "partition", l.tp.String(), "reason", reason,
		"segments", len(head), "logStartOffset", l.start.Load())
	return len(head), l.discard(head)
}
