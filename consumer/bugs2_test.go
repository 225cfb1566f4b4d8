package consumer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/consumer/beacon"
)

// takeOver starts a second member and waits until it owns one of two partitions;
// it returns which one moved.
func takeOver(t *testing.T, cfg Config, h Handler, topic string) (second *Consumer, moved int32) {
	t.Helper()
	second, _ = start(t, cfg, h)
	moved = -1
	eventually(t, "the second member owns a partition", func() bool {
		for p := range int32(2) {
			if _, ok := lineOf(t, second, topic, p); ok {
				moved = p
			}
		}
		return moved >= 0
	})
	return second, moved
}

// commitLog records every commit that reaches an in-process cluster.
type commitLog struct {
	all chan commitSeen
}

type commitSeen struct {
	member    string
	partition int32
	offset    int64
	text      string
}

func watchCommits(fk interface {
	ControlKey(int16, func(kmsg.Request) (kmsg.Response, error, bool))
	KeepControl()
}) *commitLog {
	w := &commitLog{make(chan commitSeen, 100_000)}
	fk.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fk.KeepControl()
		r := req.(*kmsg.OffsetCommitRequest)
		for _, rt := range r.Topics {
			for _, p := range rt.Partitions {
				w.all <- commitSeen{r.MemberID, p.Partition, p.Offset, *p.Metadata}
			}
		}
		return nil, nil, false
	})
	return w
}

func (w *commitLog) drain() (out []commitSeen) {
	for {
		select {
		case c := <-w.all:
			out = append(out, c)
		default:
			return out
		}
	}
}

// TestBug11_LateAckAfterRevoke: a late ack put a revoked partition back among the
// marks, autocommit moved past the batch, and 10,433 records were lost
// (redpanda-data/connect#4477, #4009).
func TestBug11_LateAckAfterRevoke(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 2), unique(t, "g")
		cl.produce(t, topic, 0, 0, 10, 0)
		cl.produce(t, topic, 1, 100, 10, 0)
		g := hold("0", "100") // the heads of both
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.Order, cfg.DrainTimeout, cfg.BeaconInterval = OrderNone, 200*time.Millisecond, 200*time.Millisecond
		first, ev := start(t, cfg, g.handle)
		eventually(t, "18 are finished", func() bool { return g.finished.distinct() == 18 })
		g2 := hold("0", "100")
		defer g2.free()
		second, moved := takeOver(t, cfg, g2.handle, topic)
		head := fmt.Sprint(moved * 100)
		eventually(t, "the new owner runs the head again", func() bool { return g2.started.of(head) == 1 })
		g.free(head) // the old owner's handler says Done now
		eventually(t, "the late result is counted", func() bool { return ev.count(EventStale) == 1 })
		for range 3 { // a few commits of the first member go by
			s0, _ := first.Stats(ctxOf(t))
			cl.produce(t, topic, 1-moved, 1000, 1, 0)
			eventually(t, "the first member commits", func() bool { s, _ := first.Stats(ctxOf(t)); return s.CommitsOK > s0.CommitsOK })
			if at, _ := cl.committed(t, group, topic, moved); at != 0 {
				t.Fatalf("the old owner moved the commit to %d", at)
			}
		}
		g2.free(head)
		eventually(t, "the new owner commits", func() bool { at, _ := cl.committed(t, group, topic, moved); return at == 10 })
		if r := g2.finished.of(head); r != 1 || g2.finished.distinct() != 1 {
			t.Errorf("the new owner ran %d records: it should run the head only, the rest was carried", g2.finished.distinct())
		}
		_ = second
	})
}

// TestBug12_RevokeCommitsFinishedNotPolled: on revoke the polled offsets were
// committed, not the finished ones (twmb/franz-go#320, #57).
func TestBug12_RevokeCommitsFinishedNotPolled(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	w := watchCommits(fk)
	cl.produce(t, topic, 0, 0, 300, 0)
	g := hold("4")
	defer g.free()
	cfg := cl.config(group, topic)
	cfg.Order, cfg.DrainTimeout, cfg.CommitInterval = OrderPartition, 100*time.Millisecond, time.Hour
	c, _ := start(t, cfg, g.handle)
	eventually(t, "4 runs and the rest is polled", func() bool {
		ln, _ := lineOf(t, c, topic, 0)
		return ln.Position == 300 && g.started.of("4") == 1
	})
	stop(t, c)
	all := w.drain()
	if last := all[len(all)-1]; last.offset != 4 {
		t.Errorf("the last commit is %d, want 4 (of %v)", last.offset, all)
	}
}

