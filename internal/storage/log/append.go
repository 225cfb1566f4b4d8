package log

import (
	"errors"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/index"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
)

// AppendAsLeader validates, stamps and appends records. Errors carry Kafka's
// codes; KAFKA_STORAGE_ERROR is retriable and means that nothing was written.
// A refusal is *record.InvalidError with the records to blame.
func (l *Log) AppendAsLeader(in AppendInput) (AppendInfo, error) {
	if err := l.usable(); err != nil {
		return AppendInfo{}, err
	}
	checked, err := record.Check(in.Records, l.checkOptions(&in))
	if err != nil {
		return AppendInfo{}, err
	}
	l.mu.Lock()
	info, err := l.leaderLocked(&in, checked)
	end := l.end.Load()
	l.mu.Unlock()
	if err == nil && !info.Duplicate {
		l.env.appended(l, info.SizeBytes, end)
	}
	return info, err
}

// leaderLocked stamps and writes what passed the checks; those ran without the
// lock because they look at every record.
func (l *Log) leaderLocked(in *AppendInput, checked record.Checked) (AppendInfo, error) {
	if err := l.usable(); err != nil {
		return AppendInfo{}, err
	}
	v := checked.Stamp(l.end.Load(), in.LeaderEpoch, in.NowMs)
	info := AppendInfo{
		FirstOffset: v.Batch.BaseOffset(), LastOffset: v.Batch.LastOffset(),
		LogAppendTimeMs: v.LogAppendTimeMs, LogStartOffset: l.start.Load(),
		MaxTimestampMs: v.MaxTimestampMs, RecordCount: v.RecordCount, SizeBytes: len(v.Batch),
	}
	var update *producerstate.Update
	if v.Batch.HasProducerID() {
		view, err := producerstate.BatchOf(v.Batch)
		if err != nil {
			return AppendInfo{}, kerrors.Wrap(kerrors.InvalidRecord, err, "control batch")
		}
		if view.Marker != nil {
			view.Marker.TransactionVersion = in.TransactionVersion
		}
		update = l.producers.Prepare(in.Origin)
		verdict, err := update.Add(view)
		if err != nil {
			return AppendInfo{}, err
		}
		if verdict.Duplicate {
			return l.duplicate(info, verdict), nil
		}
	}
	if err := l.assignEpoch(in.LeaderEpoch, info.FirstOffset); err != nil {
		return AppendInfo{}, err
	}
	a := appendSet{bytes: v.Batch, first: info.FirstOffset, last: info.LastOffset, maxTs: v.MaxTimestampMs, nowMs: in.NowMs}
	return info, l.write(a, update)
}

// duplicate answers a batch that is in the log already with what it got then.
func (l *Log) duplicate(info AppendInfo, v producerstate.Verdict) AppendInfo {
	info.Duplicate = true
	info.FirstOffset, info.LastOffset = v.FirstOffset, v.LastOffset
	info.LogAppendTimeMs = v.TimestampMs // whatever the timestamp type, as UnifiedLog.append
	info.SizeBytes = 0
	return info
}

// appendSet is a set of stamped batches on its way to the file.
type appendSet struct {
	bytes       []byte
	first, last int64
	maxTs       int64
	nowMs       int64
}

// write rolls when it must, writes, and publishes; l.mu is held.
func (l *Log) write(a appendSet, update *producerstate.Update) error {
	seg, err := l.maybeRoll(&a)
	if err != nil {
		return l.env.storage(err, "roll a segment of "+l.tp.String())
	}
	if err := seg.Append(a.bytes); err != nil {
		return l.env.storage(err, "append to "+l.tp.String())
	}
	var done []producerstate.CompletedTxn
	if update != nil {
		done = l.producers.Commit(update)
	}
	l.sinceSnap += int64(len(a.bytes))
	l.appendedBytes.Add(int64(len(a.bytes)))
	l.producers.SetEndOffset(a.last + 1)
	err = l.completeTxns(seg, done)
	if update != nil {
		l.updateUnstable()
	}
	l.end.Store(a.last + 1)
	return err
}

