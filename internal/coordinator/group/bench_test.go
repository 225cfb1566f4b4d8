package group

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
)

const (
	benchMembers    = 1000
	benchPartitions = 10_000
)

// BenchmarkHeartbeat is a heartbeat that changes nothing, in a group of 1,000
// members with 10,000 partitions.
func BenchmarkHeartbeat(b *testing.B) {
	w := big(b, benchMembers)
	reqs := make([]consumer.Request, len(w.members))
	for i, m := range w.members {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, "g", m.id, m.epoch, -1
		reqs[i] = consumer.Request{ConsumerGroupHeartbeatRequest: req, ClientID: "c", ClientHost: "/h"}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		res, err := w.s.ConsumerHeartbeat(wall(w.now), reqs[i%len(reqs)])
		if err != nil || len(res.Records) > 0 {
			b.Fatal(err, len(res.Records))
		}
		i++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "heartbeats/s")
}

// BenchmarkConverge is one member joining such a group, until every member has
// what it is to have; each member is heard of in every round.
func BenchmarkConverge(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := big(b, benchMembers)
		b.StartTimer()
		w.pass(2000)
		w.join(false, "t")
		rounds := w.converge()
		b.ReportMetric(float64(rounds), "rounds")
		b.ReportMetric(float64(len(w.log)), "records")
	}
}

// big makes a group at rest.
func big(b *testing.B, members int) *world {
	b.Helper()
	w := newWorld(b)
	w.c.set("t", benchPartitions)
	for range members {
		w.join(false, "t")
	}
	w.pass(2000)
	w.converge()
	if got := w.s.consumerGroup("g", latest).StateName(latest); got != "Stable" {
		b.Fatal(got)
	}
	return w
}

// converge lets every member be heard of until the group is stable.
func (w *world) converge() int {
	g := w.s.consumerGroup("g", latest)
	for round := 1; ; round++ {
		for _, m := range w.members {
			m.beatConsumer()
		}
		if g.StateName(latest) == "Stable" {
			return round
		}
		if round > 50 {
			w.t.Fatal(fmt.Sprint("not stable: ", g.StateName(latest)))
		}
	}
}
