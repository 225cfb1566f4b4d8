package log

import (
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/epochcache"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/types"
)

// none marks an offset that is not there.
const none int64 = -1

// Log is the log of one partition. Safe for concurrent use.
type Log struct {
	tp      types.TopicPartition
	topicID atomic.Pointer[types.UUID]
	env     *env
	dir     *logdir.Dir // nil for a single log
	folder  *segment.Folder
	cfg     atomic.Pointer[config.TopicConfig]

	start    atomic.Int64
	end      atomic.Int64
	hw       atomic.Int64
	unstable atomic.Int64 // first unstable offset, none
	durable  atomic.Int64
	// Bytes appended since the log was opened, and how many of them are durable.
	appendedBytes, durableBytes atomic.Int64
	segs                        atomic.Pointer[[]*segment.Segment] // by base offset, never empty
	gone                        atomic.Bool                        // closed or deleted
	dirty                       atomic.Bool                        // the manager was told that a checkpoint is due

	mu          sync.Mutex
	epochs      *epochcache.Cache
	producers   *producerstate.Manager
	epoch       int32 // the newest in epochs
	epochUnsafe bool  // the epoch file could not be written
	gen         uint64
	sinceSnap   int64              // bytes appended since the newest producer snapshot
	strayOf     int64              // offset of our mid-segment snapshot, none
	unsynced    []*segment.Segment // sealed, not yet synced
	snapshots   []string           // taken without sync
	newNames    bool               // the folder has names that are not synced
	newID       bool               // the topic id may not be on disk
	made        int64              // when the folder was made (folder.made), 0 before this process
	flushGen    uint64             // what FlushUpTo saw
	flushEnd    int64
	flushBytes  int64

	syncMu sync.Mutex // one Sync, or one truncation, at a time
	// epochFile is held while the epoch file is written without mu; whoever makes
	// the log go waits for it.
	epochFile sync.Mutex

	unsettled      []*segment.Segment // recovered, to be synced by settle
	unsettledNames bool
}

// usable refuses work on a log that is gone or whose folder failed.
func (l *Log) usable() error {
	if l.gone.Load() {
		return kerrors.New(kerrors.KafkaStorageError, "the log of %s is closed", l.tp)
	}
	return l.env.err()
}

// LogStartOffset is the first offset that may be read.
func (l *Log) LogStartOffset() int64 { return l.start.Load() }

// LogEndOffset is the offset that the next record gets.
func (l *Log) LogEndOffset() int64 { return l.end.Load() }

// DurableEndOffset is the offset below which everything was fsynced.
func (l *Log) DurableEndOffset() int64 { return l.durable.Load() }

// AckedNotDurableBytes bounds the bytes that clients were told are stored and
// that a power cut would lose: 0 while the high watermark is durable, as it
// always is in strict durability.
func (l *Log) AckedNotDurableBytes() int64 {
	if l.HighWatermark() <= l.DurableEndOffset() {
		return 0
	}
	return max(0, l.appendedBytes.Load()-l.durableBytes.Load())
}

// HighWatermark is the offset below which everything is committed.
func (l *Log) HighWatermark() int64 { return l.hw.Load() }

// LastStableOffset is the offset below which every transaction is decided: the
// first unstable offset or the high watermark, whichever is lower.
func (l *Log) LastStableOffset() int64 {
	hw := l.hw.Load()
	if u := l.unstable.Load(); u != none && u < hw {
		return u
	}
	return hw
}

