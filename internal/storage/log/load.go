package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/epochcache"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// source says what is known of a log before it is loaded.
type source struct {
	tp      types.TopicPartition
	topicID types.UUID
	path    string
	dir     *logdir.Dir
	cfg     config.TopicConfig
	// clean says that the last process closed everything.
	clean bool
	// recoveryPoint and logStart are the checkpoints' offsets, 0 when absent.
	recoveryPoint, logStart int64
}

// open loads a log (LogLoader.load). The folder exists; it may be empty. What it
// recovered is on disk once settle returned; nobody may see the log before.
func open(e *env, src source) (*Log, error) {
	l := &Log{tp: src.tp, env: e, dir: src.dir, folder: segment.NewFolder(src.path), strayOf: none}
	l.cfg.Store(&src.cfg)
	l.topicID.Store(&src.topicID)
	// A killed process may have left the id in the page cache only. The first sync
	// of the log saw to it: what is durable above the log start came with one.
	l.newID = !src.clean && !src.topicID.IsZero() && src.recoveryPoint <= src.logStart
	l.unstable.Store(none)
	files, err := l.tidy()
	if err != nil {
		return nil, err
	}
	if err := l.loadEpochs(); err != nil {
		return nil, err
	}
	if err := l.loadSegments(files, &src); err != nil {
		return nil, err
	}
	if err := l.settleStart(src.logStart); err != nil {
		return nil, err
	}
	if err := l.settleEpochs(); err != nil {
		return nil, err
	}
	if err := l.loadProducers(); err != nil {
		return nil, err
	}
	l.hw.Store(l.start.Load())
	l.updateUnstable()
	return l, nil
}

// found is a .log file in the folder.
type logFile struct {
	base, size int64
}

