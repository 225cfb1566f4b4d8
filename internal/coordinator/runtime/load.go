package runtime

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// inflateLimit bounds what one compressed batch of an internal topic may
// inflate to; coordinators write uncompressed batches of max.message.bytes.
const inflateLimit = 64 << 20

// errUnloaded ends a load whose shard was closed meanwhile.
var errUnloaded = errors.New("the shard was closed")

// loadLevel is how loud a failed load is: a partition that is not led any more
// when its shard loads (a restart fences the broker for a moment) is loaded again
// by its next election, and is no error.
func loadLevel(err error) slog.Level {
	if kerrors.CodeOf(err) == kerrors.NotLeaderOrFollower {
		return slog.LevelInfo
	}
	return slog.LevelError
}

// load builds the shard's state from its log, then serves. It owns the shard
// while it runs and becomes its first runner.
func (s *shard[S]) load() {
	s.r.loading <- struct{}{}
	start := time.Now()
	records, out, err := s.loadRecovering()
	<-s.r.loading
	s.mu.Lock()
	if s.state == closed {
		s.mu.Unlock()
		s.drop(nil, kerrors.NotCoordinator)
		return
	}
	if err != nil {
		s.state = failed
		s.mu.Unlock()
		s.r.opts.Logger.Log(context.Background(), loadLevel(err), "coordinator shard cannot load", "partition", s.tp.String(), "err", err)
		s.drop(nil, kerrors.NotCoordinator)
		return
	}
	s.state = active
	s.queue = append(s.queue, event[S]{do: func(s *shard[S]) { s.output(out) }})
	s.mu.Unlock()
	if records > 0 {
		s.r.opts.Logger.Info("coordinator shard loaded", "partition", s.tp.String(), "records", records, "took", time.Since(start))
	}
	s.run()
}

// loadRecovering keeps a core that panics on its log from taking others along.
func (s *shard[S]) loadRecovering() (records int, out coordinator.Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while loading: %v", p)
		}
	}()
	if records, err = s.loadLog(); err == nil && s.timed != nil {
		out = s.timed.Loaded(s.now())
	}
	return records, out, err
}

func (s *shard[S]) loadLog() (records int, err error) {
	s.core = s.r.opts.NewShard(s.tp)
	s.timed, _ = any(s.core).(Timed)
	s.dead = false
	hw, err := s.listen()
	if err != nil {
		return 0, err
	}
	s.highWatermark.Store(max(hw, s.highWatermark.Load()))
	tail, err := s.r.opts.Log.Tail(s.tp)
	if err != nil {
		return 0, err
	}
	if tail.LeaderEpoch != s.epoch {
		return 0, kerrors.New(kerrors.NotLeaderOrFollower, "elected in leader epoch %d, which is now %d", s.epoch, tail.LeaderEpoch)
	}
	s.maxBatch = tail.MaxBatchBytes
	s.next, s.committed = tail.LogStart, tail.LogStart
	for s.next < tail.LogEnd {
		n, err := s.loadChunk(tail.LogEnd)
		if err != nil {
			return records, err
		}
		records += n
		if tail, err = s.r.opts.Log.Tail(s.tp); err != nil {
			return records, err
		}
	}
	s.commitLoaded()
	return records, nil
}

// listen asks for the high watermarks, unless the shard is closed: its successor
// may have asked for them already.
func (s *shard[S]) listen() (highWatermark int64, err error) {
	s.r.listening.Lock()
	defer s.r.listening.Unlock()
	s.mu.Lock()
	gone := s.state == closed
	s.mu.Unlock()
	if gone {
		return 0, errUnloaded
	}
	highWatermark, ok := s.r.opts.Log.Listen(s.tp, s)
	if !ok {
		return 0, kerrors.NotLeaderOrFollower
	}
	return highWatermark, nil
}

// unlisten gives the high watermarks up; the shard is closed.
func (s *shard[S]) unlisten() {
	s.r.listening.Lock()
	defer s.r.listening.Unlock()
	s.r.opts.Log.Listen(s.tp, nil)
}

func (s *shard[S]) commitLoaded() {
	if hw := min(s.highWatermark.Load(), s.next); hw > s.committed {
		s.committed = hw
		s.core.Commit(hw)
	}
}

// loadChunk applies one read of the log.
func (s *shard[S]) loadChunk(upper int64) (records int, err error) {
	s.mu.Lock()
	gone := s.state == closed
	s.mu.Unlock()
	if gone {
		return 0, errUnloaded
	}
	payload, err := s.r.opts.Log.ReadTail(s.tp, s.next, upper, s.r.opts.LoadBufferBytes)
	if err != nil {
		return 0, err
	}
	defer payload.Release()
	data, err := bytesOf(&payload)
	if err != nil {
		return 0, err
	}
	before := s.next
	for b, err := range record.Batches(data) {
		if errors.Is(err, record.ErrShort) {
			break // cut by the read's size
		}
		if err != nil {
			return records, err
		}
		n, err := s.loadBatch(b)
		if err != nil {
			return records, err
		}
		records += n
		s.next = b.NextOffset()
		s.commitLoaded()
	}
	if s.next == before {
		return records, fmt.Errorf("no whole batch at offset %d below %d", before, upper)
	}
	return records, nil
}

func bytesOf(p *wire.Payload) ([]byte, error) {
	data := make([]byte, 0, p.SizeBytes())
	for c := range p.Chunks() {
		if c.Range.File == nil {
			data = append(data, c.Bytes...)
			continue
		}
		at := len(data)
		data = data[:at+c.Range.Len]
		if n, err := c.Range.File.ReadAt(data[at:], c.Range.Pos); n < c.Range.Len {
			return nil, fmt.Errorf("read %d of %d bytes: %w", n, c.Range.Len, err)
		}
	}
	return data, nil
}

func (s *shard[S]) loadBatch(b record.Batch) (records int, err error) {
	if err := b.Verify(); err != nil {
		return 0, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	producerID := int64(-1)
	if b.IsTransactional() {
		producerID = b.ProducerID()
	}
	for r, err := range b.Records(inflateLimit) {
		if err != nil {
			return records, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		if r.Offset < s.next { // the batch began below the log start
			continue
		}
		if b.IsControl() {
			err = s.loadMarker(r, b.ProducerID())
		} else {
			err = s.core.Replay(r.Offset, producerID, r.Key, r.Value)
		}
		if err != nil {
			return records, err
		}
		records++
	}
	return records, nil
}

// loadMarker applies a control record: i16 version, i16 type (0 abort, 1
// commit); other types are not about transactions.
func (s *shard[S]) loadMarker(r record.Record, producerID int64) error {
	if len(r.Key) < 4 {
		return fmt.Errorf("control record at offset %d has a key of %d bytes", r.Offset, len(r.Key))
	}
	switch binary.BigEndian.Uint16(r.Key[2:]) {
	case 0:
		return s.core.ReplayEndTransaction(r.Offset, producerID, false)
	case 1:
		return s.core.ReplayEndTransaction(r.Offset, producerID, true)
	}
	return nil
}
