package consumer

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/consumer/internal/commitplan"
)

// TestCommitOfAnOldGenerationIsNotSent: a snapshot that was taken for another
// member or generation never reaches the wire, whatever delayed it.
func TestCommitOfAnOldGenerationIsNotSent(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	w := watchCommits(fk)
	cl.produce(t, topic, 0, 0, 5, 0)
	c, _ := start(t, cl.config(group, topic), func(context.Context, Record) Outcome { return Done })
	eventually(t, "5 is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 5 })
	before, _ := c.Stats(ctxOf(t))
	w.drain()
	if err := c.onLoop(ctxOf(t), func(l *loop) {
		m := l.memberNow()
		l.sendCommit(l.order, commitplan.Member{ID: m.ID, Generation: m.Generation - 1}, nowMs())
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is put off", func() bool { s, _ := c.Stats(ctxOf(t)); return s.CommitsDeferred > before.CommitsDeferred })
	eventually(t, "the next one goes out", func() bool { s, _ := c.Stats(ctxOf(t)); return s.CommitsOK > before.CommitsOK })
	if sent := len(w.drain()); sent != 1 {
		t.Errorf("%d commits were sent, want the one of the present generation", sent)
	}
}

// TestCloseLeavesNothingBehind: no goroutine outlives Close.
func TestCloseLeavesNothingBehind(t *testing.T) {
	cl, _ := fake(t)
	topic := cl.topic(t, 2)
	cl.produce(t, topic, 0, 0, 500, 10)
	ignore := goleak.IgnoreCurrent()
	cfg := cl.config(unique(t, "g"), topic)
	cfg.QuarantineTopic = "q"
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got seen
	if err := c.Handle(func(_ context.Context, r Record) Outcome {
		got.add(r.Value)
		if r.Offset%100 == 0 { // its key stays in retry-wait
			return Retry(0)
		}
		return Done
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return got.distinct() > 50 })
	stop(t, c)
	// The in-process cluster keeps a goroutine or two a connection until it notices
	// the end; goleak waits for them.
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
}
