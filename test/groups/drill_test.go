package groups

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/ops/drill"
)

// TestDrill rehearses a rebalance in all three protocols. Seed 004: with KIP-848
// a partition that does not move is stopped 0 s, and so it is with cooperative.
func TestDrill(t *testing.T) {
	t.Parallel()
	eachPeer(t, func(t *testing.T, p peer) {
		o := drill.Defaults()
		o.Bootstrap = []string{p.bootstrap}
		o.Members, o.Partitions = 3, 9
		o.Session, o.Heartbeat, o.Settle = 6*time.Second, 500*time.Millisecond, time.Second
		o.Progress = t.Logf
		ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
		defer cancel()
		res, err := drill.Rebalance(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, proto := range res.Protocols {
			checkDrill(t, o, proto)
		}
	})
}

func checkDrill(t *testing.T, o drill.Options, p drill.ProtocolResult) {
	t.Helper()
	if p.Unsupported || p.Missed > 0 || p.ProduceErrors > 0 || p.Produced == 0 {
		t.Errorf("%s: unsupported %v, %d of %d records missed, %d not acknowledged", p.Protocol, p.Unsupported, p.Missed, p.Produced, p.ProduceErrors)
	}
	if p.Protocol == drill.Consumer && (len(p.Notes) > 0 || p.SessionMs != o.Session.Milliseconds()) {
		t.Errorf("group settings: session timeout %d ms, %v", p.SessionMs, p.Notes)
	}
	for _, e := range p.Events {
		if !e.Settled || e.Commits.Accepted == 0 {
			t.Errorf("%s %s: settled %v, %d commits", p.Protocol, e.Event, e.Settled, e.Commits.Accepted)
		}
		if p.Protocol != drill.Eager && e.KeptStopped > 0 {
			t.Errorf("%s %s: %d partitions stopped that did not move: %+v", p.Protocol, e.Event, e.KeptStopped, e.Stops)
		}
	}
}
