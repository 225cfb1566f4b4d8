package drill

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// source writes one record to every partition at each tick.
type source struct {
	cl       *kgo.Client
	topic    string
	parts    int
	stop     context.CancelFunc
	loop     sync.WaitGroup
	produced atomic.Int64
	failed   atomic.Int64
}

func newSource(o Options, topic string) (*source, error) {
	cl, err := kgo.NewClient(o.secure(
		kgo.SeedBrokers(o.Bootstrap...), kgo.ClientID("drill-producer"), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100_000),
		kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil)),
	)...)
	if err != nil {
		return nil, err
	}
	s := &source{cl: cl, topic: topic, parts: o.Partitions}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.loop.Go(func() { s.run(ctx, o.interval()) })
	return s, nil
}

func (s *source) run(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		for p := range s.parts {
			s.cl.TryProduce(context.Background(), &kgo.Record{Partition: int32(p), Value: []byte("drill")}, s.done)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (s *source) done(_ *kgo.Record, err error) {
	if err != nil {
		s.failed.Add(1)
		return
	}
	s.produced.Add(1)
}

// finish stops producing and waits for what is on its way.
func (s *source) finish(ctx context.Context) error {
	s.stop()
	s.loop.Wait()
	return s.cl.Flush(ctx)
}

func (s *source) close() {
	s.stop()
	s.loop.Wait()
	s.cl.Close()
}