// TestBug13_TransactionGaps: "next = +1" hung on transaction gaps; the fix removed
// the check and hung differently (spring-projects/spring-kafka#4258, #4342).
func TestBug13_TransactionGaps(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		cl.needTransactions(t)
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.transact(t, topic, 20, true)
		cl.transact(t, topic, 5, false)
		cl.transact(t, topic, 20, true)
		cfg := cl.config(group, topic)
		cfg.Order = OrderNone
		var got seen
		c, _ := start(t, cfg, func(_ context.Context, r Record) Outcome {
			if r.Attempt < int(r.Offset*7%5)+1 { // out of order
				return Retry(time.Millisecond)
			}
			got.add(fmt.Appendf(nil, "%d", r.Offset))
			return Done
		})
		eventually(t, "the end is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 90 })
		cl.transact(t, topic, 1, true)
		eventually(t, "one more arrives", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 92 })
		if got.distinct() != 41 || len(got.repeated()) > 0 {
			t.Errorf("%d records, want 41; repeated %v", got.distinct(), got.repeated())
		}
	})
}

// TestBug14_AckOfAnotherDelivery: old acks were mixed into the redelivered batch;
// kept partitions were never fetched again and nothing was logged
// (spring-projects/spring-kafka#4687, #4688).
func TestBug14_AckOfAnotherDelivery(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 3, 0)
		g := hold("0")
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.Protocol, cfg.Order, cfg.DrainTimeout = ProtocolEager, OrderPartition, 100*time.Millisecond
		c, ev := start(t, cfg, g.handle)
		eventually(t, "0 runs", func() bool { return g.started.of("0") == 1 })
		g.mu.Lock()
		firstRun := g.held["0"]
		g.mu.Unlock()
		g.rehold("0")
		bounce(t, c, topic)
		eventually(t, "0 is delivered again", func() bool { return g.started.of("0") == 2 })
		close(firstRun)
		eventually(t, "the first run's ack is refused", func() bool { return ev.count(EventStale) == 1 })
		if ln, ok := lineOf(t, c, topic, 0); !ok || ln.Effect != 0 || ln.Running != 1 {
			t.Errorf("an ack of another delivery moved the line: %+v", ln)
		}
		g.free("0")
		cl.produce(t, topic, 0, 3, 3, 0)
		eventually(t, "fetching goes on", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 6 })
	})
}

// TestBug15_PauseIsALevel: the pause state was lost or stuck after a rebalance, a
// nack or an error handler (spring-projects/spring-kafka#2581, #2410, #2677).
func TestBug15_PauseIsALevel(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 2000, 0)
		g := hold("0")
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.Protocol, cfg.Order, cfg.DrainTimeout, cfg.PartitionRecords = ProtocolEager, OrderPartition, 100*time.Millisecond, 100
		c, _ := start(t, cfg, g.handle)
		paused := func() bool {
			ln, _ := lineOf(t, c, topic, 0)
			return ln.Paused == "records" && len(c.loop.Load().cl.PauseFetchPartitions(nil)[topic]) == 1
		}
		eventually(t, "the partition is paused", paused)
		// Somebody resumes it behind our back: the next turn pauses it again.
		c.loop.Load().cl.ResumeFetchPartitions(map[string][]int32{topic: {0}})
		eventually(t, "it is paused again", paused)
		bounce(t, c, topic)
		eventually(t, "it is paused after the rebalance", paused)
		g.free()
		eventually(t, "everything is finished", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 2000 })
		// And the other way round: a pause that nobody wants goes away.
		c.loop.Load().cl.PauseFetchPartitions(map[string][]int32{topic: {0}})
		cl.produce(t, topic, 0, 2000, 5, 0)
		eventually(t, "the stray pause is gone", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 2005 })
	})
}

