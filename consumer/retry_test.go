package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/consumer/quarantine"
)

// quarantined reads everything of a quarantine topic.
func (cl *cluster) quarantined(t testing.TB, topic string, n int) (out []*kgo.Record) {
	t.Helper()
	c := cl.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	ctx, cancel := context.WithTimeout(ctxOf(t), patience)
	defer cancel()
	for len(out) < n && ctx.Err() == nil {
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) { out = append(out, r) })
	}
	return out
}

// TestQuarantine: a record leaves with its key, value and headers, and says where
// it came from and why; it is closed, and is not a success.
func TestQuarantine(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		bad := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("bad"), Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("7")}, {Key: quarantine.HeaderRedriveCount, Value: []byte("2")}}}
		if err := cl.client(t).ProduceSync(ctxOf(t), bad).FirstErr(); err != nil {
			t.Fatal(err)
		}
		cl.produce(t, topic, 0, 0, 5, 0)
		cfg := cl.config(group, topic)
		cfg.QuarantineTopic = unique(t, "q")
		c, ev := start(t, cfg, func(_ context.Context, r Record) Outcome {
			switch {
			case string(r.Value) != "bad":
				return Done
			case r.Attempt < 3:
				return Retry(0).Because(errors.New("no such order"))
			}
			return Quarantine("no such order")
		})
		eventually(t, "everything is closed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 6 })
		ln, _ := lineOf(t, c, topic, 0)
		s, _ := c.Stats(ctxOf(t))
		if ln.Quarantined != 1 || s.Quarantined != 1 || s.Done != 5 || s.Retried != 2 || ev.count(EventQuarantined) != 1 {
			t.Errorf("line %+v, stats %+v", ln, s)
		}
		rs := cl.quarantined(t, cfg.QuarantineTopic, 1)
		if len(rs) != 1 || string(rs[0].Key) != "k" || string(rs[0].Value) != "bad" || rs[0].Headers[0].Key != "trace" {
			t.Fatalf("quarantined: %+v", rs)
		}
		o, ok, err := quarantine.Parse(rs[0].Headers)
		if !ok || err != nil || o.Topic != topic || o.Offset != 0 || o.Attempts != 3 || o.Reason != "no such order" || o.Group != group || o.Redrives != 2 || o.TimestampMs != bad.Timestamp.UnixMilli() {
			t.Errorf("origin %+v, %v, %v", o, ok, err)
		}
	})
}

