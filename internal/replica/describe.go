package replica

import (
	"fmt"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DescribeProducers lists the active producers of partitions this broker leads.
func (m *Manager) DescribeProducers(in []types.TopicPartition) []DescribeProducersResult {
	results := make([]DescribeProducersResult, len(in))
	for i, tp := range in {
		res := &results[i]
		res.TP = tp
		p, code := m.lookup(types.TopicIDPartition{Topic: tp.Topic, Partition: tp.Partition}, kerrors.UnknownTopicOrPartition)
		if code == kerrors.None {
			v := p.view.Load()
			if code = v.leading(-1); code == kerrors.None {
				res.Producers = producersOf(v)
			}
		}
		if res.Code = code; code != kerrors.None {
			res.Message = fmt.Sprintf("%s: %s", tp, code.Error())
		}
	}
	return results
}

func producersOf(v *view) []ProducerState {
	entries := v.log.Producers()
	out := make([]ProducerState, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		out = append(out, ProducerState{
			ProducerID: e.ProducerID, ProducerEpoch: int32(e.Epoch), LastSequence: e.LastSequence(),
			LastTimestampMs: e.LastTimestampMs, CoordinatorEpoch: e.CoordinatorEpoch, CurrentTxnStartOffset: e.CurrentTxnFirstOffset,
		})
	}
	return out
}

// DescribeLogDirs describes all data folders. With a filter only the logs of
// those partitions are listed; nil means every log.
func (m *Manager) DescribeLogDirs(filter map[types.TopicPartition]bool) []LogDirDescription {
	var out []LogDirDescription
	byDir := map[string][]LogDescription{}
	for _, l := range m.logs.All() {
		tp := l.TopicPartition()
		if filter != nil && !filter[tp] {
			continue
		}
		byDir[l.Dir().Path] = append(byDir[l.Dir().Path], LogDescription{
			TP: tp, SizeBytes: l.SizeBytes(), OffsetLag: max(0, l.HighWatermark()-l.LogEndOffset()),
		})
	}
	for _, dir := range m.dirs() {
		d := LogDirDescription{Path: dir.Path, TotalBytes: -1, UsableBytes: -1}
		if dir.IsOffline() {
			d.Code = kerrors.KafkaStorageError
		} else {
			d.Logs = byDir[dir.Path]
			if total, usable, err := dir.Usage(); err == nil {
				d.TotalBytes, d.UsableBytes = total, usable
			}
		}
		out = append(out, d)
	}
	for _, path := range m.opts.FailedDirs {
		out = append(out, LogDirDescription{Path: path, Code: kerrors.KafkaStorageError, TotalBytes: -1, UsableBytes: -1})
	}
	return out
}