// tidy removes what a crash left, and lists the .log files by base offset.
func (l *Log) tidy() ([]logFile, error) {
	names, err := l.env.fs.List(l.folder.Path())
	if err != nil {
		return nil, err
	}
	if names, err = l.sweep(names); err != nil {
		return nil, err
	}
	var out []logFile
	logs := map[int64]bool{}
	for _, name := range names {
		base, suffix, ok := segment.ParseName(name)
		if !ok || suffix != segment.LogSuffix {
			continue
		}
		info, err := l.env.fs.Stat(l.path(name))
		if err != nil {
			return nil, err
		}
		logs[base] = true
		out = append(out, logFile{base, info.Size()})
	}
	for _, name := range names {
		base, suffix, ok := segment.ParseName(name)
		isIndex := suffix == segment.IndexSuffix || suffix == segment.TimeIndexSuffix || suffix == segment.TxnIndexSuffix
		if ok && isIndex && !logs[base] {
			l.env.logger.Warn("removing an index without a log file", "file", l.path(name))
			if err := l.env.fs.Remove(l.path(name)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// sweep removes .deleted and .cleaned files, finishes interrupted swaps, and
// returns the names that are left.
func (l *Log) sweep(names []string) ([]string, error) {
	var keep []string
	for _, name := range names {
		_, suffix, ok := segment.ParseName(name)
		switch {
		case !ok:
			keep = append(keep, name)
		case strings.HasSuffix(suffix, segment.DeletedSuffix), strings.HasSuffix(suffix, segment.CleanedSuffix):
			if err := l.env.fs.Remove(l.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		case strings.HasSuffix(suffix, segment.SwapSuffix):
			to := strings.TrimSuffix(name, segment.SwapSuffix)
			if err := l.env.fs.Rename(l.path(name), l.path(to)); err != nil {
				return nil, err
			}
			keep = append(keep, to)
		default:
			keep = append(keep, name)
		}
	}
	slices.Sort(keep)
	return slices.Compact(keep), nil
}

func (l *Log) loadEpochs() error {
	cache, err := epochcache.New(l.env.fs, l.path(checkpoint.LeaderEpochFile))
	if errors.Is(err, checkpoint.ErrCorrupt) {
		l.env.logger.Warn("rebuilding the leader epochs from the log", "partition", l.tp.String(), "reason", err)
		err = nil
	}
	l.epochs = cache
	return err
}

// loadSegments opens the segments, recovers what may not be whole, and sets
// the log end and the durable end.
func (l *Log) loadSegments(files []logFile, src *source) error {
	var segs []*segment.Segment
	for i, f := range files {
		segs = append(segs, segment.Open(f.base, f.size, i < len(files)-1, l.segmentOptions()))
	}
	if len(segs) == 0 {
		o := l.segmentOptions()
		o.NoFiles = true // tidy removed indexes without a log
		seg, err := segment.Create(src.logStart, o)
		if err != nil {
			return err
		}
		l.newNames = true
		l.setSegments([]*segment.Segment{seg})
		l.end.Store(src.logStart)
		l.durable.Store(src.logStart)
		return nil
	}
	l.setSegments(segs)
	if src.clean {
		end, err := segs[len(segs)-1].NextOffset()
		if err == nil {
			l.end.Store(end)
			l.durable.Store(end)
			return nil
		}
		if !errors.Is(err, segment.ErrCorrupt) {
			return err
		}
		l.env.logger.Error("the newest segment of a cleanly closed log is corrupt; recovering it", "partition", l.tp.String(), "error", err)
		src.recoveryPoint = segs[len(segs)-1].BaseOffset()
	}
	return l.recover(segs, src.recoveryPoint)
}

// recover scans from the recovery point and cuts at the first bad batch. settle
// makes the result durable before anything is served (KAFKA-10101).
func (l *Log) recover(segs []*segment.Segment, point int64) error {
	first := max(0, floor(segs, point))
	end := point
	for i := first; i < len(segs); i++ {
		seg := segs[i]
		if i > first && seg.BaseOffset() != end && l.env.configsKnown && !l.cfg.Load().CleanupCompact {
			l.env.logger.Warn("a hole in the unflushed part of the log; deleting what is behind it",
				"partition", l.tp.String(), "endOffset", end, "nextSegment", seg.BaseOffset())
			return l.cutSegments(segs, i, end)
		}
		r, err := seg.Recover(point, l.visitEpoch)
		if err != nil {
			return fmt.Errorf("recover segment %d of %s: %w", seg.BaseOffset(), l.tp, err)
		}
		end = r.NextOffset
		l.env.scannedBytes.Add(r.ScannedBytes)
		if r.TruncatedBytes > 0 {
			l.env.logger.Warn("cut the log behind its last whole batch", "partition", l.tp.String(), "segment", seg.BaseOffset(),
				"endOffset", end, "recoveryPoint", point, "cutBytes", r.TruncatedBytes, "reason", r.Reason)
			l.unsettled = append(l.unsettled, seg)
			return l.cutSegments(segs, i+1, end)
		}
		if i+1 < len(segs) {
			if err := seg.Seal(); err != nil {
				return err
			}
		}
		if end > point || i+1 < len(segs) {
			l.unsettled = append(l.unsettled, seg)
		}
	}
	if end < point {
		l.env.logger.Error("the log ends before its recovery point: data that was on disk is gone",
			"partition", l.tp.String(), "endOffset", end, "recoveryPoint", point)
	}
	if end == point {
		l.active().Unseal()
		l.end.Store(end)
		l.durable.Store(end)
		l.newNames = true // the next sync sees to the names
		return nil
	}
	l.finishRecovery(end)
	return nil
}

func (l *Log) visitEpoch(b record.Batch) {
	if e := b.PartitionLeaderEpoch(); e > l.epochs.LatestEpoch() {
		l.epochs.AssignNoFlush(e, b.BaseOffset())
	}
}

// cutSegments removes the segments from index i on; the log ends at end.
func (l *Log) cutSegments(segs []*segment.Segment, i int, end int64) error {
	for _, s := range segs[i:] {
		if err := s.MarkDeleted(); err != nil {
			return err
		}
		if err := s.Remove(); err != nil {
			return err
		}
	}
	l.setSegments(segs[:i:i])
	l.finishRecovery(end)
	return nil
}

func (l *Log) finishRecovery(end int64) {
	l.active().Unseal()
	l.end.Store(end)
	l.durable.Store(end)
	l.unsettledNames = true
}

// settle makes durable what open recovered. Names too: a segment whose file
// survived by luck must not vanish later.
func (l *Log) settle() error {
	if l.newID && len(l.unsettled) > 0 {
		if err := logdir.SyncPartitionMetadata(l.env.fs, l.folder.Path()); err != nil {
			return err
		}
		l.newID = false
	}
	for _, s := range l.unsettled {
		if err := s.SyncAll(); err != nil {
			return err
		}
	}
	l.unsettled = nil
	if !l.unsettledNames {
		return nil
	}
	l.unsettledNames = false
	return l.env.fs.SyncDir(l.folder.Path())
}

// settleStart sets the log start from its checkpoint and the first segment. A
// start behind the end means that segments were lost: nothing is left to serve.
func (l *Log) settleStart(logStart int64) error {
	segs := *l.segs.Load()
	l.start.Store(max(logStart, segs[0].BaseOffset()))
	if l.end.Load() >= l.start.Load() {
		return nil
	}
	l.env.logger.Warn("the log ends before its start offset; deleting its segments",
		"partition", l.tp.String(), "endOffset", l.end.Load(), "logStartOffset", logStart)
	l.unsettled = nil
	for _, s := range segs {
		if err := errors.Join(s.MarkDeleted(), s.Remove()); err != nil {
			return err
		}
	}
	fresh, err := segment.Create(logStart, l.segmentOptions())
	if err != nil {
		return err
	}
	l.newNames = true
	l.setSegments([]*segment.Segment{fresh})
	l.end.Store(logStart)
	l.durable.Store(logStart)
	l.epochs.Clear()
	return nil
}

// settleEpochs fits the epochs to the log, and reads them from the batches when
// the file is gone although the log has some.
func (l *Log) settleEpochs() error {
	if err := l.truncateEpochs(l.end.Load()); err != nil && !vfs.IsNoSpace(err) {
		return err
	}
	l.epochs.TruncateFromStart(l.start.Load())
	if l.epochs.LatestEpoch() < 0 && l.end.Load() > l.start.Load() {
		rebuilt := false
		err := l.walk(l.start.Load(), func(b record.Batch, _ *segment.Segment) error {
			before := l.epochs.LatestEpoch()
			l.visitEpoch(b)
			rebuilt = rebuilt || l.epochs.LatestEpoch() != before
			return nil
		})
		if err != nil {
			return err
		}
		if rebuilt {
			l.env.logger.Warn("leader epochs were missing; taken from the log", "partition", l.tp.String())
			if err := l.flushEpochs(); err != nil {
				return err
			}
		}
	}
	l.epoch = l.epochs.LatestEpoch()
	return nil
}

// flushEpochs lets a start on a full disk go on: the file is only behind.
func (l *Log) flushEpochs() error {
	err := l.epochs.Flush()
	if vfs.IsNoSpace(err) {
		l.epochUnsafe = true
		return nil
	}
	return err
}

// walk yields the batches from offset from on, with the segment each is in. It
// is for what is derived from the log: a segment that is damaged in its durable
// part is left where the damage begins, with an error in the log, because
// refusing the whole partition would help nobody.
func (l *Log) walk(from int64, fn func(record.Batch, *segment.Segment) error) error {
	segs := *l.segs.Load()
	for _, s := range segs[max(0, floor(segs, from)):] {
		err := s.Walk(max(from, s.BaseOffset()), func(b record.Batch, _ int64) (bool, error) { return true, fn(b, s) })
		if errors.Is(err, segment.ErrCorrupt) {
			l.env.logger.Error("damaged data in the durable part of the log", "partition", l.tp.String(), "segment", s.BaseOffset(), "error", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loadProducers reads the newest snapshot and replays what is behind it.
func (l *Log) loadProducers() error {
	p, err := producerstate.Open(producerstate.Options{
		FS: l.env.fs, Dir: l.folder.Path(), ExpirationMs: l.env.producerExpirationMs.Load(),
		OnCorrupt: func(path string, reason error) {
			l.env.logger.Warn("a producer snapshot does not verify; its producers are read from the log", "file", filepath.Base(path),
				"partition", l.tp.String(), "reason", reason)
		},
	})
	if err != nil {
		return err
	}
	l.producers = p
	segs := *l.segs.Load()
	bases := make([]int64, len(segs))
	for i, s := range segs {
		bases[i] = s.BaseOffset()
	}
	if err := p.RemoveStraySnapshots(bases); err != nil {
		return err
	}
	if newest, ok := p.LatestSnapshot(); ok && newest > bases[len(bases)-1] {
		l.strayOf = newest
	}
	return l.replayProducers()
}

// replayProducers makes the producers those of [start, end).
func (l *Log) replayProducers() error {
	end := l.end.Load()
	if err := l.producers.TruncateAndReload(l.start.Load(), end, l.env.now()); err != nil {
		return err
	}
	from := l.producers.EndOffset()
	l.sinceSnap = 0
	if from < end {
		err := l.walk(from, func(b record.Batch, seg *segment.Segment) error {
			l.sinceSnap += int64(b.LengthBytes())
			return l.replay(l.producers.State, b, seg, from)
		})
		if err != nil {
			return err
		}
	}
	l.producers.SetEndOffset(end)
	return nil
}

// replay applies one batch of the log to a producer state; transactions that it
// aborts get their index entry if they lack it.
func (l *Log) replay(st *producerstate.State, b record.Batch, seg *segment.Segment, from int64) error {
	if !b.HasProducerID() || b.LastOffset() < from {
		return nil
	}
	view, err := producerstate.BatchOf(b)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", segment.ErrCorrupt, l.tp, err)
	}
	_, done, err := st.Apply(view, record.OriginReplication)
	if err != nil {
		return fmt.Errorf("replay producers of %s at offset %d: %w", l.tp, b.BaseOffset(), err)
	}
	for _, c := range done {
		if t, ok := st.Aborted(c); ok {
			if err := l.restoreAborted(seg, t); err != nil {
				return err
			}
		}
		if err := st.CompleteTxn(c); err != nil {
			return err
		}
	}
	return nil
}