// TestBug16_PausedKeepsItsMembership: a paused consumer stopped polling and was
// expelled (Farfetch/kafkaflow#111).
func TestBug16_PausedKeepsItsMembership(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		protocols(t, cl, func(t *testing.T, p Protocol) {
			t.Parallel() // they wait for time to pass
			topic, group := cl.topic(t, 1), unique(t, "g")
			cl.produce(t, topic, 0, 0, 500, 0)
			g := hold("0")
			defer g.free()
			cfg := cl.config(group, topic)
			cfg.Protocol, cfg.Order, cfg.PartitionRecords = p, OrderPartition, 10
			c, ev := start(t, cfg, g.handle)
			eventually(t, "the partition is paused", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Paused == "records" })
			before, _ := lineOf(t, c, topic, 0)
			eventually(t, "two session timeouts pass", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Oldest.Age > 2*cfg.SessionTimeout })
			after, ok := lineOf(t, c, topic, 0)
			if !ok || after.Generation != before.Generation || after.GroupGeneration != before.GroupGeneration || ev.count(EventLost)+ev.count(EventRevoked) > 0 {
				t.Errorf("the membership changed: %+v, %+v", before, after)
			}
			g.free()
			eventually(t, "everything is finished", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 500 })
		})
	})
}

// TestBug17_NoCommitAfterTheHandOver: an offset stored or refreshed after the
// unassign rewound the new owner (confluentinc/librdkafka#2948,
// akka/alpakka-kafka#1121).
func TestBug17_NoCommitAfterTheHandOver(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 2), unique(t, "g")
	w := watchCommits(fk)
	cl.produce(t, topic, 0, 0, 5, 0)
	cl.produce(t, topic, 1, 0, 5, 0)
	done := func(context.Context, Record) Outcome { return Done }
	cfg := cl.config(group, topic)
	cfg.BeaconInterval, cfg.IdleBeaconInterval = 20*time.Millisecond, 20*time.Millisecond
	first, ev := start(t, cfg, done)
	eventually(t, "both are committed", func() bool {
		a, _ := lineOf(t, first, topic, 0)
		b, _ := lineOf(t, first, topic, 1)
		return a.Committed == 5 && b.Committed == 5
	})
	second, moved := takeOver(t, cfg, done, topic)
	eventually(t, "the first member knows", func() bool { return ev.count(EventRevoked) == 1 })
	w.drain()
	cl.produce(t, topic, moved, 5, 5, 0)
	eventually(t, "the new owner commits", func() bool { ln, _ := lineOf(t, second, topic, moved); return ln.Committed == 10 })
	s0, _ := first.Stats(ctxOf(t))
	eventually(t, "beacons of the first member go out", func() bool { s, _ := first.Stats(ctxOf(t)); return s.CommitsOK > s0.CommitsOK+5 })
	firstMember, _ := first.loop.Load().cl.GroupMetadata()
	for _, c := range w.drain() {
		if c.partition == moved && c.member == firstMember {
			t.Fatalf("the old owner committed %+v", c)
		}
	}
}

// TestBug18_CleanDeployReplaysNothing: the generation was raised before the drain,
// and every clean deploy replayed what ran (PostHog/posthog#59391).
func TestBug18_CleanDeployReplaysNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		protocols(t, cl, func(t *testing.T, p Protocol) {
			topic, group := cl.topic(t, 2), unique(t, "g")
			for part := range int32(2) {
				cl.produce(t, topic, part, int(part)*1000, 400, 20)
			}
			var got seen
			handler := func(_ context.Context, r Record) Outcome {
				time.Sleep(time.Duration(1+r.Offset%9) * time.Millisecond)
				got.add(r.Value)
				return Done
			}
			cfg := cl.config(group, topic)
			cfg.Protocol, cfg.CommitInterval = p, time.Hour // only the hand-over commits
			for round := range 4 {
				c, _ := start(t, cfg, handler)
				want := min(800, 150*(round+1))
				eventually(t, "some are finished", func() bool { return got.distinct() >= want })
				stop(t, c)
			}
			c, _ := start(t, cfg, handler)
			eventually(t, "all are finished", func() bool { return got.distinct() == 800 })
			if err := c.Drain(ctxOf(t)); err != nil {
				t.Fatal(err)
			}
			if r := got.repeated(); len(r) > 0 {
				t.Errorf("run twice over clean deploys: %v", r)
			}
		})
	})
}

