package suite

import (
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
)

const (
	groupMembers = 1000
	groupTopics  = 10
	groupEach    = 1000 // partitions of a topic
	groupConns   = 50
	groupJoins   = 5 // a join settles with the next heartbeat or the one after: the phase decides
	groupEvery   = time.Second
	groupPatient = time.Minute
)

// group is P9b: one large consumer group under KIP-848: how long it takes to
// settle, and how many heartbeats are handled.
func (r *Run) group() error {
	r.down()
	for range r.rounds("P9b", r.o.Slow) {
		for _, p := range r.brokers {
			if r.over("P9b on " + p.Name()) {
				return nil
			}
			if err := r.groupOnce(p); err != nil {
				r.fail("P9b on "+p.Name(), err)
			}
			p.Kill()
			peer.Remove(p)
		}
	}
	return nil
}

func (r *Run) groupOnce(p peer.Peer) error {
	if err := peer.Start(p); err != nil {
		return err
	}
	var topics []string
	for range groupTopics {
		t := load.Topic{Name: r.topic(), Partitions: groupEach}
		if err := load.CreateTopics(p.Addr(), t); err != nil {
			return err
		}
		topics = append(topics, t.Name)
	}
	time.Sleep(quiet)
	before, err := peer.RSSMiB(p.PID())
	if err != nil {
		return err
	}
	g, err := load.StartGroup(load.GroupOptions{
		Addr: p.Addr(), Group: "large", Topics: topics, Partitions: groupTopics * groupEach, Conns: groupConns, Every: groupEvery,
	})
	if err != nil {
		return err
	}
	defer g.Close()
	if err := r.joined(p, g, groupMembers, "1,000 members join at once"); err != nil {
		return err
	}
	for range groupJoins {
		time.Sleep(2*groupEvery + groupEvery/3) // no new assignment within a second of the last (KIP-1263)
		if err := r.joined(p, g, 1, "one more joins, heartbeats each second"); err != nil {
			return err
		}
	}
	after, err := peer.RSSMiB(p.PID())
	if err != nil {
		return err
	}
	r.addGroup(p, "1,000 members, 10,000 partitions", "memory", "MiB", after, true)
	r.addGroup(p, "1,000 members, 10,000 partitions", "of it since the topics were made", "MiB", after-before, true)
	cpu, err := cores(p.PID(), quiet)
	if err != nil {
		return err
	}
	r.addGroup(p, "at rest, 1,000 heartbeats/s", "CPU", "cores", cpu, true)
	return r.beatNonstop(p, g)
}

// joined adds members and notes how long it takes until everybody has what it is
// to have, and what that costs.
func (r *Run) joined(p peer.Peer, g *load.Group, n int, what string) error {
	cpu, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	at := time.Now()
	g.Join(n)
	settled, err := g.AwaitSettled(groupPatient)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	after, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	r.addGroup(p, what, "time until settled", "s", settled.Sub(at).Seconds(), true)
	r.addGroup(p, what, "CPU", "s", after-cpu, true)
	return nil
}

// beatNonstop measures how many heartbeats are handled when every member has one
// under way all the time.
func (r *Run) beatNonstop(p peer.Peer, g *load.Group) error {
	g.Nonstop(true)
	defer g.Nonstop(false)
	time.Sleep(2*groupEvery + quiet) // all members are at it, and compilers have seen it
	defer r.profile(p, "P9b heartbeats")()
	cpu, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	at, beats := time.Now(), g.Beats()
	time.Sleep(quiet)
	took, done := time.Since(at), g.Beats()-beats
	after, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	r.addGroup(p, "1,000 members, heartbeats without pause", "heartbeats", "thousand/s", float64(done)/took.Seconds()/1e3, false)
	r.addGroup(p, "1,000 members, heartbeats without pause", "CPU", "µs a heartbeat", (after-cpu)/float64(done)*1e6, true)
	return r.joined(p, g, 1, "one more joins, heartbeats without pause")
}

func (r *Run) addGroup(p peer.Peer, what, metric, unit string, value float64, less bool) {
	r.add(report.Series{Row: "P9b", Case: what, Metric: metric, Unit: unit, System: p.Name(), Less: less}, value)
}
