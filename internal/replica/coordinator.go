package replica

import (
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// HighWatermarkListener hears about one partition. Calls come with locks held,
// partly from the commit loop: note the value and return.
type HighWatermarkListener interface {
	OnHighWatermark(tp types.TopicPartition, offset int64)
}

// AppendCoordinator appends one batch of a coordinator to the partition it
// leads and returns the offsets it got. It does not wait: the high watermark
// listener says when the batch is committed. Fewer in-sync replicas than
// min.insync.replicas refuse it, as acks=-1 does.
func (m *Manager) AppendCoordinator(in CoordinatorAppend) (firstOffset, lastOffset int64, err error) {
	p, code := m.local(in.TP)
	if code != kerrors.None {
		return -1, -1, code
	}
	if epoch := p.view.Load().leaderEpoch; epoch != in.LeaderEpoch {
		return -1, -1, kerrors.New(kerrors.NotLeaderOrFollower, "loaded in leader epoch %d, which is now %d", in.LeaderEpoch, epoch)
	}
	info, v, err := p.appendAsLeader(-1, log.AppendInput{
		Records: in.Batch, NowMs: m.opts.NowMs(), Origin: record.OriginCoordinator,
	})
	if err != nil {
		return -1, -1, err
	}
	if v.leaderEpoch != in.LeaderEpoch {
		return info.FirstOffset, info.LastOffset, kerrors.NotLeaderOrFollower
	}
	return info.FirstOffset, info.LastOffset, nil
}

// Tail is where a coordinator's partition stands.
type Tail struct {
	LogStart      int64
	LogEnd        int64
	HighWatermark int64
	LeaderEpoch   int32
	MaxBatchBytes int // max.message.bytes
}

// Tail describes a partition that this broker leads.
func (m *Manager) Tail(tp types.TopicPartition) (Tail, error) {
	p, code := m.local(tp)
	if code != kerrors.None {
		return Tail{}, code
	}
	v := p.view.Load()
	if c := v.leading(-1); c != kerrors.None {
		return Tail{}, c
	}
	p.mu.Lock()
	maxBytes := p.cfg.MaxMessageBytes
	p.mu.Unlock()
	return Tail{
		LogStart: v.log.LogStartOffset(), LogEnd: v.log.LogEndOffset(), HighWatermark: v.log.HighWatermark(),
		LeaderEpoch: v.leaderEpoch, MaxBatchBytes: maxBytes,
	}, nil
}

// ReadTail reads whole batches from offset on, below upper, at least one if
// there is any, and uncommitted ones too. The payload is the caller's to release.
func (m *Manager) ReadTail(tp types.TopicPartition, offset, upper int64, maxBytes int) (wire.Payload, error) {
	var out wire.Payload
	p, code := m.local(tp)
	if code != kerrors.None {
		return out, code
	}
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	v := p.view.Load()
	if c := v.leading(-1); c != kerrors.None {
		return out, c
	}
	got, err := v.log.Read(log.ReadInput{StartOffset: offset, MaxBytes: maxBytes, UpperBound: upper, MinOneBatch: true})
	if err != nil {
		return out, err
	}
	if got.SizeBytes > 0 {
		out.AppendRange(got.Records)
	}
	return out, nil
}

// Listen makes l the listener of a partition that this broker leads, and
// returns the high watermark now; false when it does not lead it. A nil l
// removes the listener, whoever leads.
func (m *Manager) Listen(tp types.TopicPartition, l HighWatermarkListener) (int64, bool) {
	p, code := m.local(tp)
	if code != kerrors.None {
		return -1, false
	}
	if l == nil {
		p.listener.Store(nil)
		return -1, false
	}
	v := p.view.Load()
	if v.leading(-1) != kerrors.None {
		return -1, false
	}
	p.listener.Store(&l)
	return v.log.HighWatermark(), true
}

func (m *Manager) local(tp types.TopicPartition) (*Partition, kerrors.Code) {
	return m.lookup(types.TopicIDPartition{Topic: tp.Topic, Partition: tp.Partition}, kerrors.UnknownTopicOrPartition)
}
