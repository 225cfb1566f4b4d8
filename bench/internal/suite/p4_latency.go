package suite

import (
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
)

var quantiles = map[string]float64{"p50": .5, "p90": .9, "p99": .99, "p99.9": .999, "p99.99": .9999, "max": 1}

// latency is P4.
func (r *Run) latency() error {
	r.up()
	for range r.rounds("P4", r.o.Pairs) {
		for _, rate := range []int{1000, 20_000, 100_000} {
			if r.over(fmt.Sprintf("P4 from %d msg/s on", rate)) {
				return nil
			}
			for _, p := range r.running {
				if isCeiling(p) {
					continue
				}
				if err := r.latencyOnce(p, rate); err != nil {
					r.fail(fmt.Sprintf("P4 %d/s on %s", rate, p.Name()), err)
				}
			}
		}
	}
	return nil
}

func (r *Run) latencyOnce(p peer.Peer, rate int) error {
	topic := r.topic()
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: topic, Partitions: 1}); err != nil {
		return err
	}
	defer func() { _ = load.DeleteTopic(p.Addr(), topic) }()
	settle()
	long := 4 * time.Second
	if r.o.Quick {
		long = 3 * time.Second
	}
	before, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	defer r.profile(p, fmt.Sprintf("P4 %d", rate))()
	lat, err := load.OpenLoop(load.OpenLoopOptions{
		Addr: p.Addr(), Topic: topic, RecordBytes: 100, PerSecond: rate, For: long, Skip: time.Second, InFlight: inFlight,
	})
	if err != nil {
		return err
	}
	after, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d msg/s of 100 B", rate)
	for _, q := range report.Quantiles {
		r.add(report.Series{Row: "P4", Case: what, Metric: q, Unit: "ms", System: p.Name(), Less: true},
			lat.EndToEnd.Quantile(quantiles[q]).Seconds()*1e3)
	}
	r.add(report.Series{Row: "P4", Case: what, Metric: "CPU", Unit: "cores", System: p.Name(), Less: true}, (after-before)/long.Seconds())
	return nil
}
