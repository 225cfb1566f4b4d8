package replica

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/purgatory"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/types"
)

const (
	// adminClientID may write to internal topics (KafkaApis.handleProduceRequest).
	adminClientID = "__admin_client"
	// minDurableWait is how long an acknowledgement waits at least for the disk:
	// a client's timeout is about other replicas, and Kafka never waits for a disk.
	minDurableWait = time.Second
	// leaderHintProduce and leaderHintFetch are the versions with KIP-951.
	leaderHintProduce int16 = 10
	leaderHintFetch   int16 = 16
)

// Produce appends each partition's batch before it returns and calls done once,
// now or later, when every partition's outcome is final: acks=0 at once; acks=1
// when the leader's log has the batch (and, in strict durability, has it on
// disk); acks=-1 when the high watermark covers it. in and its records may be
// reused after Produce returns.
func (m *Manager) Produce(in *ProduceInput, done func([]ProduceResult)) {
	m.producing.Add(1)
	op := &produceOp{m: m, acks: in.Acks, version: in.Version, done: done}
	op.results = make([]ProduceResult, len(in.Partitions))
	for i := range in.Partitions {
		op.append(in, i)
	}
	if len(op.waits) == 0 {
		op.answer()
		return
	}
	var buf [8]*Partition
	keys := buf[:0]
	for i := range op.waits {
		keys = append(keys, op.waits[i].p)
	}
	timeout := max(time.Duration(in.TimeoutMs)*time.Millisecond, minDurableWait)
	m.produces.TryCompleteOrWatch(op, timeout, keys...)
}

// produceOp is a Produce request that waits for its acknowledgement.
type produceOp struct {
	m       *Manager
	acks    int16
	version int16
	results []ProduceResult
	waits   []produceWait
	one     [1]produceWait // the usual case without a second allocation
	done    func([]ProduceResult)
}

type produceWait struct {
	p        *Partition
	index    int
	required int64 // offset that must be covered
	reign    int32
	settled  bool
}

func (op *produceOp) append(in *ProduceInput, i int) {
	part := &in.Partitions[i]
	res := &op.results[i]
	*res = ProduceResult{TP: part.TP, BaseOffset: -1, LogAppendTimeMs: -1, LogStartOffset: -1}
	p, err := op.target(in, part)
	if err != nil {
		res.fail(op.m, err, in.Version)
		return
	}
	input := log.AppendInput{
		Records: part.Records, NowMs: op.m.opts.NowMs(), Origin: record.OriginClient, ProduceVersion: in.Version,
	}
	info, v, err := p.appendAsLeader(in.Acks, input)
	if err != nil {
		res.fail(op.m, err, in.Version)
		if v.log != nil && saysLogStart(kerrors.CodeOf(res.Err)) && record.CheckShape(part.Records, in.Version) == nil {
			res.LogStartOffset = v.log.LogStartOffset()
		}
		return
	}
	res.BaseOffset, res.LogAppendTimeMs, res.LogStartOffset = info.FirstOffset, info.LogAppendTimeMs, info.LogStartOffset
	if in.Acks == 0 || (in.Acks == 1 && !v.strict) {
		return
	}
	if op.waits == nil {
		op.waits = op.one[:0]
	}
	op.waits = append(op.waits, produceWait{p: p, index: i, required: info.NextOffset(), reign: v.reign})
}

// saysLogStart tells the refusals that come with the log's start from those that
// say nothing of the log (ReplicaManager.appendToLocalLog).
func saysLogStart(c kerrors.Code) bool {
	switch c {
	case kerrors.UnknownTopicOrPartition, kerrors.UnknownTopicID, kerrors.NotLeaderOrFollower, kerrors.MessageTooLarge,
		kerrors.RecordListTooLarge, kerrors.CorruptMessage, kerrors.KafkaStorageError:
		return false
	}
	return true
}