// TestBug19_LostIsAQuietDrop: a safe rebalance waited for records that were never
// pulled; lost was treated as revoke, then as fatal (zio/zio-kafka#1575, #1089,
// #1252).
func TestBug19_LostIsAQuietDrop(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	w := watchCommits(fk)
	cl.produce(t, topic, 0, 0, 10, 0)
	g := hold("2")
	defer g.free()
	cfg := cl.config(group, topic)
	cfg.Order, cfg.CommitInterval, cfg.DrainTimeout = OrderPartition, time.Hour, 10*time.Second
	cfg.BeaconInterval = time.Hour
	c, ev := start(t, cfg, g.handle)
	eventually(t, "2 runs", func() bool { return g.started.of("2") == 1 })
	eventually(t, "the first commit is there", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed != Absent })
	w.drain()
	var once atomic.Bool
	fk.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if once.Swap(true) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return resp, nil, true
	})
	eventually(t, "the partition is lost", func() bool { return ev.count(EventLost) == 1 })
	for _, s := range w.drain() {
		if b, _ := beacon.Decode(s.text); s.offset > 0 && b.Effect > 0 {
			t.Errorf("a lost partition was committed: %+v", s)
		}
	}
	eventually(t, "it comes back and the record is delivered again", func() bool { return g.started.of("2") == 2 })
	g.free()
	eventually(t, "everything is finished", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Effect == 10 })
	if c.Err() != nil {
		t.Errorf("lost was fatal: %v", c.Err())
	}
}

// TestBug19_RevokeWaitsForRunningOnly: what is queued or waits for a retry does
// not hold a revoke up.
func TestBug19_RevokeWaitsForRunningOnly(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 500, 0)
		cfg := cl.config(group, topic)
		cfg.Order, cfg.DrainTimeout, cfg.RebalanceTimeout = OrderPartition, 50*time.Second, 55*time.Second
		c, _ := start(t, cfg, func(context.Context, Record) Outcome { return Retry(time.Hour) })
		eventually(t, "one waits and the rest is queued", func() bool {
			ln, _ := lineOf(t, c, topic, 0)
			return ln.RetryWait == 1 && ln.Queued >= 400
		})
		begun := time.Now()
		stop(t, c)
		if took := time.Since(begun); took > 40*time.Second {
			t.Errorf("the close took %v: it waited for records that nobody runs", took)
		}
	})
}

// TestBug20_NewPartitionsStartAtTheirStart: records on new partitions were skipped
// with "latest" (IBM/sarama#1739, apache/kafka#22784).
func TestBug20_NewPartitionsStartAtTheirStart(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 2), unique(t, "g")
		cl.produce(t, topic, 0, 0, 5, 0)
		cl.produce(t, topic, 1, 10, 5, 0)
		var got seen
		handler := func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done }
		cfg := cl.config(group, topic)
		cfg.Start = StartLatest
		c, _ := start(t, cfg, handler)
		eventually(t, "both partitions begin at the end", func() bool {
			a, _ := lineOf(t, c, topic, 0)
			b, _ := lineOf(t, c, topic, 1)
			return a.Committed == 5 && b.Committed == 5
		})
		if got.distinct() != 0 {
			t.Fatalf("latest delivered %d old records", got.distinct())
		}
		grow := func(total int) {
			t.Helper()
			resp, err := cl.admin(t).UpdatePartitions(ctxOf(t), total, topic)
			if err != nil || resp.Error() != nil {
				t.Fatal(err, resp.Error())
			}
			eventually(t, "the new partition has a leader", func() bool {
				offs, err := cl.admin(t).ListEndOffsets(ctxOf(t), topic)
				return err == nil && offs.Error() == nil && len(offs[topic]) == total
			})
		}
		grow(3)
		cl.produce(t, topic, 2, 20, 5, 0) // likely before the group sees it
		eventually(t, "the new partition's records arrive", func() bool { return got.distinct() == 5 })
		eventually(t, "they are committed", func() bool { ln, _ := lineOf(t, c, topic, 2); return ln.Committed == 5 })
		stop(t, c)
		grow(4) // while nobody consumes
		cl.produce(t, topic, 3, 30, 5, 0)
		cl.produce(t, topic, 0, 5, 5, 0)
		c2, _ := start(t, cfg, handler)
		eventually(t, "nothing is skipped", func() bool { return got.distinct() == 15 })
		eventually(t, "it is committed", func() bool { ln, _ := lineOf(t, c2, topic, 3); return ln.Committed == 5 })
		if r := got.repeated(); len(r) > 0 {
			t.Errorf("delivered twice: %v", r)
		}
	})
}