// completeTxns closes transactions whose markers were written.
func (l *Log) completeTxns(seg *segment.Segment, done []producerstate.CompletedTxn) error {
	for _, c := range done {
		if t, ok := l.producers.Aborted(c); ok {
			if err := seg.AppendAborted(index.AbortedTxn(t)); err != nil {
				// The marker is in the log but its entry is not: a reader would
				// take aborted records for committed ones. Recovery rebuilds it.
				l.env.offline(err)
				return l.env.storage(err, "transaction index of "+l.tp.String())
			}
			l.newNames = true
		}
		if err := l.producers.CompleteTxn(c); err != nil {
			return kerrors.Wrap(kerrors.UnknownServerError, err, "complete a transaction of %s", l.tp)
		}
	}
	return nil
}

// maybeRoll returns the segment to append to (LogSegment.shouldRoll).
func (l *Log) maybeRoll(a *appendSet) (*segment.Segment, error) {
	seg := l.active()
	roll, err := shouldRoll(l.cfg.Load(), seg, a)
	if err != nil || !roll {
		return seg, err
	}
	return l.roll(a.first)
}

func shouldRoll(cfg *config.TopicConfig, seg *segment.Segment, a *appendSet) (bool, error) {
	size := seg.Size()
	if size+int64(len(a.bytes)) > int64(cfg.SegmentBytes) && size > 0 || !seg.Fits(a.last) || seg.IndexFull() {
		return true, nil
	}
	if size == 0 {
		return false, nil
	}
	waited, err := seg.WaitedForRollMs(a.nowMs, a.maxTs)
	return waited > cfg.SegmentMs-seg.JitterMs(), err
}

// roll seals the active segment and makes a new one at base. On error nothing
// changed, so an append may try again. l.mu is held.
func (l *Log) roll(base int64) (*segment.Segment, error) {
	old := l.active()
	if old.BaseOffset() >= base {
		return old, nil // an empty segment at that offset does for a new one
	}
	seg, err := segment.Create(base, l.segmentOptions())
	if err != nil {
		return nil, err
	}
	if err := old.Seal(); err != nil {
		return nil, errors.Join(err, seg.Remove())
	}
	l.producers.SetEndOffset(base)
	l.takeSnapshot(true)
	l.unsynced = append(l.unsynced, old)
	l.newNames = true
	l.setSegments(append(append([]*segment.Segment(nil), *l.segs.Load()...), seg))
	l.env.sync(l)
	return seg, nil
}

// takeSnapshot writes the producers at the state's end offset; sync has the next
// Sync make it durable. A snapshot that cannot be written, or is lost, is made
// up for by replaying more of the log.
// Before it come the aborted transactions: a start that loads the snapshot does
// not look at the markers below it again. l.mu is held, across two syncs when
// there are such.
func (l *Log) takeSnapshot(sync bool) {
	synced, err := l.active().SyncAborted()
	if synced && err == nil {
		err = l.env.fs.SyncDir(l.folder.Path())
	}
	if err != nil {
		l.env.offline(err)
		return
	}
	offset, taken, err := l.producers.TakeSnapshot(false)
	if err != nil {
		l.env.logger.Warn("no producer snapshot; a restart after a crash replays more of the log",
			"partition", l.tp.String(), "error", err)
		return
	}
	l.sinceSnap = 0
	if !taken {
		return
	}
	if path, ok := l.producers.SnapshotPath(offset); ok && sync {
		l.snapshots = append(l.snapshots, path)
	}
}

// AppendAsFollower appends batches as fetched from the leader. Batches from an
// epoch above leaderEpoch are left out (KAFKA-18723), and what is behind the
// last whole batch too.
func (l *Log) AppendAsFollower(records []byte, leaderEpoch int32) (AppendInfo, error) {
	if err := l.usable(); err != nil {
		return AppendInfo{}, err
	}
	l.mu.Lock()
	info, err := l.followerLocked(records, leaderEpoch)
	end := l.end.Load()
	l.mu.Unlock()
	if err == nil && info.SizeBytes > 0 {
		l.env.appended(l, info.SizeBytes, end)
	}
	return info, err
}

