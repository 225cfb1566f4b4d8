package consumer

import (
	"github.com/tidemark-io/tidemark/consumer/internal/pauseset"
	"github.com/tidemark-io/tidemark/internal/types"
)

// pauseCheckMs is how often the client's paused set is compared with the wanted
// one when nothing changed: whatever somebody else did to it is put right then.
const pauseCheckMs = 100

// pauseLevel makes the client's paused set what it should be, whatever happened
// to it since the last turn.
func (l *loop) pauseLevel(now int64) {
	if !l.decidePauses() && now-l.pausedMs < pauseCheckMs {
		return
	}
	l.pausedMs = now
	wanted := make(map[types.TopicPartition]string, len(l.order))
	for _, p := range l.order {
		wanted[p.tp] = p.paused
	}
	pause, resume := pauseset.Diff(wanted, l.cl.PauseFetchPartitions(nil))
	if len(pause) > 0 {
		l.cl.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		l.cl.ResumeFetchPartitions(resume)
	}
}

// decidePauses computes, from the assignments alone, which partitions must not be
// fetched and why. It reports whether any of that changed.
func (l *loop) decidePauses() (changed bool) {
	limits := pauseset.Limits{Records: l.cfg.PartitionRecords, Bytes: l.cfg.PartitionBytes, Window: l.cfg.PartitionWindow}
	all := pauseset.Limits{Records: l.cfg.TotalRecords, Bytes: l.cfg.TotalBytes}
	var sum pauseset.Load
	for _, p := range l.order {
		load := p.a.Load()
		sum.Records += load.Records
		sum.Bytes += load.Bytes
	}
	l.total.held = all.Reason(sum, l.total.held)
	for _, p := range l.order {
		reason := limits.Reason(p.a.Load(), p.paused)
		switch {
		case p.held != nil:
			reason = "held"
		case l.drained:
			reason = "drain"
		case reason == "" && l.total.held != "":
			reason = "total"
		}
		changed = changed || p.paused != reason
		p.paused = reason
	}
	return changed
}

// fetchSizer keeps one partition's share of a fetch near what its bound has room
// for. The client throws away what it has buffered of a partition that is paused,
// so a fetch of many times the bound would be read from the broker many times
// over by a consumer that is slow.
type fetchSizer struct {
	largest, now   int32
	records, bytes int64
}

// smallestShare keeps fetches of tiny records from becoming a request a record.
const smallestShare = 32 << 10

// sampleRecords is how many records an average is taken over.
const sampleRecords = 200

// add counts delivered records and returns the share to ask for from now on, 0
// for no change. A share changes when it is off by a half, so that noise in sizes
// changes nothing.
func (f *fetchSizer) add(records int, bytes int64, bound int) int32 {
	f.records += int64(records)
	f.bytes += bytes
	if f.records < sampleRecords {
		return 0
	}
	want := f.bytes / f.records * int64(bound) / 2
	f.records, f.bytes = 0, 0
	share := int32(min(max(want, smallestShare), int64(f.largest)))
	if share > f.now/2 && share < f.now+f.now/2 {
		return 0
	}
	f.now = share
	return share
}
