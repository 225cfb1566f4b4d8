package loader

import (
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/quorum"
)

// Defaults of MetadataLogConfig in Apache Kafka 4.3.
const (
	DefaultSnapshotBytes      = 20 << 20
	DefaultSnapshotIntervalMs = 3600 * 1000
)

// Snapshotter is a quorum.Node.
type Snapshotter interface {
	TakeSnapshot(im *image.Image) (quorum.SnapshotID, error)
}

// GeneratorOptions of NewSnapshotGenerator.
type GeneratorOptions struct {
	Log Snapshotter
	// MaxBytes is metadata.log.max.record.bytes.between.snapshots (20 MiB).
	MaxBytes int64
	// MaxIntervalMs is metadata.log.max.snapshot.interval.ms (1 hour); -1 switches it off.
	MaxIntervalMs int64
	// NowMs is a monotonic clock.
	NowMs  func() int64
	Logger *slog.Logger
}

// SnapshotGenerator is a publisher that has the quorum take a snapshot after
// so many bytes or so much time (SnapshotGenerator in Apache Kafka 4.3). The
// work is done in a goroutine of its own, one at a time.
type SnapshotGenerator struct {
	opts GeneratorOptions

	// Of the loader's goroutine.
	bytes  int64
	lastMs int64

	mu      sync.Mutex
	running bool
	wg      sync.WaitGroup
}

// NewSnapshotGenerator returns a generator; give it to the loader.
func NewSnapshotGenerator(o GeneratorOptions) *SnapshotGenerator {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultSnapshotBytes
	}
	if o.MaxIntervalMs == 0 {
		o.MaxIntervalMs = DefaultSnapshotIntervalMs
	}
	if o.NowMs == nil {
		start := time.Now()
		o.NowMs = func() int64 { return time.Since(start).Milliseconds() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &SnapshotGenerator{opts: o, lastMs: o.NowMs()}
}

// Name implements Publisher.
func (g *SnapshotGenerator) Name() string { return "SnapshotGenerator" }

// OnMetadata implements Publisher.
func (g *SnapshotGenerator) OnMetadata(_ *image.Delta, im *image.Image, m Manifest) {
	g.consider(im, m)
}

// OnQuiet implements QuietPublisher.
func (g *SnapshotGenerator) OnQuiet(im *image.Image, m Manifest) { g.consider(im, m) }

func (g *SnapshotGenerator) consider(im *image.Image, m Manifest) {
	if m.Kind == Snapshot {
		g.bytes = 0
	}
	g.bytes += m.Bytes
	now := g.opts.NowMs()
	due := g.bytes >= g.opts.MaxBytes || g.opts.MaxIntervalMs > 0 && g.bytes > 0 && now-g.lastMs >= g.opts.MaxIntervalMs
	if !due || !m.Aligned || !im.Features.Has(image.FeatureMetadataVersion) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running {
		return
	}
	g.running = true
	g.bytes, g.lastMs = 0, now
	g.wg.Add(1)
	go g.take(im)
}

func (g *SnapshotGenerator) take(im *image.Image) {
	defer g.wg.Done()
	id, err := g.opts.Log.TakeSnapshot(im)
	if err != nil {
		g.opts.Logger.Error("metadata snapshot failed, the next one is tried as usual", "offset", im.Offset+1, "err", err)
	} else {
		g.opts.Logger.Info("took a metadata snapshot", "offset", id.Offset, "epoch", id.Epoch)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
}

// Wait returns when no snapshot is being taken. Close the loader first.
func (g *SnapshotGenerator) Wait() { g.wg.Wait() }

var _ QuietPublisher = (*SnapshotGenerator)(nil)
