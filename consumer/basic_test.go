package consumer

import (
	"context"
	"testing"

	"github.com/tidemark-io/tidemark/consumer/beacon"
)

// TestEveryRecordOnce: under every protocol, everything produced is handled once
// and the committed offset reaches the end with a readable beacon.
func TestEveryRecordOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		protocols(t, cl, func(t *testing.T, p Protocol) {
			topic, group := cl.topic(t, 2), unique(t, "g")
			for part := range int32(2) {
				cl.produce(t, topic, part, int(part)*100, 100, 7)
			}
			var got seen
			cfg := cl.config(group, topic)
			cfg.Protocol = p
			c, _ := start(t, cfg, func(_ context.Context, r Record) Outcome {
				got.add(r.Value)
				return Done
			})
			eventually(t, "all 200 are handled", func() bool { return got.distinct() == 200 })
			if err := c.Drain(ctxOf(t)); err != nil {
				t.Fatal(err)
			}
			for part := range int32(2) {
				at, text := cl.committed(t, group, topic, part)
				if at != 100 {
					t.Errorf("partition %d: committed %d, want 100", part, at)
				}
				b, err := beacon.Decode(text)
				if err != nil || b.Effect != 100 || b.Position != 100 || b.Generation < 1 || b.Since != 2 {
					t.Errorf("partition %d: beacon %q: %+v, %v", part, text, b, err)
				}
				ln, ok := lineOf(t, c, topic, part)
				if !ok || ln.LogStart != 0 || ln.Committed != 100 || ln.Effect != 100 || ln.Position != 100 || ln.LogEnd != 100 || ln.Paused != "drain" {
					t.Errorf("partition %d: line %+v", part, ln)
				}
			}
			if r := got.repeated(); len(r) > 0 {
				t.Errorf("handled more than once: %v", r)
			}
		})
	})
}
