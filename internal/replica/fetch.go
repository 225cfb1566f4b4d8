package replica

import (
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/purgatory"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// firstSelectiveVersion is the first Fetch version that consumers may send to
// followers (KIP-392).
const firstSelectiveVersion int16 = 11

// noReplica means that no other replica is preferred.
const noReplica int32 = -1

// Fetch reads and calls done exactly once: at once when MaxWaitMs is not
// positive, nothing is asked, MinBytes are there, or any partition has an error
// or a diverging epoch; else when enough bytes came, something changed, or
// MaxWaitMs passed. The first non-empty partition gives at least one whole
// batch, whatever the limits; after it they bind (KIP-74). in is kept until
// done is called and must not change.
func (m *Manager) Fetch(in *FetchInput, done func([]FetchResult)) {
	op := &fetchOp{m: m, in: in, done: done}
	results, bytes, urgent := op.read()
	if urgent || in.MaxWaitMs <= 0 || len(in.Partitions) == 0 || bytes >= int(in.MinBytes) {
		done(results)
		return
	}
	release(results)
	op.park()
}

// fetchOp is a Fetch request; it waits when there is too little to answer.
type fetchOp struct {
	m     *Manager
	in    *FetchInput
	parts []fetchTarget // while parked
	tail  bool          // reads to the log end
	// results is made once; a second read overwrites what the first released.
	results []FetchResult
	done    func([]FetchResult)
}

// fetchTarget is a partition as it was when the fetch was parked.
type fetchTarget struct {
	p           *Partition
	leaderEpoch int32
}

func (in *FetchInput) fromFollower() bool { return in.ReplicaID >= 0 }

// leaderOnly says that only a leader may answer: followers always ask it, and
// so do consumers that cannot be told of another replica.
func (in *FetchInput) leaderOnly() bool {
	return in.fromFollower() || (in.ReplicaID == -1 && in.Version < firstSelectiveVersion)
}

// visibleEnd is the first offset that the reader must not see.
func (in *FetchInput) visibleEnd(l *log.Log) int64 {
	switch {
	case in.ReplicaID != -1:
		return l.LogEndOffset()
	case in.ReadCommitted:
		return l.LastStableOffset()
	}
	return l.HighWatermark()
}

// read reads every partition in request order within the byte budget. urgent
// says that an answer must not wait, whatever it holds.
func (op *fetchOp) read() (results []FetchResult, bytes int, urgent bool) {
	in := op.in
	if op.results == nil {
		op.results = make([]FetchResult, len(in.Partitions))
	}
	results = op.results
	budget := int(in.MaxBytes)
	for i := range in.Partitions {
		res := &results[i]
		op.readPartition(&in.Partitions[i], res, budget, bytes == 0)
		n := res.Records.SizeBytes()
		bytes += n
		budget = max(0, budget-n)
		if res.ErrorCode != 0 || res.DivergingEpoch != nil {
			urgent = true
		}
	}
	return results, bytes, urgent
}

func (op *fetchOp) readPartition(fp *FetchPartition, res *FetchResult, budget int, minOne bool) {
	res.reset(fp)
	code := fp.Code
	if code == kerrors.None {
		var p *Partition
		if p, code = op.m.lookup(fp.TP, kerrors.InconsistentTopicID); code == kerrors.None {
			code = p.read(op.in, fp, res, min(budget, int(fp.MaxBytes)), minOne)
		}
	}
	if code == kerrors.None {
		return
	}
	res.Records.Release()
	res.reset(fp)
	res.ErrorCode = int16(code)
	if op.in.Version >= leaderHintFetch {
		if h := op.m.hintFor(fp.TP, code, true); h != nil {
			res.CurrentLeader = &wire.LeaderIDEpoch{LeaderID: h.LeaderID, LeaderEpoch: h.LeaderEpoch}
		}
	}
}

func (r *FetchResult) reset(fp *FetchPartition) {
	*r = FetchResult{TP: fp.TP, FetchPartition: wire.FetchPartition{
		Partition: fp.TP.Partition, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, PreferredReadReplica: noReplica,
	}}
}

// read answers one partition (Partition.fetchRecords). The offsets it reports
// are those from before the read, so that an append meanwhile cannot make a
// follower look caught up.
func (p *Partition) read(in *FetchInput, fp *FetchPartition, res *FetchResult, maxBytes int, minOne bool) kerrors.Code {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	v := p.view.Load()
	if c := v.readable(fp.CurrentLeaderEpoch, in.leaderOnly()); c != kerrors.None {
		return c
	}
	if in.fromFollower() {
		if c := p.checkFollower(in, fp); c != kerrors.None {
			return c
		}
	}
	l := v.log
	end := l.LogEndOffset()
	res.HighWatermark, res.LogStartOffset, res.LastStableOffset = l.HighWatermark(), l.LogStartOffset(), l.LastStableOffset()
	code := readLog(l, in, fp, res, maxBytes, minOne)
	if code == kerrors.None && in.fromFollower() && res.DivergingEpoch == nil {
		code = p.noteFollower(in, fp, end)
	}
	return code
}

func readLog(l *log.Log, in *FetchInput, fp *FetchPartition, res *FetchResult, maxBytes int, minOne bool) kerrors.Code {
	if fp.LastFetchedEpoch >= 0 {
		if diverging, c := divergence(l, fp); c != kerrors.None || diverging != nil {
			res.DivergingEpoch = diverging
			return c
		}
	}
	if fp.FetchOffset < l.LogStartOffset() || fp.FetchOffset > l.LogEndOffset() {
		return kerrors.OffsetOutOfRange
	}
	upper := in.visibleEnd(l)
	if in.ReplicaID == -1 && in.ReadCommitted {
		res.AbortedTransactions = []wire.AbortedTransaction{}
	}
	if fp.FetchOffset >= upper || (maxBytes <= 0 && !minOne) {
		return kerrors.None
	}
	got, err := l.Read(log.ReadInput{
		StartOffset: fp.FetchOffset, MaxBytes: max(maxBytes, 0), UpperBound: upper, MinOneBatch: minOne,
		IncludeAborted: in.ReplicaID == -1 && in.ReadCommitted,
	})
	if err != nil {
		return kerrors.CodeOf(err)
	}
	if got.FirstBatchIncomplete {
		got.Release()
		return kerrors.None
	}
	if got.Aborted != nil {
		res.AbortedTransactions = got.Aborted
	}
	if got.SizeBytes > 0 {
		res.Records.AppendRange(got.Records)
	} else {
		got.Release()
	}
	return kerrors.None
}

// divergence compares the last epoch that the reader has with this log's
// history (KIP-320, KIP-595). A reader below the log start is out of range
// whether it diverges or not.
func divergence(l *log.Log, fp *FetchPartition) (*wire.EpochEnd, kerrors.Code) {
	epoch, end := l.EndOffsetForEpoch(fp.LastFetchedEpoch)
	if epoch < 0 || end < 0 || fp.FetchOffset < l.LogStartOffset() {
		return nil, kerrors.OffsetOutOfRange
	}
	if epoch < fp.LastFetchedEpoch || end < fp.FetchOffset {
		return &wire.EpochEnd{Epoch: epoch, EndOffset: end}, kerrors.None
	}
	return nil, kerrors.None
}

// checkFollower refuses a fetch by a broker that is not assigned. One that knows
// the current epoch is assigned by metadata that is not here yet: it retries.
func (p *Partition) checkFollower(in *FetchInput, fp *FetchPartition) kerrors.Code {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.core.IsReplica(in.ReplicaID) && in.ReplicaID != p.m.opts.NodeID: // a leader does not follow itself
		return kerrors.None
	case fp.CurrentLeaderEpoch >= 0:
		return kerrors.UnknownLeaderEpoch
	}
	return kerrors.NotLeaderOrFollower
}

