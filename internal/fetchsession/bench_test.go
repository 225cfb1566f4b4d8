package fetchsession

import (
	"testing"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// BenchmarkIncremental measures a fetch of a session of 1,000 partitions of which
// one has something new.
func BenchmarkIncremental(b *testing.B) {
	c := newCache(10)
	first := Request{Version: 12}
	for p := range int32(1000) {
		first.Partitions = append(first.Partitions, asking(byName("t", p))...)
	}
	x, code := c.Begin(first)
	if code != kerrors.None {
		b.Fatal(code)
	}
	answers := make([]Answer, 0, 1000)
	for _, p := range x.Partitions() {
		answers = append(answers, answer(p.TP, 0, 0))
	}
	id, _, code := x.Filter(0, answers)
	if code != kerrors.None || id == 0 {
		b.Fatal(id, code)
	}
	b.ReportAllocs()
	epoch := int32(1)
	for b.Loop() {
		x, code := c.Begin(Request{Version: 12, SessionID: id, Epoch: epoch})
		if code != kerrors.None {
			b.Fatal(code)
		}
		answers = answers[:0]
		for i, p := range x.Partitions() {
			answers = append(answers, answer(p.TP, 0, 0))
			if i == int(epoch)%1000 {
				answers[i].RecordsBytes = 100
			}
		}
		if _, listed, code := x.Filter(0, answers); code != kerrors.None || len(listed) == 0 {
			b.Fatal(code)
		}
		epoch = nextEpoch(epoch)
	}
}
