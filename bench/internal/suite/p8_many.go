package suite

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
)

const (
	manyTopics = 10
	manyEach   = 1000
)

// many is P8, and the last line of P6: ten thousand partitions on one node.
func (r *Run) many() error {
	r.down()
	for range r.rounds("P8", r.o.Slow) {
		for _, p := range r.brokers {
			if r.over("P8 on " + p.Name()) {
				return nil
			}
			if err := r.manyOnce(p); err != nil {
				r.fail("P8 on "+p.Name(), err)
			}
			p.Kill()
			peer.Remove(p)
		}
	}
	return nil
}

func (r *Run) manyOnce(p peer.Peer) error {
	if err := peer.Start(p); err != nil {
		return err
	}
	few := r.topic()
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: few, Partitions: 10}); err != nil {
		return err
	}
	if err := r.warm(p); err != nil {
		return err
	}
	if err := r.paced(p, "1 of 10 partitions active", few, 1); err != nil {
		return err
	}
	topics := make([]load.Topic, manyTopics)
	for i := range topics {
		topics[i] = load.Topic{Name: r.topic(), Partitions: manyEach}
	}
	at := time.Now()
	for _, t := range topics {
		if err := load.CreateTopics(p.Addr(), t); err != nil {
			return err
		}
	}
	r.add(report.Series{Row: "P8", Case: "create 10,000 partitions", Metric: "time", Unit: "s", System: p.Name(), Less: true}, time.Since(at).Seconds())
	if err := r.addIdle(p, "P6", "10,000 partitions, idle"); err != nil {
		return err
	}
	if err := r.paced(p, "1 of 10,000 partitions active", few, 1); err != nil {
		return err
	}
	if err := r.paced(p, "1,000 of 10,000 partitions active", topics[0].Name, manyEach); err != nil {
		return err
	}
	return r.idleConsumers(p, topics)
}

// paced notes the latency of 1,000 single messages a second.
func (r *Run) paced(p peer.Peer, what, topic string, partitions int) error {
	h, err := load.Paced(load.PacedOptions{
		Addr: p.Addr(), Topic: topic, Partitions: partitions, RecordBytes: 100, PerSecond: 1000, For: 4 * time.Second, InFlight: 50,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, q := range []string{"p50", "p99", "max"} {
		r.add(report.Series{Row: "P8", Case: what, Metric: "produce " + q, Unit: "ms", System: p.Name(), Less: true},
			h.Quantile(quantiles[q]).Seconds()*1e3)
	}
	return nil
}

// idleConsumers measures the broker while ten consumers wait on a thousand
// partitions each and nothing comes.
func (r *Run) idleConsumers(p peer.Peer, topics []load.Topic) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, t := range topics {
		cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr()), kgo.ConsumeTopics(t.Name), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer cl.Close()
			for ctx.Err() == nil {
				cl.PollFetches(ctx)
			}
		})
	}
	time.Sleep(2 * quiet) // the sessions are made
	cpu, err := cores(p.PID(), 2*quiet)
	if err != nil {
		return err
	}
	r.add(report.Series{Row: "P8", Case: "10,000 idle partitions, 10 consumers", Metric: "CPU", Unit: "cores", System: p.Name(), Less: true}, cpu)
	return nil
}
