package assignor

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/types"
)

func topicID(n int) types.UUID { return types.UUID{0: byte(n), 15: 1} }

// drawn is a random group whose earlier assignment is perhaps stale.
func drawn(t *rapid.T, racks bool) Input {
	in := Input{Topics: map[types.UUID]Topic{}}
	topics := rapid.IntRange(1, 4).Draw(t, "topics")
	for i := range topics {
		in.Topics[topicID(i)] = Topic{ID: topicID(i), Partitions: rapid.Int32Range(1, 12).Draw(t, "partitions"), Racks: func(p int32) []string {
			return []string{fmt.Sprint("r", p%3)}
		}}
	}
	same := rapid.Bool().Draw(t, "same subscription")
	for i := range rapid.IntRange(1, 7).Draw(t, "members") {
		m := Member{ID: fmt.Sprint("m", i)}
		if racks {
			m.Rack = fmt.Sprint("r", i%3)
		}
		for j := range topics {
			if same || rapid.Bool().Draw(t, "subscribes") {
				m.Topics = append(m.Topics, topicID(j))
			}
		}
		in.Members = append(in.Members, m)
	}
	return in
}

func check(t *rapid.T, in Input, out []Assignment) {
	owners := map[unit]int{}
	for i, a := range out {
		for _, tp := range a {
			if !slices.Contains(in.Members[i].Topics, tp.TopicID) || !slices.IsSorted(tp.Partitions) {
				t.Fatalf("member %d has %v", i, tp)
			}
			for _, p := range tp.Partitions {
				if p < 0 || p >= in.Topics[tp.TopicID].Partitions {
					t.Fatalf("member %d has partition %d of %d", i, p, in.Topics[tp.TopicID].Partitions)
				}
				owners[unit{tp.TopicID, p}]++
			}
		}
	}
	for _, topic := range in.Topics {
		read := slices.ContainsFunc(in.Members, func(m Member) bool { return slices.Contains(m.Topics, topic.ID) })
		for p := range topic.Partitions {
			want := 0
			if read {
				want = 1
			}
			if owners[unit{topic.ID, p}] != want {
				t.Fatalf("partition %d of %v has %d owners", p, topic.ID, owners[unit{topic.ID, p}])
			}
		}
	}
}

func balanced(in Input, out []Assignment) error {
	for i := range out {
		for j := range out {
			if slices.Equal(in.Members[i].Topics, in.Members[j].Topics) && out[i].Count() > out[j].Count()+1 {
				return fmt.Errorf("members %d and %d have %d and %d", i, j, out[i].Count(), out[j].Count())
			}
			for _, t := range out[i] {
				if slices.Contains(in.Members[j].Topics, t.TopicID) && out[i].Count() > out[j].Count()+1 {
					return fmt.Errorf("a partition of member %d (%d) could go to member %d (%d)", i, out[i].Count(), j, out[j].Count())
				}
			}
		}
	}
	return nil
}

// TestKIP848_Uniform: complete, balanced, and again the same when nothing
// changed; a member that joins or leaves moves no more than it must.
func TestKIP848_Uniform(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t, rapid.Bool().Draw(t, "racks"))
		out := Uniform(in)
		check(t, in, out)
		if err := balanced(in, out); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			in.Members[i].Target = out[i]
		}
		again := Uniform(in)
		for i := range out {
			if !again[i].Equal(out[i]) {
				t.Fatalf("member %d: %v becomes %v without a reason", i, out[i], again[i])
			}
		}
		if in.homogeneous() {
			joins(t, in)
		}
	})
}

// joins adds a member to a group with equal subscriptions: it gets its share,
// and what it gets is all that moves.
func joins(t *rapid.T, in Input) {
	in.Members = append(slices.Clone(in.Members), Member{ID: "a new one", Topics: in.Members[0].Topics})
	out := Uniform(in)
	check(t, in, out)
	if err := balanced(in, out); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i, m := range in.Members[:len(in.Members)-1] {
		for _, tp := range out[i] {
			for _, p := range tp.Partitions {
				if !m.Target.Has(tp.TopicID, p) {
					t.Fatalf("member %d gets a partition because another one joins", i)
				}
			}
		}
		moved += m.Target.Count() - out[i].Count()
	}
	if moved != out[len(out)-1].Count() {
		t.Fatalf("%d partitions move, the new member gets %d", moved, out[len(out)-1].Count())
	}
}

func TestKIP848_UniformChain(t *testing.T) {
	// a and b share topic 0, b and c topic 1: only a chain through b levels them.
	a, b := topicID(0), topicID(1)
	in := Input{
		Topics: map[types.UUID]Topic{a: {ID: a, Partitions: 3}, b: {ID: b, Partitions: 1}},
		Members: []Member{
			{ID: "a", Topics: []types.UUID{a}, Target: Assignment{{a, []int32{0, 1, 2}}}},
			{ID: "b", Topics: []types.UUID{a, b}, Target: Assignment{{b, []int32{0}}}},
			{ID: "c", Topics: []types.UUID{b}},
		},
	}
	out := Uniform(in)
	if max(out[0].Count(), out[1].Count(), out[2].Count()) > 2 || out[2].Count() != 1 {
		t.Fatalf("%v", out)
	}
}

func TestUniformRacks(t *testing.T) {
	id := topicID(0)
	in := Input{Topics: map[types.UUID]Topic{id: {ID: id, Partitions: 6, Racks: func(p int32) []string { return []string{fmt.Sprint("r", p%3)} }}}}
	for i := range 3 {
		in.Members = append(in.Members, Member{ID: fmt.Sprint("m", i), Rack: fmt.Sprint("r", i), Topics: []types.UUID{id}})
	}
	for i, a := range Uniform(in) {
		if want := []int32{int32(i), int32(i) + 3}; !slices.Equal(a.Of(id), want) {
			t.Errorf("member %d in rack r%d has %v", i, i, a.Of(id))
		}
	}
}

func TestKIP848_Range(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t, false)
		check(t, in, Range(in))
	})
	a, b := topicID(0), topicID(1)
	in := Input{
		Topics: map[types.UUID]Topic{a: {ID: a, Partitions: 3}, b: {ID: b, Partitions: 3}},
		Members: []Member{
			{ID: "z", InstanceID: "i", Topics: []types.UUID{a, b}}, {ID: "b", Topics: []types.UUID{a, b}},
		},
	}
	out := Range(in)
	if fmt.Sprint(out[0].Of(a), out[0].Of(b), out[1].Of(a), out[1].Of(b)) != "[0 1] [0 1] [2] [2]" {
		t.Fatalf("%v", out)
	}
}

func BenchmarkUniformJoin(b *testing.B) {
	id := topicID(0)
	in := Input{Topics: map[types.UUID]Topic{id: {ID: id, Partitions: 10_000}}}
	for i := range 1000 {
		in.Members = append(in.Members, Member{ID: fmt.Sprintf("m%04d", i), Topics: []types.UUID{id}})
	}
	for i, a := range Uniform(in) {
		in.Members[i].Target = a
	}
	in.Members = append(in.Members, Member{ID: "new", Topics: []types.UUID{id}})
	for b.Loop() {
		Uniform(in)
	}
}
