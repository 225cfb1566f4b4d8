package suite

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
	"github.com/tidemark-io/tidemark/consumer"
)

// The work of C1: every record costs its handler a millisecond, 64 run at a time,
// records of one key in order.
const (
	rateRecords    = 50_000
	rateKeys       = 997
	rateParallel   = 64
	ratePartitions = 8
	rateWait       = 50 * time.Millisecond // of a fetch
	rateTimeout    = 2 * time.Minute
)

func work1ms() { time.Sleep(time.Millisecond) }

// consumers is C1: package consumer, a bare franz-go poll loop and Confluent's
// parallel-consumer read the same topic, on Tidemark and on Apache Kafka. The row
// is about the clients: what a broker does here is the same for all.
func (r *Run) consumers() error {
	r.up()
	java, err := peer.NewParallelConsumer(r.o.Root)
	if err != nil {
		r.Out.Absent["C1 with parallel-consumer"] = err.Error()
	} else {
		r.Out.Versions["parallel-consumer"] = java.Version() + " (io.confluent.parallelconsumer from Maven)"
	}
	topics := map[string]string{}
	for _, p := range r.running {
		if isCeiling(p) || p.Name() == peer.Strict { // nobody waits for a disk here
			continue
		}
		topics[p.Name()] = r.topic()
		if err := fillForConsumers(p, topics[p.Name()]); err != nil {
			return fmt.Errorf("on %s: %w", p.Name(), err)
		}
	}
	for range r.rounds("C1", r.o.Pairs) {
		for _, p := range r.running {
			topic, ok := topics[p.Name()]
			if !ok {
				continue
			}
			if r.over("C1 on " + p.Name()) {
				return nil
			}
			if err := r.consumerRates(p, topic, java); err != nil {
				r.fail("C1 on "+p.Name(), err)
			}
		}
	}
	return nil
}

// consumerRates measures the three in turn, on one broker.
func (r *Run) consumerRates(p peer.Peer, topic string, java *peer.ParallelConsumer) error {
	ctx, cancel := context.WithTimeout(context.Background(), rateTimeout)
	defer cancel()
	add := func(client, metric, unit string, value float64) {
		r.add(report.Series{Row: "C1", Case: client, Metric: metric, Unit: unit, System: p.Name(), Less: metric == rateCPU}, value)
	}
	bare := 0.0
	for _, c := range []struct {
		name string
		rate func(ctx context.Context, addr, topic, group string) (float64, error)
	}{{"bare franz-go poll loop", rateBare}, {"package consumer", rateOurs}} {
		before := cpuSelf()
		rate, err := c.rate(ctx, p.Addr(), topic, topic+r.topic())
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		add(c.name, "rate", "records/s", rate)
		add(c.name, rateCPU, "µs", (cpuSelf()-before)*1e6/rateRecords)
		if bare == 0 {
			bare = rate
			continue
		}
		add(c.name, "share of the bare loop", "×", rate/bare)
	}
	if java == nil {
		return nil
	}
	rates, err := java.Rate(ctx, p.Addr(), topic, topic+r.topic(), rateRecords, rateParallel, 2)
	if err != nil {
		return fmt.Errorf("parallel-consumer: %w", err)
	}
	warm := rates[len(rates)-1]
	add("parallel-consumer (Java)", "rate", "records/s", warm)
	add("parallel-consumer (Java)", "share of the bare loop", "×", warm/bare)
	return nil
}

// rateCPU is the load of a client itself, which a busy box changes less than the
// rate.
const rateCPU = "CPU a record"

// cpuSelf is the CPU time of this process so far, in seconds.
func cpuSelf() float64 {
	s, _ := peer.CPUSeconds(os.Getpid())
	return s
}

// fillForConsumers writes the topic that all clients read.
func fillForConsumers(p peer.Peer, topic string) error {
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: topic, Partitions: ratePartitions}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), rateTimeout)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr()), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	for i := range rateRecords {
		// The partitioner hashes the key, so a key is in one partition.
		rec := &kgo.Record{Key: []byte("k" + strconv.Itoa(i%rateKeys)), Value: []byte(strconv.Itoa(i))}
		cl.Produce(ctx, rec, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// stopwatch takes the time from the first call of a handler to the end of the
// last.
type stopwatch struct {
	first atomic.Pointer[time.Time]
	left  atomic.Int64
	took  chan time.Duration
}

func newStopwatch() *stopwatch {
	s := &stopwatch{took: make(chan time.Duration, 1)}
	s.left.Store(rateRecords)
	return s
}

// work handles one record.
func (s *stopwatch) work() {
	if s.first.Load() == nil {
		now := time.Now()
		s.first.CompareAndSwap(nil, &now)
	}
	work1ms()
	if s.left.Add(-1) == 0 {
		s.took <- time.Since(*s.first.Load())
	}
}

// rate waits for the end.
func (s *stopwatch) rate(ctx context.Context) (float64, error) {
	select {
	case took := <-s.took:
		return rateRecords / took.Seconds(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%d records were not handled: %w", s.left.Load(), ctx.Err())
	}
}

func rateOurs(ctx context.Context, addr, topic, group string) (float64, error) {
	c, err := consumer.Open(consumer.Config{
		Brokers: []string{addr}, Group: group, Topics: []string{topic}, Concurrency: rateParallel, FetchWait: rateWait,
		CommitInterval: time.Second, Events: func(consumer.Event) {},
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	s := newStopwatch()
	if err := c.Handle(func(context.Context, consumer.Record) consumer.Outcome { s.work(); return consumer.Done }); err != nil {
		return 0, err
	}
	return s.rate(ctx)
}

// rateBare is what one writes in an afternoon: records go to 64 workers by a hash
// of the key; nothing is remembered about completion, nothing is committed.
func rateBare(ctx context.Context, addr, topic, group string) (float64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(rateWait))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	s := newStopwatch()
	var workers sync.WaitGroup
	var lanes [rateParallel]chan *kgo.Record
	for i := range lanes {
		lane := make(chan *kgo.Record, rateRecords) // never full: the poll loop does not wait
		lanes[i] = lane
		workers.Go(func() {
			for range lane {
				s.work()
			}
		})
	}
	defer workers.Wait()
	defer func() {
		for _, lane := range lanes {
			close(lane)
		}
	}()
	for got := 0; got < rateRecords; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			h := fnv.New32a()
			_, _ = h.Write(rec.Key)
			lanes[h.Sum32()%rateParallel] <- rec
			got++
		})
	}
	return s.rate(ctx)
}
