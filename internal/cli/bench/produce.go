package bench

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

var acksOf = map[string]int16{"all": -1, "leader": 1, "none": 0}

// distinct batches that are sent in turn, so that no cache sees one only.
const distinct = 16

func produce(ctx context.Context, a *app.App, o options) error {
	if _, ok := acksOf[o.acks]; !ok {
		return app.Usage("--acks is %q; it can be all, leader or none", o.acks)
	}
	if _, ok := codecs[o.compression]; !ok && o.compression != "none" {
		return app.Usage("--compression is %q; it can be none, gzip, snappy, lz4 or zstd", o.compression)
	}
	if o.recordBytes < 1 || o.batchBytes < 1 || o.recordBytes > 64<<20 || o.batchBytes > 64<<20 {
		return app.Usage("--record-size and --batch-size must be between 1 and %d", 64<<20)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var batches []batch
	for range distinct {
		b, err := buildBatch(rng, o.recordBytes, o.batchBytes, o.compression)
		if err != nil {
			return err
		}
		batches = append(batches, b)
	}
	parts, clients, err := setUp(ctx, a, o)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	s := &sender{o: o, parts: parts, batches: batches, r: &result{}}
	s.left.Store(o.records)
	var workers []func(context.Context)
	for _, cl := range clients {
		for range o.inflight {
			workers = append(workers, func(ctx context.Context) { s.work(ctx, cl) })
		}
	}
	c := startClock()
	if err := drive(ctx, a, s.r, o, workers); err != nil {
		return err
	}
	return show(a, s.r.report("produced to", o.topic, c))
}

// sender hands out batches and partitions to its workers.
type sender struct {
	o       options
	parts   []target
	batches []batch
	r       *result
	turn    atomic.Int64
	left    atomic.Int64 // records still to send, when there is a limit
}

func (s *sender) work(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		n := s.turn.Add(1)
		b := s.batches[n%distinct]
		if s.o.records > 0 && s.left.Add(-b.records) <= -b.records {
			return
		}
		if _, _, err := s.r.snapshot(); err != nil {
			return
		}
		t := s.parts[n%int64(len(s.parts))]
		start := time.Now()
		if err := s.send(ctx, cl, t, b); err != nil {
			if ctx.Err() == nil {
				s.r.fail(app.Explain(err, "", "write to %s-%d", s.o.topic, t.partition))
			}
			return
		}
		s.r.add(b.records, int64(len(b.wire)), time.Since(start))
	}
}

func (s *sender) send(ctx context.Context, cl *kgo.Client, t target, b batch) error {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acksOf[s.o.acks], 30000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = s.o.topic, t.topicID
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = t.partition, b.wire
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := cl.Broker(int(t.leader)).Request(ctx, req)
	if err != nil {
		return err
	}
	for _, rt := range resp.(*kmsg.ProduceResponse).Topics {
		for _, rp := range rt.Partitions {
			if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