func (l *Log) followerLocked(records []byte, leaderEpoch int32) (AppendInfo, error) {
	if err := l.usable(); err != nil {
		return AppendInfo{}, err
	}
	info := AppendInfo{FirstOffset: none, LastOffset: none, LogAppendTimeMs: -1, MaxTimestampMs: -1, LogStartOffset: l.start.Load()}
	update := l.producers.Prepare(record.OriginReplication)
	if err := l.survey(records, leaderEpoch, update, &info); err != nil || info.SizeBytes == 0 {
		return info, err
	}
	set := records[:info.SizeBytes]
	if len(set) > l.cfg.Load().SegmentBytes {
		return l.followerPieces(set, leaderEpoch, info)
	}
	for b := range batchesOf(set) {
		if err := l.assignEpoch(b.PartitionLeaderEpoch(), b.BaseOffset()); err != nil {
			return info, err
		}
	}
	a := appendSet{bytes: set, first: info.FirstOffset, last: info.LastOffset, maxTs: info.MaxTimestampMs, nowMs: l.env.now()}
	return info, l.write(a, update)
}

// followerPieces appends a fetch that is larger than a segment batch by batch.
func (l *Log) followerPieces(set []byte, leaderEpoch int32, info AppendInfo) (AppendInfo, error) {
	if record.Batch(set).LengthBytes() == len(set) {
		return info, kerrors.New(kerrors.RecordListTooLarge, "a batch of %d bytes exceeds segment.bytes of %s", len(set), l.tp)
	}
	for b := range batchesOf(set) {
		if _, err := l.followerLocked(b, leaderEpoch); err != nil {
			return info, err
		}
	}
	return info, nil
}

// survey checks the batches of a fetch and sums them up in info; SizeBytes is
// what may be written.
func (l *Log) survey(records []byte, leaderEpoch int32, update *producerstate.Update, info *AppendInfo) error {
	next := l.end.Load()
	for b, err := range record.Batches(records) {
		if errors.Is(err, record.ErrShort) {
			return nil
		}
		if err == nil {
			err = b.Verify()
		}
		if err != nil {
			return kerrors.Wrap(kerrors.CorruptMessage, err, "fetched batch for %s", l.tp)
		}
		if b.PartitionLeaderEpoch() > leaderEpoch {
			l.env.logger.Info("leaving out a batch from a newer leader epoch", "partition", l.tp.String(),
				"batchEpoch", b.PartitionLeaderEpoch(), "epoch", leaderEpoch)
			return nil
		}
		if b.BaseOffset() < next {
			return kerrors.New(kerrors.UnknownServerError, "fetched batch of %s begins at %d, below the next offset %d", l.tp, b.BaseOffset(), next)
		}
		if b.HasProducerID() {
			view, err := producerstate.BatchOf(b)
			if err == nil {
				_, err = update.Add(view)
			}
			if err != nil {
				return kerrors.Wrap(kerrors.CorruptMessage, err, "fetched batch of %s at %d", l.tp, b.BaseOffset())
			}
		}
		if info.FirstOffset == none {
			info.FirstOffset = b.BaseOffset()
		}
		info.LastOffset = b.LastOffset()
		info.MaxTimestampMs = max(info.MaxTimestampMs, b.MaxTimestamp())
		info.RecordCount += int(b.Count())
		info.SizeBytes += len(b)
		next = b.NextOffset()
	}
	return nil
}

// batchesOf steps over whole batches that were checked before.
func batchesOf(set []byte) func(yield func(record.Batch) bool) {
	return func(yield func(record.Batch) bool) {
		for len(set) > 0 {
			n := record.Batch(set).LengthBytes()
			if !yield(record.Batch(set[:n])) {
				return
			}
			set = set[n:]
		}
	}
}
