package loader

import (
	"fmt"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/recordschema"
)

// worker turns events into images (MetadataBatchLoader). It belongs to the
// loader's goroutine, and to OnSnapshot while that goroutine is idle.
type worker struct {
	publishers []Publisher
	delta      *image.Delta // what came since the last publication
	base       *image.Image // delta starts here
	offset     int64        // last offset that delta contains
	epoch      int32
	aligned    bool  // offset ends a batch
	loaded     int64 // last offset seen
	settled    int64 // loaded, when base was made
	noisy      bool  // delta has more than NoOps
	kind       Kind
	batches    int
	bytes      int64
	leader     quorum.Leadership
	published  bool // the first publication was made

	inTransaction bool
	held          []heldRecord // records of the open transaction
}

type heldRecord struct {
	rec    recordschema.MetadataRecord
	offset int64
}

func newWorker(empty *image.Image) worker {
	return worker{
		delta: image.NewDelta(empty), base: empty,
		offset: -1, epoch: -1, loaded: -1, settled: -1, aligned: true,
		leader: quorum.Leadership{Epoch: -1, LeaderID: -1},
	}
}

// output is what one round publishes.
type output struct {
	delta    *image.Delta
	im       *image.Image // nil: nothing to publish
	m        Manifest
	noisy    bool
	leaders  []quorum.Leadership
	joined   []*addition
	firstFor *image.Image // what joined publishers start with
}

// apply takes one round of events. On an error the output holds what was good.
func (w *worker) apply(events []event) (output, error) {
	var out output
	var err error
	caughtUp := w.published
	for _, e := range events {
		switch {
		case e.leader != nil:
			w.leader = *e.leader
			out.leaders = append(out.leaders, *e.leader)
		case e.add != nil:
			out.joined = append(out.joined, e.add)
		case e.committed != nil && err == nil:
			err = w.commit(e.committed)
			caughtUp = caughtUp || w.loaded+1 >= e.committed.HighWatermark
		}
	}
	if err == nil && caughtUp {
		if w.offset > w.base.Offset || w.kind == Snapshot {
			w.flush(&out)
		}
		w.settled = w.loaded
	}
	out.firstFor = w.base
	return out, err
}

// flush makes the image, hands the delta over and starts the next one.
func (w *worker) flush(out *output) {
	im := w.delta.Apply(w.offset, w.epoch)
	out.delta, out.im, out.noisy = w.delta, im, w.noisy
	out.m = Manifest{
		Kind: w.kind, Offset: w.offset, Epoch: w.epoch, Aligned: w.aligned,
		Batches: w.batches, Bytes: w.bytes, Leadership: w.leader,
	}
	w.base, w.delta = im, image.NewDelta(im)
	w.noisy, w.kind, w.batches, w.bytes, w.published = false, LogDelta, 0, 0, true
}

func (w *worker) commit(c *quorum.Committed) error {
	for _, b := range c.Batches {
		if b.LastOffset <= w.loaded {
			continue // delivered again
		}
		for i, rec := range b.Records {
			if err := w.replay(rec, b.BaseOffset+int64(i), b.Epoch, i == 0); err != nil {
				return fmt.Errorf("metadata record at offset %d: %w", b.BaseOffset+int64(i), err)
			}
		}
		w.loaded = b.LastOffset
		w.batches++
		w.bytes += int64(b.SizeBytes)
		if !w.inTransaction {
			w.offset, w.epoch, w.aligned = b.LastOffset, b.Epoch, true
		}
	}
	return nil
}

// replay applies one record, or holds it while a transaction is open (KIP-868).
func (w *worker) replay(rec recordschema.MetadataRecord, offset int64, epoch int32, first bool) error {
	switch rec.(type) {
	case *recordschema.BeginTransactionRecord:
		if w.inTransaction {
			return fmt.Errorf("a transaction begins inside another")
		}
		if !first {
			w.offset, w.epoch, w.aligned = offset-1, epoch, false
		}
		w.inTransaction = true
		return nil
	case *recordschema.EndTransactionRecord, *recordschema.AbortTransactionRecord:
		if !w.inTransaction {
			return fmt.Errorf("a transaction ends that did not begin")
		}
		return w.endTransaction(rec)
	}
	if w.inTransaction {
		w.held = append(w.held, heldRecord{rec, offset})
		return nil
	}
	return w.apply1(rec, offset)
}

func (w *worker) endTransaction(rec recordschema.MetadataRecord) error {
	held := w.held
	w.held, w.inTransaction = nil, false
	if _, aborted := rec.(*recordschema.AbortTransactionRecord); aborted {
		return nil
	}
	for _, h := range held {
		if err := w.apply1(h.rec, h.offset); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) apply1(rec recordschema.MetadataRecord, offset int64) error {
	if rec.Key() == recordschema.KeyNoOp {
		return nil
	}
	w.noisy = true
	return w.delta.Replay(rec, offset)
}

// loadSnapshot replaces everything that is not published yet. It is published
// with the next commit, which follows every snapshot.
func (w *worker) loadSnapshot(r *quorum.SnapshotReader) error {
	delta := image.NewSnapshotDelta(w.base)
	for rec, err := range r.Records() {
		if err != nil {
			return fmt.Errorf("metadata snapshot %d-%d: %w", r.ID.Offset, r.ID.Epoch, err)
		}
		if err := delta.Replay(rec, r.ID.Offset-1); err != nil {
			return fmt.Errorf("metadata snapshot %d-%d: %w", r.ID.Offset, r.ID.Epoch, err)
		}
	}
	w.delta, w.kind, w.noisy = delta, Snapshot, true
	w.held, w.inTransaction = nil, false
	w.offset, w.loaded, w.epoch, w.aligned = r.ID.Offset-1, r.ID.Offset-1, r.ID.Epoch, true
	w.batches, w.bytes = 0, 0
	return nil
}

// publish calls the publishers in order.
func (w *worker) publish(out output) {
	for _, lead := range out.leaders {
		for _, p := range w.publishers {
			if lp, ok := p.(LeaderPublisher); ok {
				lp.OnLeadership(lead)
			}
		}
	}
	if out.im != nil {
		for _, p := range w.publishers {
			if out.noisy {
				p.OnMetadata(out.delta, out.im, out.m)
			} else if q, ok := p.(QuietPublisher); ok {
				q.OnQuiet(out.im, out.m)
			}
		}
	}
	for _, a := range out.joined {
		w.join(a, out.firstFor)
	}
}

// join adds a publisher; its first image is a delta from the empty one.
func (w *worker) join(a *addition, im *image.Image) {
	w.publishers = append(w.publishers, a.p)
	if w.published {
		delta := image.NewSnapshotDelta(image.Empty())
		m := Manifest{Kind: Snapshot, Offset: im.Offset, Epoch: im.Epoch, Leadership: w.leader}
		var err error
		image.WriteRecords(im, func(rec recordschema.MetadataRecord) bool {
			err = delta.Replay(rec, im.Offset)
			return err == nil
		})
		if err == nil { // an image always replays; see the image package's tests
			a.p.OnMetadata(delta, delta.Apply(im.Offset, im.Epoch), m)
		}
	}
	if lp, ok := a.p.(LeaderPublisher); ok {
		lp.OnLeadership(w.leader)
	}
	close(a.done)
}
