package replica

import (
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/purgatory"
	"github.com/tidemark-io/tidemark/internal/types"
)

// toHighWatermark as the offset of DeleteRecords means the high watermark.
const toHighWatermark int64 = -1

// DeleteRecords raises log start offsets and calls done once, when the low
// watermark over the alive replicas covers every partition or the time is up.
func (m *Manager) DeleteRecords(in *DeleteRecordsInput, done func([]DeleteRecordsResult)) {
	op := &deleteOp{results: make([]DeleteRecordsResult, len(in.Partitions)), done: done}
	var keys []*Partition
	for i := range in.Partitions {
		q, res := &in.Partitions[i], &op.results[i]
		*res = DeleteRecordsResult{TP: q.TP, LowWatermark: -1}
		p, target, code := m.deleteRecords(q)
		if code != kerrors.None {
			res.Code = code
			continue
		}
		op.waits = append(op.waits, deleteWait{p: p, index: i, target: target})
		keys = append(keys, p)
	}
	if len(op.waits) == 0 {
		done(op.results)
		return
	}
	m.deletes.TryCompleteOrWatch(op, time.Duration(in.TimeoutMs)*time.Millisecond, keys...)
}

func (m *Manager) deleteRecords(q *DeleteRecordsPartition) (*Partition, int64, kerrors.Code) {
	if types.IsInternalTopic(q.TP.Topic) {
		return nil, 0, kerrors.InvalidTopicException
	}
	p, code := m.lookup(types.TopicIDPartition{Topic: q.TP.Topic, Partition: q.TP.Partition}, kerrors.UnknownTopicOrPartition)
	if code != kerrors.None {
		return nil, 0, code
	}
	target, code := p.deleteRecords(q.Offset)
	return p, target, code
}

func (p *Partition) deleteRecords(offset int64) (int64, kerrors.Code) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	v := p.view.Load()
	if c := v.leading(-1); c != kerrors.None {
		return 0, c
	}
	p.mu.Lock()
	refused := p.cfg.CleanupCompact && !p.cfg.CleanupDelete
	p.mu.Unlock()
	if refused {
		return 0, kerrors.PolicyViolation
	}
	if offset == toHighWatermark {
		offset = v.log.HighWatermark()
	}
	if offset < 0 {
		return 0, kerrors.OffsetOutOfRange
	}
	if err := v.log.IncrementLogStartOffset(offset); err != nil {
		return 0, kerrors.CodeOf(err)
	}
	start := v.log.LogStartOffset()
	p.step(func(c *partition.Core, _ int64) partition.Effects { return c.LogStartMoved(start) })
	return offset, kerrors.None
}

// deleteOp is a DeleteRecords request that waits for followers.
type deleteOp struct {
	results []DeleteRecordsResult
	waits   []deleteWait
	done    func([]DeleteRecordsResult)
}

type deleteWait struct {
	p       *Partition
	index   int
	target  int64
	settled bool
}

// Ready settles what is settled and reports whether everything is.
func (op *deleteOp) Ready() bool {
	all := true
	for i := range op.waits {
		w := &op.waits[i]
		if w.settled {
			continue
		}
		low, code := w.p.lowWatermark()
		if code == kerrors.None && low < w.target {
			op.results[w.index].LowWatermark = low
			all = false
			continue
		}
		w.settled = true
		op.results[w.index].Code, op.results[w.index].LowWatermark = code, low
	}
	return all
}

func (p *Partition) lowWatermark() (int64, kerrors.Code) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view.Load()
	if c := v.leading(-1); c != kerrors.None {
		return -1, c
	}
	// Retention moves the log start without telling the core.
	p.core.LogStartMoved(v.log.LogStartOffset())
	return p.core.LowWatermark(), kerrors.None
}

// Finish answers; what is not settled by then timed out.
func (op *deleteOp) Finish(purgatory.Reason) {
	for i := range op.waits {
		if w := &op.waits[i]; !w.settled {
			op.results[w.index].Code = kerrors.RequestTimedOut
		}
	}
	op.done(op.results)
}