// TestQuarantineBudget: an outage cannot drain into quarantine; when the
// downstream is back, what was held succeeds.
func TestQuarantineBudget(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	cl.produce(t, topic, 0, 0, 200, 0)
	cfg := cl.config(group, topic)
	cfg.Order, cfg.QuarantineTopic, cfg.MaxAttempts = OrderNone, "q", 2
	var down atomic.Bool
	down.Store(true)
	c, ev := start(t, cfg, func(_ context.Context, r Record) Outcome {
		if down.Load() {
			return Retry(0).Because(errors.New("downstream is away"))
		}
		return Done
	})
	eventually(t, "the outage holds every record back", func() bool { s, _ := c.Stats(ctxOf(t)); return s.QuarantineHeld > 600 })
	eventually(t, "each record that is held was reported", func() bool { return ev.count(EventQuarantineHeld) >= 199 })
	if n := ev.count(EventQuarantineHeld); n != 199 {
		t.Errorf("the outage reported %d records as held, want each of 199 once", n)
	}
	s, _ := c.Stats(ctxOf(t))
	if s.Quarantined != 1 {
		t.Errorf("the outage quarantined %d records, want the one that is free", s.Quarantined)
	}
	if ln, _ := lineOf(t, c, topic, 0); !strings.Contains(ln.Oldest.LastError, "budget") || ln.Oldest.Attempts < 2 {
		t.Errorf("the line does not say why: %+v", ln.Oldest)
	}
	down.Store(false)
	eventually(t, "all are closed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 200 })
	if s, _ = c.Stats(ctxOf(t)); s.Done != 199 || s.Quarantined != 1 {
		t.Errorf("done %d, quarantined %d", s.Done, s.Quarantined)
	}
}

// TestQuarantineAppendFails: the record is closed only when the append is
// acknowledged; its handler does not run again for it.
func TestQuarantineAppendFails(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	cl.produce(t, topic, 0, 0, 3, 0)
	var refuse atomic.Bool
	refuse.Store(true)
	fk.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fk.KeepControl()
		if !refuse.Load() {
			return nil, nil, false
		}
		r := req.(*kmsg.ProduceRequest)
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range r.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, kerr.TopicAuthorizationFailed.Code
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	cfg := cl.config(group, topic)
	cfg.QuarantineTopic = "q"
	var runs atomic.Int64
	c, ev := start(t, cfg, func(_ context.Context, r Record) Outcome {
		if r.Offset == 0 {
			runs.Add(1)
			return Quarantine("bad")
		}
		return Done
	})
	eventually(t, "the append failed several times", func() bool { return ev.count(EventQuarantineHeld) >= 3 })
	if ln, _ := lineOf(t, c, topic, 0); ln.Effect != 0 || ln.Quarantined != 0 {
		t.Errorf("closed without the append: %+v", ln)
	}
	refuse.Store(false)
	eventually(t, "all is closed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 3 })
	if runs.Load() != 1 {
		t.Errorf("the handler ran %d times", runs.Load())
	}
}

// TestPoisonHead: a head that holds up a nearly finished window leaves; a sick
// downstream, with many unfinished records, quarantines nothing.
func TestPoisonHead(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	cl.produce(t, topic, 0, 0, 2000, 0)
	cfg := cl.config(group, topic)
	cfg.Order, cfg.QuarantineTopic, cfg.PoisonHead, cfg.PartitionWindow = OrderNone, "q", true, 500
	var sick atomic.Bool
	sick.Store(true)
	c, ev := start(t, cfg, func(ctx context.Context, r Record) Outcome {
		if r.Offset == 10 { // hangs until it is told to stop
			<-ctx.Done()
			return Retry(0).Because(context.Cause(ctx))
		}
		if sick.Load() && r.Offset%2 == 0 {
			return Retry(0)
		}
		return Done
	})
	eventually(t, "the window is full while half of it is not finished", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Paused == "window" })
	if n := ev.count(EventPoison); n > 0 {
		t.Errorf("a sick downstream was taken for %d poison records", n)
	}
	sick.Store(false)
	eventually(t, "the head leaves and everything is closed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 2000 })
	q := ev.of(EventQuarantined)
	if len(q) != 1 || q[0].Offset != 10 || !strings.Contains(q[0].Detail, "holds up its partition") {
		t.Errorf("quarantined: %+v", q)
	}
}

// TestSourceRetention: a retry that would come after the source is gone becomes a
// quarantine, so that a copy is left.
func TestSourceRetention(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1, "retention.ms", "3600000"), unique(t, "g")
		cl.produce(t, topic, 0, 0, 3, 0)
		cfg := cl.config(group, topic)
		cfg.QuarantineTopic = unique(t, "q")
		c, ev := start(t, cfg, func(_ context.Context, r Record) Outcome {
			switch r.Offset {
			case 0:
				return Retry(2 * time.Hour).Because(errors.New("later"))
			case 1:
				if r.Attempt == 1 {
					return Retry(time.Millisecond)
				}
			}
			return Done
		})
		eventually(t, "all is closed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 3 })
		q := ev.of(EventQuarantined)
		if len(q) != 1 || q[0].Offset != 0 || !strings.Contains(q[0].Detail, "retention removes the source") {
			t.Errorf("quarantined: %+v", q)
		}
	})
}

// TestProcessingDeadline: our own deadline ends the context and is a series of its
// own; a handler that ignores it for StuckAfter makes the member leave.
func TestProcessingDeadline(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 3, 0)
		cfg := cl.config(group, topic)
		cfg.Order, cfg.ProcessingDeadline, cfg.StuckAfter, cfg.DrainTimeout = OrderPartition, 300*time.Millisecond, time.Second, 100*time.Millisecond
		var cause atomic.Value
		release := make(chan struct{})
		c, ev := start(t, cfg, func(ctx context.Context, r Record) Outcome {
			switch {
			case r.Offset == 0 && r.Attempt == 1:
				<-ctx.Done()
				cause.Store(context.Cause(ctx).Error())
				return Retry(0)
			case r.Offset == 1:
				<-release // does not care
			}
			return Done
		})
		defer close(release)
		eventually(t, "the stuck handler ends the membership", func() bool { return errors.Is(c.Err(), ErrStuck) })
		if err := c.Wait(ctxOf(t)); !errors.Is(err, ErrStuck) {
			t.Errorf("Wait: %v", err)
		}
		if cause.Load() != ErrProcessingDeadline.Error() {
			t.Errorf("cause %v", cause.Load())
		}
		if ev.count(EventDeadline) < 1 || ev.count(EventStuck) < 1 {
			t.Error("deadline and stuck were not reported")
		}
		if at, _ := cl.committed(t, group, topic, 0); at != 1 {
			t.Errorf("committed %d, want 1", at)
		}
		var next atomic.Int64
		next.Store(-1)
		start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome {
			next.CompareAndSwap(-1, r.Offset)
			return Done
		})
		eventually(t, "another member goes on", func() bool { return next.Load() == 1 })
	})
}