// SetHighWatermark moves the high watermark, bounded to [log start, log end],
// and returns what it became. It may go down: that is what a truncation does.
func (l *Log) SetHighWatermark(offset int64) int64 {
	if l.unstable.Load() == none {
		hw := max(min(offset, l.end.Load()), l.start.Load())
		l.hw.Store(hw)
		if l.unstable.Load() == none {
			return hw
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.setHighWatermarkLocked(offset)
}

func (l *Log) setHighWatermarkLocked(offset int64) int64 {
	hw := max(min(offset, l.end.Load()), l.start.Load())
	l.hw.Store(hw)
	l.producers.OnHighWatermark(hw)
	l.updateUnstable()
	return hw
}

// updateUnstable publishes the first unstable offset; l.mu is held.
func (l *Log) updateUnstable() {
	u := none
	if first, ok := l.producers.FirstUnstableOffset(); ok {
		u = max(first, l.start.Load())
	}
	l.unstable.Store(u)
}

// AssignLeaderEpoch records that this replica became leader at epoch: epoch
// begins at the log end, before anything is written (KIP-101). The epoch file
// follows before the recovery point passes that offset: what is above the
// recovery point is read again after a crash, and its batches name their epochs.
func (l *Log) AssignLeaderEpoch(epoch int32) error {
	if err := l.usable(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.assignEpoch(epoch, l.end.Load())
}

// assignEpoch is a comparison in the common case; l.mu is held.
func (l *Log) assignEpoch(epoch int32, offset int64) error {
	if epoch == l.epoch && !l.epochUnsafe || epoch < 0 {
		return nil
	}
	l.epochs.AssignNoFlush(epoch, offset)
	var err error
	if l.epochUnsafe || l.env.eagerEpochs {
		err = l.epochs.Flush()
	}
	l.epochUnsafe = err != nil
	l.epoch = l.epochs.LatestEpoch()
	return l.env.storage(err, "leader epoch of "+l.tp.String())
}

// LatestEpoch is the newest leader epoch in the log, -1 if none.
func (l *Log) LatestEpoch() int32 { return l.epochs.LatestEpoch() }

// EpochEntries returns the leader epochs of the log, oldest first.
func (l *Log) EpochEntries() []epochcache.Entry { return l.epochs.Entries() }

// EpochForOffset returns the leader epoch that wrote offset.
func (l *Log) EpochForOffset(offset int64) (int32, bool) { return l.epochs.EpochForOffset(offset) }

// EndOffsetForEpoch answers OffsetForLeaderEpoch (KIP-279): the largest epoch
// in the log that is not above epoch, and where it ends; (-1, -1) without one.
func (l *Log) EndOffsetForEpoch(epoch int32) (int32, int64) {
	return l.epochs.EndOffsetFor(epoch, l.end.Load())
}

// Producers returns the state of every producer that the log remembers.
func (l *Log) Producers() []producerstate.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Entries()
}

// RemoveExpiredProducers forgets producers that wrote nothing for
// producer.id.expiration.ms.
func (l *Log) RemoveExpiredProducers(nowMs int64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers.SetExpirationMs(l.env.producerExpirationMs.Load())
	return l.producers.RemoveExpired(nowMs)
}

// Reconfigure replaces the topic's configuration. Index sizes and intervals
// apply from the next segment on.
func (l *Log) Reconfigure(cfg config.TopicConfig) { l.cfg.Store(&cfg) }

// Config returns the topic's configuration; it must not be changed.
func (l *Log) Config() *config.TopicConfig { return l.cfg.Load() }

// SizeBytes is the size of all segments' .log files.
func (l *Log) SizeBytes() int64 {
	var n int64
	for _, s := range *l.segs.Load() {
		n += s.Size()
	}
	return n
}

// TopicPartition names the log.
func (l *Log) TopicPartition() types.TopicPartition { return l.tp }

// TopicID is the topic's id; zero when the folder has none.
func (l *Log) TopicID() types.UUID { return *l.topicID.Load() }

// Dir is the data folder that the log lies in; nil for a single log.
func (l *Log) Dir() *logdir.Dir { return l.dir }

// Path is the partition's folder.
func (l *Log) Path() string { return l.folder.Path() }

// Segments describes the segments, oldest first. Segments whose timestamps were
// never needed report -1.
func (l *Log) Segments() []SegmentInfo {
	segs := *l.segs.Load()
	out := make([]SegmentInfo, len(segs))
	for i, s := range segs {
		out[i] = SegmentInfo{BaseOffset: s.BaseOffset(), SizeBytes: s.Size(), MaxTimestampMs: s.KnownMaxTimestamp(), Active: i == len(segs)-1}
	}
	return out
}

// SegmentCount is the number of segments.
func (l *Log) SegmentCount() int { return len(*l.segs.Load()) }

func (l *Log) active() *segment.Segment {
	segs := *l.segs.Load()
	return segs[len(segs)-1]
}

// floor is the index of the last segment whose base is not above offset, -1
// when there is none.
func floor(segs []*segment.Segment, offset int64) int {
	return sort.Search(len(segs), func(i int) bool { return segs[i].BaseOffset() > offset }) - 1
}

// setSegments publishes a new list; l.mu is held.
func (l *Log) setSegments(segs []*segment.Segment) {
	segs = slices.Clip(segs)
	l.segs.Store(&segs)
}

func (l *Log) segmentOptions() segment.Options {
	cfg := l.cfg.Load()
	o := segment.Options{
		Cache: l.env.cache, Folder: l.folder, Logger: l.env.logger, NowMs: l.env.now(),
		IndexIntervalBytes: cfg.IndexIntervalBytes, IndexBytes: cfg.SegmentIndexBytes,
	}
	if j := min(cfg.SegmentJitterMs, cfg.SegmentMs); j > 0 {
		o.JitterMs = l.env.jitter(j)
	}
	return o
}

func (l *Log) path(name string) string { return filepath.Join(l.folder.Path(), name) }

// checkOptions are the leader's rules of the topic.
func (l *Log) checkOptions(in *AppendInput) record.ValidateOptions {
	cfg := l.cfg.Load()
	o := record.ValidateOptions{
		Compacted:            cfg.CleanupCompact,
		TimestampBeforeMaxMs: cfg.MessageTimestampBeforeMaxMs,
		TimestampAfterMaxMs:  cfg.MessageTimestampAfterMaxMs,
		TargetCodec:          record.CodecProducer,
		MaxMessageBytes:      cfg.MaxMessageBytes,
		SegmentBytes:         cfg.SegmentBytes,
		NowMs:                in.NowMs,
		Origin:               in.Origin,
		ProduceVersion:       in.ProduceVersion,
		LeaderEpoch:          in.LeaderEpoch,
	}
	if cfg.MessageTimestampLogAppend {
		o.TimestampType = record.LogAppendTime
	}
	if cfg.CompressionType != "" && cfg.CompressionType != "producer" {
		if c, ok := record.ParseCodec(cfg.CompressionType); ok {
			o.TargetCodec = c
			o.Level = levelOf(cfg, c)
		}
	}
	return o
}

func levelOf(cfg *config.TopicConfig, c record.Codec) int {
	switch c {
	case record.Gzip:
		return cfg.CompressionGzipLevel
	case record.LZ4:
		return cfg.CompressionLZ4Level
	case record.Zstd:
		return cfg.CompressionZstdLevel
	}
	return record.LevelDefault
}