// target finds the partition and refuses what needs no log, in Kafka's order: a
// partition that the cluster does not have, the number of batches and their
// format, acks, internal topics, leadership.
func (op *produceOp) target(in *ProduceInput, part *ProducePartition) (*Partition, error) {
	tp := part.TP
	p, code := op.m.lookup(tp, kerrors.UnknownTopicID)
	switch {
	case code == kerrors.UnknownTopicOrPartition || code == kerrors.UnknownTopicID:
		return nil, code
	case in.Acks < -1 || in.Acks > 1 || types.IsInternalTopic(tp.Topic) && in.ClientID != adminClientID:
		if err := record.CheckShape(part.Records, in.Version); err != nil {
			return nil, err
		}
		if in.Acks < -1 || in.Acks > 1 {
			return nil, kerrors.InvalidRequiredAcks
		}
		return nil, kerrors.New(kerrors.InvalidTopicException, "cannot append to internal topic %s", tp.Topic)
	case code != kerrors.None:
		return nil, code
	}
	return p, nil
}

// fail records an error, with the parts of it that a response can carry.
func (r *ProduceResult) fail(m *Manager, err error, version int16) {
	r.BaseOffset, r.LogAppendTimeMs, r.Err = -1, -1, err
	var invalid *record.InvalidError
	if errors.As(err, &invalid) {
		r.Err = kerrors.Wrap(invalid.Code, err, "%s", invalid.Message)
		for _, re := range invalid.RecordErrors {
			r.RecordErrors = append(r.RecordErrors, RecordError(re))
		}
	}
	if version >= leaderHintProduce {
		r.CurrentLeader = m.hintFor(r.TP, kerrors.CodeOf(r.Err), false)
	}
}

// appendAsLeader appends in the current leader epoch and returns the view that
// held meanwhile.
func (p *Partition) appendAsLeader(acks int16, in log.AppendInput) (log.AppendInfo, *view, error) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	v := p.view.Load()
	if c := v.leading(-1); c != kerrors.None {
		return log.AppendInfo{}, v, c
	}
	if p.m.refusing.Load() {
		return log.AppendInfo{}, v, kerrors.NotLeaderOrFollower
	}
	if acks == -1 && v.underMinISR {
		return log.AppendInfo{}, v, kerrors.New(kerrors.NotEnoughReplicas,
			"the in-sync replicas of %s are fewer than min.insync.replicas", p.tp.TopicPartition())
	}
	in.LeaderEpoch = v.leaderEpoch
	info, err := v.log.AppendAsLeader(in)
	if err != nil {
		return info, v, err
	}
	if !info.Duplicate {
		p.appended(v.log)
	}
	return info, v, nil
}

// Ready settles what is settled and reports whether everything is.
func (op *produceOp) Ready() bool {
	all := true
	for i := range op.waits {
		w := &op.waits[i]
		if w.settled {
			continue
		}
		var code kerrors.Code
		if w.settled, code = w.p.acked(op.acks, w.required, w.reign); !w.settled {
			all = false
			continue
		}
		if code != kerrors.None {
			op.results[w.index].fail(op.m, code, op.version)
		}
	}
	return all
}

// Finish answers; what is not settled by then timed out.
func (op *produceOp) Finish(purgatory.Reason) {
	for i := range op.waits {
		if w := &op.waits[i]; !w.settled {
			op.results[w.index].fail(op.m, kerrors.RequestTimedOut, op.version)
		}
	}
	op.answer()
}

func (op *produceOp) answer() {
	op.done(op.results)
	op.m.producing.Add(-1)
}

// FinishProduces refuses appends from now on and waits until those made before
// are answered, or ctx ends. A stop begins with it: a batch that is appended but
// not answered is sent again after the restart, and then the producer's window of
// five batches is gone (a snapshot holds the last one only), so that all but the
// last would be taken for a gap, and the client would write them twice.
func (m *Manager) FinishProduces(ctx context.Context) {
	m.refusing.Store(true)
	tick := time.NewTicker(time.Millisecond) // at most once in a process, for as long as an fsync takes
	defer tick.Stop()
	for m.producing.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// acked says whether an append is settled, without a lock: every input is an
// atomic that changes before the partition is completed again.
func (p *Partition) acked(acks int16, required int64, reign int32) (bool, kerrors.Code) {
	v := p.view.Load()
	if c := v.check(); c != kerrors.None {
		return true, c
	}
	if v.role != partition.RoleLeader || v.reign != reign {
		return true, kerrors.NotLeaderOrFollower
	}
	if acks == 1 {
		return v.log.DurableEndOffset() >= required, kerrors.None
	}
	if v.log.HighWatermark() < required {
		return false, kerrors.None
	}
	if !v.ackable {
		return true, kerrors.NotEnoughReplicasAfterAppend
	}
	return true, kerrors.None
}
