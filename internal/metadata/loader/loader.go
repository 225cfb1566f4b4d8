package loader

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/quorum"
)

// maxQueuedBytes bounds what waits to be applied; the quorum waits beyond it.
const maxQueuedBytes = 64 << 20

// ErrClosed ends waits when the loader was closed.
var ErrClosed = errors.New("metadata loader: closed")

// Kind says where an image came from.
type Kind int8

// Kinds of manifests (LoaderManifestType).
const (
	LogDelta Kind = iota // committed batches
	Snapshot             // a snapshot, perhaps with batches after it
)

// Manifest describes one publication.
type Manifest struct {
	Kind   Kind
	Offset int64 // last offset in the image
	Epoch  int32
	// Aligned: Offset ends a batch, so a snapshot may be taken there.
	Aligned bool
	// Batches and Bytes count what came since the last publication.
	Batches int
	Bytes   int64
	// Leadership is the latest one known when the image was made.
	Leadership quorum.Leadership
}

// Publisher is told of every new image. OnMetadata must not keep delta and
// should not take long: the next image waits.
type Publisher interface {
	Name() string
	OnMetadata(delta *image.Delta, im *image.Image, m Manifest)
}

// QuietPublisher is a Publisher that also wants to hear of images that differ
// in nothing but their offset (NoOp and control records).
type QuietPublisher interface {
	Publisher
	OnQuiet(im *image.Image, m Manifest)
}

// LeaderPublisher is a Publisher that also wants to hear of leader changes, in
// order with the images.
type LeaderPublisher interface {
	Publisher
	OnLeadership(l quorum.Leadership)
}

// Options of New.
type Options struct {
	Logger *slog.Logger
	// OnError is told once of records that cannot be applied. They mean a bug
	// or a newer format: the loader stops there and keeps its last image.
	OnError func(error)
}

// event is one queued call of the quorum: exactly one field is set.
type event struct {
	committed *quorum.Committed
	leader    *quorum.Leadership
	add       *addition
}

// addition is a publisher on its way in.
type addition struct {
	p    Publisher
	done chan struct{}
}

// Loader implements quorum.Listener.
type Loader struct {
	opts Options
	log  *slog.Logger

	mu          sync.Mutex
	queue       []event
	queuedBytes int64
	busy        bool // the worker is applying or publishing
	closed      bool
	failed      error
	applied     *image.Image  // newest image made
	settled     int64         // last offset seen by then, open transactions included
	published   *image.Image  // newest image that all publishers were told of
	changed     chan struct{} // closed and replaced on every change of the above

	work worker
	done chan struct{}
}

// New returns a loader with an empty image; call Start.
func New(o Options) *Loader {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	empty := image.Empty()
	return &Loader{
		opts: o, log: o.Logger, applied: empty, published: empty, settled: -1,
		changed: make(chan struct{}), done: make(chan struct{}), work: newWorker(empty),
	}
}

// Start begins to publish to the publishers, in this order. What the quorum
// delivered before is kept. Call it once.
func (l *Loader) Start(publishers ...Publisher) {
	l.work.publishers = append(l.work.publishers, publishers...)
	go l.run()
}

// AddPublisher adds one while running and returns after its first call, which
// brings it the whole image (no call when nothing was published yet).
func (l *Loader) AddPublisher(ctx context.Context, p Publisher) error {
	a := &addition{p, make(chan struct{})}
	l.push(event{add: a}, 0)
	select {
	case <-a.done:
		return nil
	case <-l.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close stops publishing; what is queued is dropped. It returns when the
// publisher that is running has returned. Only after Start.
func (l *Loader) Close() {
	l.mu.Lock()
	l.closed = true
	l.wakeLocked()
	l.mu.Unlock()
	<-l.done
}

// Image is the newest published image: every publisher has been told of it.
func (l *Loader) Image() *image.Image {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.published
}

// AwaitOffset waits until an image that contains offset has been published.
func (l *Loader) AwaitOffset(ctx context.Context, offset int64) error {
	return l.wait(ctx, func() bool { return l.published.Offset >= offset })
}

// AwaitApplied waits until everything up to offset was seen and returns the
// image of it, published or not. Records of a transaction that is still open
// at offset are not in the image.
func (l *Loader) AwaitApplied(ctx context.Context, offset int64) (*image.Image, error) {
	var im *image.Image
	err := l.wait(ctx, func() bool { im = l.applied; return l.settled >= offset })
	return im, err
}

// wait returns when cond, called under mu, holds.
func (l *Loader) wait(ctx context.Context, cond func() bool) error {
	for {
		l.mu.Lock()
		ok, closed, failed, changed := cond(), l.closed, l.failed, l.changed
		l.mu.Unlock()
		switch {
		case ok:
			return nil
		case failed != nil:
			return failed
		case closed:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Loader) wakeLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// push queues an event; it waits while too much is queued.
func (l *Loader) push(e event, sizeBytes int64) {
	err := l.wait(context.Background(), func() bool {
		if l.queuedBytes > 0 && l.queuedBytes+sizeBytes > maxQueuedBytes {
			return false
		}
		if !l.closed && l.failed == nil {
			l.queue = append(l.queue, e)
			l.queuedBytes += sizeBytes
			l.wakeLocked()
		}
		return true
	})
	if err != nil {
		l.log.Debug("metadata event dropped", "err", err)
	}
}

// OnCommitted implements quorum.Listener.
func (l *Loader) OnCommitted(c quorum.Committed) {
	var size int64
	for _, b := range c.Batches {
		size += int64(b.SizeBytes)
	}
	l.push(event{committed: &c}, size)
}

// OnLeadership implements quorum.Listener.
func (l *Loader) OnLeadership(q quorum.Leadership) { l.push(event{leader: &q}, 0) }

// OnSnapshot implements quorum.Listener. The file is valid during this call
// only, so it is read here, once the worker has nothing left to do.
func (l *Loader) OnSnapshot(r *quorum.SnapshotReader) {
	if err := l.wait(context.Background(), func() bool { return len(l.queue) == 0 && !l.busy }); err != nil {
		return
	}
	err := l.work.loadSnapshot(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failLocked(err)
	}
}

func (l *Loader) failLocked(err error) {
	l.failed = err
	l.queue, l.queuedBytes = nil, 0
	l.wakeLocked()
	l.log.Error("metadata cannot be applied, it stays at the last image", "offset", l.published.Offset, "err", err)
	go l.opts.OnError(err)
}

// run is the worker's goroutine.
func (l *Loader) run() {
	defer close(l.done)
	for {
		events, ok := l.take()
		if !ok {
			return
		}
		out, err := l.work.apply(events)
		l.mu.Lock()
		if err != nil {
			l.failLocked(err)
		}
		l.applied, l.settled = l.work.base, l.work.settled
		l.wakeLocked()
		l.mu.Unlock()
		l.work.publish(out)
		l.mu.Lock()
		l.busy = false
		if out.im != nil {
			l.published = out.im
		}
		l.wakeLocked()
		l.mu.Unlock()
	}
}

// take waits for events and takes all of them.
func (l *Loader) take() ([]event, bool) {
	for {
		l.mu.Lock()
		events, closed, changed := l.queue, l.closed, l.changed
		if !closed && len(events) > 0 {
			l.queue, l.queuedBytes, l.busy = nil, 0, true
			l.wakeLocked()
			l.mu.Unlock()
			return events, true
		}
		l.mu.Unlock()
		if closed {
			return nil, false
		}
		<-changed
	}
}
