package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestKill kills the server thirty times under load: every acknowledged record
// is there once, in order (reliability rows P1 and P3).
func TestKill(t *testing.T) {
	kills := 30
	if testing.Short() {
		kills = 5
	}
	const topic, partitions = "kill", int32(3)
	s := testkit.StartServer(t, "")
	newTopic(t, s.Bootstrap(), topic, partitions)
	l := newLedger()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- writer(ctx, s.Bootstrap(), topic, partitions, l) }()
	var restarts []time.Duration
	for i := range kills {
		waitForAcks(t, l, l.count()+200)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // a random moment, not a wait for a condition
		s.Kill()
		begin, before := time.Now(), l.count()
		s.Start()
		waitForAcks(t, l, before+1)
		took := time.Since(begin)
		restarts = append(restarts, took)
		t.Logf("kill %d: %v, acknowledging again after %v", i+1, l, took.Round(time.Millisecond))
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("the producer did not finish: %v", err)
	}
	l.check(t, readAll(t, s.Bootstrap(), topic, partitions))
	slices.Sort(restarts)
	t.Logf("%d kills, %v, restart to the next ack: median %v, slowest %v", kills, l,
		restarts[len(restarts)/2].Round(time.Millisecond), restarts[len(restarts)-1].Round(time.Millisecond))
}

// waitForAcks waits until the ledger holds n acknowledgements.
func waitForAcks(t *testing.T, l *ledger, n int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for l.count() < n {
		if time.Now().After(deadline) {
			t.Fatalf("%v after %v, waiting for %d", l, patience, n)
		}
		time.Sleep(time.Millisecond)
	}
}
