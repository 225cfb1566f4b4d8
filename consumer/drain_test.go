package consumer

import (
	"context"
	"testing"
)

// TestDrainBetweenPolls: a Drain may come when the records of one poll are taken and
// the next poll has not begun. That one finds everything paused and waits for nothing
// that will ever come, so it must not be waited for.
func TestDrainBetweenPolls(t *testing.T) {
	cl, _ := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	handled := make(chan struct{}, 1)
	c, _ := start(t, cl.config(group, topic), func(context.Context, Record) Outcome { handled <- struct{}{}; return Done })
	for i := range 20 {
		cl.produce(t, topic, 0, i, 1, 0)
		<-handled
		ctx, cancel := context.WithTimeout(ctxOf(t), patience)
		err := c.Drain(ctx)
		if cancel(); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if err := c.Resume(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInterruptBetweenPolls: what interrupts a poll also interrupts the one that is
// about to begin, once.
func TestInterruptBetweenPolls(t *testing.T) {
	l := newLoop(&Consumer{cfg: Config{Concurrency: 1, TotalRecords: 1000, PartitionRecords: 10}}, nil)
	began := func() (ended bool) {
		l.beginPoll(func() { ended = true })
		return ended
	}
	taken := func() { l.intake(polled{taken: make(chan seeks, 1)}, nowMs()) }
	l.interruptPoll()
	if !began() {
		t.Error("the first poll was not interrupted")
	}
	taken()
	if began() {
		t.Error("one interruption ended two polls")
	}
	taken()
	l.interruptPoll() // a Drain or a seek between two polls
	if !began() {
		t.Error("a poll that began after the interruption waits")
	}
}
