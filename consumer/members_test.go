package consumer

import (
	"context"
	"testing"
	"time"
)

// TestMembersComeAndGo: members join and leave while records are handled. With
// drains that are long enough every record is handled once, though completion is
// out of order: what is completed above the commit travels in the beacon.
func TestMembersComeAndGo(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		protocols(t, cl, func(t *testing.T, p Protocol) {
			topic, group := cl.topic(t, 6), unique(t, "g")
			const each = 300
			for part := range int32(6) {
				cl.produce(t, topic, part, int(part)*each, each, 40)
			}
			var got seen
			handler := func(_ context.Context, r Record) Outcome {
				time.Sleep(time.Duration(1+r.Offset*13%17) * time.Millisecond) // the work
				got.add(r.Value)
				return Done
			}
			cfg := cl.config(group, topic)
			cfg.Protocol, cfg.Concurrency = p, 8
			first, _ := start(t, cfg, handler)
			members := []*Consumer{first}
			for step := range 3 {
				want := 300 * (step + 1)
				eventually(t, "some are handled", func() bool { return got.distinct() >= want })
				c, _ := start(t, cfg, handler)
				members = append(members, c)
				eventually(t, "the new member owns something", func() bool {
					lines, _ := c.Line(ctxOf(t))
					return len(lines) > 0 || got.distinct() == 6*each
				})
				if step == 1 {
					stop(t, members[0])
				}
			}
			eventually(t, "all are handled", func() bool { return got.distinct() == 6*each })
			for part := range int32(6) {
				eventually(t, "all are committed", func() bool { at, _ := cl.committed(t, group, topic, part); return at == each })
			}
			if r := got.repeated(); len(r) > 0 {
				t.Errorf("%d records were handled twice over clean hand-overs: %v", len(r), r)
			}
		})
	})
}

// TestStaticMemberComesBack: the same instance id gets its partitions back, and
// how long they stood still is a series of its own.
func TestStaticMemberComesBack(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		protocols(t, cl, func(t *testing.T, p Protocol) {
			topic, group := cl.topic(t, 2), unique(t, "g")
			cl.produce(t, topic, 0, 0, 10, 0)
			done := func(context.Context, Record) Outcome { return Done }
			cfg := cl.config(group, topic)
			cfg.Protocol, cfg.InstanceID = p, "static-1"
			c, _ := start(t, cfg, done)
			eventually(t, "it is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 10 })
			if s, _ := c.Stats(ctxOf(t)); s.StaticWait != 0 {
				t.Errorf("a first start waited %v", s.StaticWait)
			}
			stop(t, c)
			if p == ProtocolConsumer {
				awayNotGone(t, cl, group)
			}
			cl.produce(t, topic, 0, 10, 10, 0)
			c, _ = start(t, cfg, done)
			eventually(t, "it goes on", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 20 })
			s, _ := c.Stats(ctxOf(t))
			ln, _ := lineOf(t, c, topic, 0)
			if s.StaticWait <= 0 || ln.Stopped <= 0 || s.OldestInFlight != 0 || s.OverDeadline != 0 {
				t.Errorf("static wait %v, stopped %v; oldest in flight %v, over deadline %d", s.StaticWait, ln.Stopped, s.OldestInFlight, s.OverDeadline)
			}
		})
	})
}

// awayNotGone: a static KIP-848 member that was closed has said that it will be
// back (epoch -2). Without that its id would be taken until the session ends, and
// the next process would wait as long.
func awayNotGone(t *testing.T, cl *cluster, group string) {
	t.Helper()
	described, err := cl.admin(t).DescribeConsumerGroups(ctxOf(t), group)
	if err != nil {
		t.Fatal(err)
	}
	members := described[group].Members
	if len(members) != 1 || members[0].MemberEpoch != -2 {
		t.Errorf("after a clean close the members are %+v, want one with epoch -2", members)
	}
}
