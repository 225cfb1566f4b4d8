package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

func ptr(s string) *string { return &s }

// TestStripesKIP631 shows the pattern of the package's algorithm with nine
// brokers on three racks: racks rotate, and so do brokers within a rack.
func TestStripesKIP631(t *testing.T) {
	var brokers []Broker
	for i := range int32(9) {
		brokers = append(brokers, Broker{ID: i, Rack: ptr(string('a' + i/3))})
	}
	got, err := Place(Spec{Partitions: 9, ReplicationFactor: 3}, brokers, 1)
	if err != nil {
		t.Fatal(err)
	}
	leaders := map[int32]int{}
	for _, replicas := range got {
		racks := map[int32]bool{}
		for _, r := range replicas {
			racks[r/3] = true
		}
		if len(racks) != 3 {
			t.Errorf("%v does not span three racks", replicas)
		}
		leaders[replicas[0]/3]++
	}
	if want := map[int32]int{0: 3, 1: 3, 2: 3}; !cmp.Equal(leaders, want) {
		t.Errorf("leaders by rack %v, want %v", leaders, want)
	}
	again, _ := Place(Spec{Partitions: 9, ReplicationFactor: 3}, brokers, 1)
	if d := cmp.Diff(got, again); d != "" {
		t.Errorf("the same seed placed differently:\n%s", d)
	}
}

func TestErrors(t *testing.T) {
	one := []Broker{{ID: 1}}
	for _, c := range []struct {
		spec    Spec
		brokers []Broker
		want    string
	}{
		{Spec{1, 0}, one, "must be positive"},
		{Spec{1, 2}, one, "of 2 cannot be reached because only 1 broker(s) are registered"},
		{Spec{1, 1}, []Broker{{ID: 1, Fenced: true}}, "All brokers are currently fenced"},
		{Spec{1, 1}, nil, "All brokers are currently fenced"},
	} {
		_, err := Place(c.spec, c.brokers, 0)
		if kerrors.CodeOf(err) != kerrors.InvalidReplicationFactor || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v: %v, want INVALID_REPLICATION_FACTOR %q", c.spec, err, c.want)
		}
	}
}

// TestPlaceProperties: no broker twice, the leader unfenced.
func TestPlaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "brokers")
		racks := rapid.IntRange(0, 4).Draw(t, "racks")
		var brokers []Broker
		unfenced := map[int32]bool{}
		for i := range n {
			b := Broker{ID: int32(i), Fenced: i > 0 && rapid.Bool().Draw(t, "fenced")}
			if racks > 0 {
				b.Rack = ptr(fmt.Sprint(rapid.IntRange(1, racks).Draw(t, "rack")))
			}
			unfenced[b.ID] = !b.Fenced
			brokers = append(brokers, b)
		}
		rf := rapid.IntRange(1, n).Draw(t, "rf")
		parts := rapid.IntRange(1, 60).Draw(t, "partitions")
		got, err := Place(Spec{parts, int16(rf)}, brokers, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		for _, replicas := range got {
			if len(replicas) != rf {
				t.Fatalf("%v: %d replicas, want %d", replicas, len(replicas), rf)
			}
			if !unfenced[replicas[0]] {
				t.Fatalf("%v: leader is fenced", replicas)
			}
			sorted := slices.Clone(replicas)
			slices.Sort(sorted)
			if len(slices.Compact(sorted)) != rf {
				t.Fatalf("%v: a broker appears twice", replicas)
			}
		}
	})
}
