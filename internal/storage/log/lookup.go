package log

import (
	"github.com/tidemark-io/tidemark/internal/storage/segment"
)

// OffsetForTimestamp returns the first record at or after the time ts whose
// offset is below upper (ListOffsets with a time; case C049).
func (l *Log) OffsetForTimestamp(ts, upper int64) (TimestampOffset, bool, error) {
	if err := l.usable(); err != nil {
		return TimestampOffset{}, false, err
	}
	var out TimestampOffset
	var ok bool
	err := l.onSegments("look up a time in", func(segs []*segment.Segment) (err error) {
		out, ok, err = l.firstSince(segs, ts, upper)
		return err
	})
	return out, ok, err
}

func (l *Log) firstSince(segs []*segment.Segment, ts, upper int64) (TimestampOffset, bool, error) {
	start := l.start.Load()
	for _, seg := range segs[max(0, floor(segs, start)):] {
		if seg.Size() == 0 || seg.BaseOffset() >= upper {
			continue
		}
		largest, err := seg.MaxTimestamp()
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if largest.TimestampMs < ts {
			continue
		}
		f, ok, err := seg.FindTimestamp(ts, start)
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if ok {
			return found(f), f.Offset < upper, nil
		}
	}
	return TimestampOffset{}, false, nil
}

func found(f segment.Found) TimestampOffset {
	return TimestampOffset{Offset: f.Offset, TimestampMs: f.TimestampMs, LeaderEpoch: f.LeaderEpoch}
}

// OffsetForMaxTimestamp returns the first record with the largest timestamp of
// the log (ListOffsets -3; case C051).
func (l *Log) OffsetForMaxTimestamp() (TimestampOffset, bool, error) {
	if err := l.usable(); err != nil {
		return TimestampOffset{}, false, err
	}
	var out TimestampOffset
	var ok bool
	err := l.onSegments("look up the latest time in", func(segs []*segment.Segment) (err error) {
		out, ok, err = latest(segs)
		return err
	})
	return out, ok, err
}

func latest(segs []*segment.Segment) (TimestampOffset, bool, error) {
	var best *segment.Segment
	bestTs := int64(-1)
	for _, seg := range segs {
		t, err := seg.MaxTimestamp()
		if err != nil {
			return TimestampOffset{}, false, err
		}
		if t.TimestampMs > bestTs {
			best, bestTs = seg, t.TimestampMs
		}
	}
	if best == nil {
		return TimestampOffset{}, false, nil
	}
	f, ok, err := best.FindMaxTimestamp()
	if err != nil || !ok {
		return TimestampOffset{}, false, err
	}
	return found(f), true, nil
}
