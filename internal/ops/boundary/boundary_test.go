package boundary

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-io/tidemark/internal/types"
)

func TestAbsentIsNotZero(t *testing.T) {
	var none Offset
	if _, ok := none.Get(); ok || none.String() != "?" || none.Present() {
		t.Errorf("the zero value is %v", none)
	}
	if _, ok := At(5).Minus(none); ok {
		t.Error("a difference to an absent offset")
	}
	if n, ok := At(5).Minus(At(0)); n != 5 || !ok {
		t.Errorf("5 - 0 = %d %v", n, ok)
	}
	b, err := json.Marshal([]Offset{At(0), none})
	if err != nil || string(b) != "[0,null]" {
		t.Errorf("%s %v", b, err)
	}
	var back []Offset
	if err := json.Unmarshal(b, &back); err != nil || back[0] != At(0) || back[1] != none {
		t.Errorf("%v %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["x"]`), &back); err == nil {
		t.Error("a text was taken for an offset")
	}
	if none.Or(At(3)) != At(3) || At(1).Or(At(3)) != At(1) {
		t.Error("Or")
	}
}

func TestCompare(t *testing.T) {
	id := types.UUID{1}
	at := func(partition int32, next Offset, epoch int32) Point {
		return Point{Topic: "orders", TopicID: id, Partition: partition, Next: next, LeaderEpoch: epoch}
	}
	again := at(1, At(101), -1)
	again.TopicID = types.UUID{2}
	for _, c := range []struct {
		name string
		p, q Point
		want Relation
	}{
		// The seed: P1 offset 101 and P4 offset 0 have no order.
		{"other partition", at(1, At(101), 3), at(4, At(0), 3), Unrelated},
		{"topic made again", at(1, At(101), -1), again, Unrelated},
		{"same", at(1, At(101), 3), at(1, At(101), 3), Same},
		{"same, epoch unknown", at(1, At(101), -1), at(1, At(101), 3), Same},
		{"before", at(1, At(100), 3), at(1, At(101), 3), Before},
		{"after a new leader", at(1, At(102), 4), at(1, At(101), 3), After},
		{"absent", at(1, Offset{}, 3), at(1, At(101), 3), Unknown},
		{"truncated, same offset", at(1, At(101), 4), at(1, At(101), 3), Diverged},
		{"truncated, older epoch reaches further", at(1, At(110), 3), at(1, At(101), 4), Diverged},
	} {
		if got := c.p.Compare(c.q); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestBoundary(t *testing.T) {
	b := Boundary{Points: []Point{{Topic: "b", Partition: 1}, {Topic: "b", Partition: 0}, {Topic: "a", Partition: 7, Next: At(3)}}}
	b.Sort()
	if b.Points[0].Topic != "a" || b.Points[1].Partition != 0 {
		t.Errorf("%v", b.Points)
	}
	if p, ok := b.Of("a", 7); !ok || p.Next != At(3) {
		t.Errorf("%v %v", p, ok)
	}
	if _, ok := b.Of("a", 8); ok {
		t.Error("a point that is not there")
	}
}