func (p *Partition) noteFollower(in *FetchInput, fp *FetchPartition, leaderEnd int64) kerrors.Code {
	var code kerrors.Code
	p.step(func(c *partition.Core, now int64) partition.Effects {
		var fx partition.Effects
		fx, code = c.ReplicaFetched(now, partition.ReplicaFetch{
			ReplicaID: in.ReplicaID, BrokerEpoch: in.ReplicaEpoch, FetchOffset: fp.FetchOffset, LogStart: fp.LogStartOffset,
			Durable: partition.UnknownOffset, LeaderEnd: leaderEnd,
		})
		return fx
	})
	if p.m.deletes.Waiting() > 0 {
		p.m.waker.wake(p) // the follower's log start may have completed a DeleteRecords
	}
	return code
}

// park waits on every partition of the request.
func (op *fetchOp) park() {
	t := op.m.table.Load()
	op.tail = op.in.ReplicaID != -1
	op.parts = make([]fetchTarget, len(op.in.Partitions))
	keys := make([]*Partition, len(op.in.Partitions))
	for i := range op.in.Partitions {
		tp := op.in.Partitions[i].TP
		p := t.get(tp.Topic, tp.Partition)
		if p == nil {
			op.respond() // it went away since the read: say so
			return
		}
		op.parts[i] = fetchTarget{p: p, leaderEpoch: p.view.Load().leaderEpoch}
		keys[i] = p
	}
	if op.tail {
		for _, p := range keys {
			p.tailReaders.Add(1)
		}
	}
	wait := time.Duration(op.in.MaxWaitMs) * time.Millisecond
	op.m.fetches.TryCompleteOrWatch(op, wait, keys...)
}

// Ready reports whether an answer would now be worth sending: enough bytes, or
// a change that the client must hear of. It takes no lock except for requests
// with MinBytes above 1, which look the sizes up.
func (op *fetchOp) Ready() bool {
	have := 0
	for i := range op.parts {
		fp, t := &op.in.Partitions[i], &op.parts[i]
		v := t.p.view.Load()
		if v.leaderEpoch != t.leaderEpoch || v.readable(fp.CurrentLeaderEpoch, op.in.leaderOnly()) != kerrors.None {
			return true
		}
		if fp.FetchOffset < v.log.LogStartOffset() || fp.FetchOffset > v.log.LogEndOffset() {
			return true
		}
		if op.in.visibleEnd(v.log) <= fp.FetchOffset {
			continue
		}
		if have += op.available(v.log, fp); have >= int(op.in.MinBytes) {
			return true
		}
	}
	return false
}

// available is how many bytes the partition would add to an answer.
func (op *fetchOp) available(l *log.Log, fp *FetchPartition) int {
	if op.in.MinBytes <= 1 {
		return 1
	}
	got, err := l.Read(log.ReadInput{
		StartOffset: fp.FetchOffset, MaxBytes: int(fp.MaxBytes), UpperBound: op.in.visibleEnd(l), MinOneBatch: true,
	})
	if err != nil {
		return int(op.in.MinBytes) // the answer will carry the error
	}
	defer got.Release()
	return got.SizeBytes
}

// Finish reads again and answers, on a goroutine of its own: whoever completed
// the operation has other work.
func (op *fetchOp) Finish(purgatory.Reason) {
	if op.tail {
		for i := range op.parts {
			op.parts[i].p.tailReaders.Add(-1)
		}
	}
	op.m.responding.Go(op.respond)
}

func (op *fetchOp) respond() {
	results, _, _ := op.read()
	op.done(results)
}

func release(results []FetchResult) {
	for i := range results {
		results[i].Records.Release()
	}
}
