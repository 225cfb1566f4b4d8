package consumer

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBrokerRestart: the broker goes away and comes back while records are in
// hand; nothing is lost and the runtime goes on by itself.
func TestBrokerRestart(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 2), unique(t, "g")
		cl.produce(t, topic, 0, 0, 200, 10)
		var got seen
		g := hold("50")
		defer g.free()
		c, _ := start(t, cl.config(group, topic), func(ctx context.Context, r Record) Outcome {
			out := g.handle(ctx, r)
			got.add(r.Value)
			return out
		})
		eventually(t, "it is under way", func() bool { return got.distinct() > 100 && g.started.of("50") > 0 })
		cl.restart()
		g.free()
		cl.produce(t, topic, 1, 1000, 200, 10)
		eventually(t, "all are handled", func() bool { return got.distinct() == 400 })
		eventually(t, "all are committed", func() bool {
			a, _ := cl.committed(t, group, topic, 0)
			b, _ := cl.committed(t, group, topic, 1)
			return a == 200 && b == 200
		})
		if err := c.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestTruncatedLog: the log lost what we had read. Below the cut, finished records
// stay finished and unfinished ones are read again; from the cut on everything
// is.
func TestTruncatedLog(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	cl.produce(t, topic, 0, 0, 100, 0)
	g := hold("50")
	defer g.free()
	cfg := cl.config(group, topic)
	cfg.Order = OrderNone
	c, ev := start(t, cfg, g.handle)
	eventually(t, "all but 50 are finished", func() bool { return g.finished.distinct() == 99 })
	if err := c.onLoop(ctxOf(t), func(l *loop) {
		p := l.order[0]
		l.fetchError(p, topic, 0, &kgo.ErrDataLoss{Topic: topic, Partition: 0, ConsumedTo: 100, ResetTo: 80}, nowMs())
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "80 and up are read again", func() bool { return g.started.of("99") == 2 && g.started.of("80") == 2 })
	eventually(t, "50 is read again", func() bool { return g.started.of("50") == 2 })
	g.free()
	eventually(t, "everything is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 100 })
	for v, want := range map[string]int{"0": 1, "49": 1, "51": 1, "79": 1} {
		if g.started.of(v) != want {
			t.Errorf("%s ran %d times, want %d", v, g.started.of(v), want)
		}
	}
	if ev.count(EventTruncated) != 1 || ev.count(EventStale) != 1 {
		t.Errorf("truncated %d, stale %d events", ev.count(EventTruncated), ev.count(EventStale))
	}
}

// TestOnePartitionWithoutLeader: bounds of one partition cannot be read when it is
// assigned. The others start, and it follows by itself.
func TestOnePartitionWithoutLeader(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 2), unique(t, "g")
	cl.produce(t, topic, 0, 0, 10, 0)
	cl.produce(t, topic, 1, 10, 10, 0)
	var away atomic.Bool
	away.Store(true)
	fk.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fk.KeepControl()
		r := req.(*kmsg.ListOffsetsRequest)
		if !away.Load() {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range r.Topics {
			t := kmsg.NewListOffsetsResponseTopic()
			t.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.LeaderEpoch = rp.Partition, -1
				if rp.Partition == 1 {
					p.ErrorCode = kerr.TopicAuthorizationFailed.Code // one that is not retried inside the client
				} else if p.Offset = 0; rp.Timestamp == -1 {
					p.Offset = 10
				}
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	var got seen
	c, ev := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done })
	eventually(t, "the other partition is handled", func() bool { return got.distinct() == 10 })
	// A partition is held once for each assignment, and there is one: an error of its
	// neighbour does not hold partition 0 too, whichever of the two is listed first.
	if held := ev.of(EventHeld); len(held) != 1 || held[0].Partition != 1 {
		t.Errorf("held: %+v, want partition 1 once", held)
	}
	away.Store(false)
	eventually(t, "it follows", func() bool { return got.distinct() == 20 })
	eventually(t, "it commits", func() bool { ln, _ := lineOf(t, c, topic, 1); return ln.Committed == 10 && ln.Held == nil })
	if ev.count(EventLost) > 0 {
		t.Error("the membership was lost over it")
	}
}
