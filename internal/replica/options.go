package replica

import (
	"log/slog"
	"runtime"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
)

// AlterPartitionSender carries ISR proposals to the active controller. done is
// called once, from any goroutine, and never before AlterPartition returns
// while the caller's locks are held.
type AlterPartitionSender interface {
	AlterPartition(tp types.TopicIDPartition, a partition.AlterPartition, done func(partition.AlterResult))
}

// LeadershipListener hears which partitions of internal topics this broker
// leads. Calls come in order, from the goroutine that applies metadata.
type LeadershipListener interface {
	// OnElected says that this broker leads tp in leaderEpoch; it may come again
	// with a higher epoch.
	OnElected(tp types.TopicPartition, leaderEpoch int32)
	// OnResigned says that this broker no longer leads tp, or its folder failed.
	OnResigned(tp types.TopicPartition)
}

// Options of New.
type Options struct {
	NodeID int32
	// Dirs are the data folders, those that fail later included; FailedDirs the
	// paths that could not be opened at all. For checkpoints and DescribeLogDirs.
	Dirs       []*logdir.Dir
	FailedDirs []string
	// NowMs is the wall clock. Default: the system's.
	NowMs func() int64
	// TopicConfig resolves the configuration of a topic. Required.
	TopicConfig func(im *image.Image, topic string) config.TopicConfig
	// LagTimeMaxMs is replica.lag.time.max.ms. Default 30000.
	LagTimeMaxMs int64
	// CheckpointMs is replica.high.watermark.checkpoint.interval.ms. Default 5000.
	CheckpointMs int64
	// Controller gets ISR proposals; nil where there is nobody to replicate with.
	Controller AlterPartitionSender
	// Leadership hears about internal topics; may be nil.
	Leadership LeadershipListener
	// OnDirFailed reports a failed data folder (for the broker heartbeat); may be nil.
	OnDirFailed func(dir types.UUID, err error)
	// MaxParked bounds the operations that wait at once, per kind. Default 200000.
	MaxParked int
	// Wakers is how many goroutines complete operations after a high watermark
	// moved. Default: half the processors, at least two, so that one which looks
	// up sizes on a slow disk does not hold up acknowledgements.
	Wakers int
	// OnPanic is told of a panic in a parked operation, which then counts as
	// answered; nil lets it end the process.
	OnPanic func(recovered any)
	Logger  *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.NowMs == nil {
		o.NowMs = func() int64 { return time.Now().UnixMilli() }
	}
	if o.LagTimeMaxMs == 0 {
		o.LagTimeMaxMs = 30_000
	}
	if o.CheckpointMs == 0 {
		o.CheckpointMs = 5_000
	}
	if o.MaxParked == 0 {
		o.MaxParked = 200_000
	}
	if o.Wakers == 0 {
		o.Wakers = max(2, runtime.GOMAXPROCS(0)/2)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
