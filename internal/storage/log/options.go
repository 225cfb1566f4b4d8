package log

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/storage/commit"
	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// ManagerOptions set up a Manager. Zero values mean the defaults named.
type ManagerOptions struct {
	FS   vfs.FS
	Dirs []*logdir.Dir // open; the caller closes them after Manager.Close

	// TopicConfig says what a topic's logs run with when they are loaded; nil
	// means the defaults. Reconfigure changes it later.
	TopicConfig func(topic string) config.TopicConfig
	// ConfigsKnown says that TopicConfig speaks for the topic it is asked about,
	// not in general. Recovery then treats a gap between unflushed segments of a
	// topic that is not compacted as the loss it is, and cuts the log there;
	// otherwise, as Apache Kafka does, it keeps what is behind the gap.
	ConfigsKnown bool

	// RecoveryThreadsPerDir is num.recovery.threads.per.data.dir; default 2.
	RecoveryThreadsPerDir int
	// MaxOpenFiles bounds the files of idle segments that stay open; default 1024.
	MaxOpenFiles int
	// RetentionCheckMs is log.retention.check.interval.ms; default 300000.
	RetentionCheckMs int64
	// ProducerExpirationMs is producer.id.expiration.ms; default one day. It is
	// looked at every ProducerExpirationCheckMs; default 600000.
	ProducerExpirationMs, ProducerExpirationCheckMs int64
	// FileDeleteDelayMs is log.segment.delete.delay.ms, for whole partitions;
	// default 60000, and -1 is none.
	FileDeleteDelayMs int64
	// Recovery points are written when CheckpointBytes (default 64 MiB) were
	// appended to a folder or CheckpointMs (default 5000) passed since the first
	// append after the last time, so that a start after a crash scans little.
	CheckpointBytes, CheckpointMs int64

	// Commit sets up the commit loop of each folder; OnOffline is ours.
	Commit commit.Options

	// OnDurable hears that an fsync covered everything below durableEnd. It runs
	// on the commit loop's goroutine without locks.
	OnDurable func(l *Log, durableEnd int64)
	// OnDirOffline hears once that a folder failed, after its logs were closed.
	OnDirOffline func(d *logdir.Dir, reason error)

	// Now is the wall clock in ms; Jitter draws from [0, maxMs).
	Now    func() int64
	Jitter func(maxMs int64) int64
	Logger *slog.Logger
}

func (o ManagerOptions) withDefaults() ManagerOptions {
	def := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.RetentionCheckMs, 300_000)
	def(&o.ProducerExpirationMs, producerstate.DefaultExpirationMs)
	def(&o.ProducerExpirationCheckMs, 600_000)
	def(&o.CheckpointBytes, 64<<20)
	def(&o.CheckpointMs, 5000)
	if o.FileDeleteDelayMs == 0 {
		o.FileDeleteDelayMs = 60_000
	}
	o.FileDeleteDelayMs = max(o.FileDeleteDelayMs, 0)
	if o.RecoveryThreadsPerDir <= 0 {
		o.RecoveryThreadsPerDir = 2
	}
	if o.MaxOpenFiles <= 0 {
		o.MaxOpenFiles = filecache.DefaultMaxOpen
	}
	if o.TopicConfig == nil {
		o.TopicConfig = func(string) config.TopicConfig { return config.DefaultTopicConfig() }
	}
	if o.OnDurable == nil {
		o.OnDurable = func(*Log, int64) {}
	}
	if o.OnDirOffline == nil {
		o.OnDirOffline = func(*logdir.Dir, error) {}
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Jitter == nil {
		o.Jitter = rand.Int64N
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