// TestPanicIsARetry: a handler that panics takes nobody with it.
func TestPanicIsARetry(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	cl.produce(t, topic, 0, 0, 3, 0)
	c, ev := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome {
		if r.Offset == 1 && r.Attempt < 3 {
			panic("oops")
		}
		return Done
	})
	eventually(t, "all is closed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 3 })
	if ev.count(EventPanic) != 2 {
		t.Errorf("%d panics were reported", ev.count(EventPanic))
	}
}

// TestCompletionLine: the seed's log line, on one partition only.
func TestCompletionLine(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 2), unique(t, "g")
	cl.produce(t, topic, 0, 0, 13, 0)
	cl.produce(t, topic, 1, 0, 13, 0)
	var mu sync.Mutex
	var log bytes.Buffer
	cfg := cl.config(group, topic)
	cfg.Order = OrderNone
	cfg.Logger = slog.New(slog.NewTextHandler(&lockedWriter{mu: &mu, w: &log}, nil))
	cfg.LogCompletion = func(_ string, partition int32) bool { return partition == 0 }
	var s steps
	c, _ := start(t, cfg, func(ctx context.Context, r Record) Outcome {
		if r.Partition == 1 {
			return Done
		}
		return s.handle(ctx, r)
	})
	for o := range int64(13) {
		if o != 10 {
			s.finish(o)
		}
	}
	has := func(want string) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return strings.Contains(log.String(), want) }
	}
	eventually(t, "the line of the seed", has(`delivered=[10,11,12] completed={11,12} next=10`))
	if err := c.SetLogCompletion(ctxOf(t), topic, 0, false); err != nil {
		t.Fatal(err)
	}
	s.finish(10)
	eventually(t, "it is done", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Effect == 13 })
	if has("next=13")() || has("partition=1 ")() {
		t.Error("a line was written that is switched off")
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// TestDrainAndResume: a drained group has position = effect = committed and takes
// nothing in; Resume goes on.
func TestDrainAndResume(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 2), unique(t, "g")
		cl.produce(t, topic, 0, 0, 500, 10)
		cl.produce(t, topic, 1, 500, 500, 10)
		var got seen
		c, _ := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome {
			if r.Offset%50 == 0 && r.Attempt == 1 {
				return Retry(20 * time.Millisecond)
			}
			got.add(r.Value)
			return Done
		})
		eventually(t, "it is under way", func() bool { return got.distinct() > 100 })
		if err := c.Drain(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		n := got.distinct()
		lines, err := c.Line(ctxOf(t))
		for _, ln := range lines {
			if ln.Position != ln.Effect || ln.Effect != ln.Committed || ln.Queued+ln.Running+ln.RetryWait > 0 || ln.Paused != "drain" {
				t.Errorf("not drained: %+v (%v)", ln, err)
			}
		}
		cl.produce(t, topic, 0, 2000, 10, 0)
		s0, _ := c.Stats(ctxOf(t))
		eventually(t, "a second passes", func() bool {
			s, _ := c.Stats(ctxOf(t))
			return s.SincePoll > s0.SincePoll+time.Second || s.SincePoll < 0
		})
		if got.distinct() != n {
			t.Errorf("%d records were handled while drained", got.distinct()-n)
		}
		if err := c.Resume(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the rest is handled", func() bool { return got.distinct() == 1010 })
	})
}

// TestMetrics: every series has a value that was read, and no zero in place of
// one that was not.
func TestMetrics(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	cl.produce(t, topic, 0, 0, 7, 0)
	g := hold("6")
	defer g.free()
	c, _ := start(t, cl.config(group, topic), g.handle)
	eventually(t, "6 is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 6 })
	var b bytes.Buffer
	if err := c.WriteMetrics(ctxOf(t), &b); err != nil {
		t.Fatal(err)
	}
	labels := fmt.Sprintf("{group=%q,topic=%q,partition=\"0\"", group, topic)
	for _, want := range []string{
		"tidemark_committed_offset" + labels + "} 6\n", "tidemark_effect_watermark" + labels + "} 6\n",
		"tidemark_position" + labels + "} 7\n", "tidemark_log_end_offset" + labels + "} 7\n",
		"tidemark_inflight" + labels + ",stage=\"running\"} 1\n", "tidemark_oldest_inflight_age_seconds" + labels,
		fmt.Sprintf("tidemark_effects_total{group=%q,outcome=\"done\"} 6\n", group),
		fmt.Sprintf("tidemark_static_wait_seconds{group=%q} 0\n", group),
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing %q", want)
		}
	}
	if strings.Contains(b.String(), "tidemark_paused{") {
		t.Error("a partition that is not paused has a paused series")
	}
}
