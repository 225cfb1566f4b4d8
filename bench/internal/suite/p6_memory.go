package suite

import (
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
)

// quiet is how long a system may settle before it counts as idle.
const quiet = 4 * time.Second

// calm is quiet, shorter in a quick run.
func (r *Run) calm() time.Duration {
	if r.o.Quick {
		return quiet / 2
	}
	return quiet
}

// memory is P6: resident memory of a fresh node, and with idle partitions.
func (r *Run) memory() error {
	r.down()
	for range r.rounds("P6", r.o.Slow) {
		for _, p := range r.brokers {
			if r.over("P6 on " + p.Name()) {
				return nil
			}
			if err := r.memoryOnce(p); err != nil {
				r.fail("P6 on "+p.Name(), err)
			}
			p.Kill()
			peer.Remove(p)
		}
	}
	return nil
}

func (r *Run) memoryOnce(p peer.Peer) error {
	if err := peer.Start(p); err != nil {
		return err
	}
	if err := r.addIdle(p, "P6", "idle, no topic"); err != nil {
		return err
	}
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: r.topic(), Partitions: 1000}); err != nil {
		return err
	}
	return r.addIdle(p, "P6", "1,000 partitions, idle")
}

// addIdle waits for calm and notes memory and CPU of a system that nobody uses.
func (r *Run) addIdle(p peer.Peer, row, what string) error {
	time.Sleep(r.calm())
	cpu, err := cores(p.PID(), r.calm())
	if err != nil {
		return err
	}
	rss, err := peer.RSSMiB(p.PID())
	if err != nil {
		return err
	}
	r.add(report.Series{Row: row, Case: what, Metric: "memory", Unit: "MiB", System: p.Name(), Less: true}, rss)
	r.add(report.Series{Row: row, Case: what, Metric: "CPU", Unit: "cores", System: p.Name(), Less: true}, cpu)
	return nil
}

// cores measures the CPU of a process for a while.
func cores(pid int, long time.Duration) (float64, error) {
	before, err := peer.CPUSeconds(pid)
	if err != nil {
		return 0, err
	}
	at := time.Now()
	time.Sleep(long)
	after, err := peer.CPUSeconds(pid)
	if err != nil {
		return 0, fmt.Errorf("the process is gone: %w", err)
	}
	return (after - before) / time.Since(at).Seconds(), nil
}
