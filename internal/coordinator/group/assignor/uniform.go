package assignor

import (
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/types"
)

// unit is one partition.
type unit struct {
	topic     types.UUID
	partition int32
}

// builder is an assignment in the making. Members are numbered in the order of
// their ids, so that the result does not depend on the order of the input.
type builder struct {
	in      Input
	order   []int                // member numbers -> index in in.Members
	has     []map[unit]struct{}  // by member number
	owner   map[unit]int         // member number
	free    []unit               // without an owner, in order
	readers map[types.UUID][]int // member numbers, by topic
	racks   map[types.UUID]bool  // topics whose partitions know racks
}

// Uniform spreads the partitions evenly and moves as few as it can.
func Uniform(in Input) []Assignment {
	if len(in.Members) == 0 {
		return nil
	}
	b := newBuilder(in)
	if in.homogeneous() {
		b.shed()
		b.fill()
	} else {
		b.place()
		b.level()
	}
	return b.result()
}

func newBuilder(in Input) *builder {
	b := &builder{in: in, owner: map[unit]int{}, readers: map[types.UUID][]int{}, racks: map[types.UUID]bool{}}
	b.order = make([]int, len(in.Members))
	for i := range b.order {
		b.order[i] = i
	}
	slices.SortFunc(b.order, func(x, y int) int { return strings.Compare(in.Members[x].ID, in.Members[y].ID) })
	b.has = make([]map[unit]struct{}, len(b.order))
	var topics []types.UUID
	for n, i := range b.order {
		b.has[n] = map[unit]struct{}{}
		for _, t := range in.Members[i].Topics {
			if b.readers[t] == nil {
				topics = append(topics, t)
				b.racks[t] = in.Topics[t].Racks != nil
			}
			b.readers[t] = append(b.readers[t], n)
		}
	}
	slices.SortFunc(topics, CompareIDs)
	for n := range b.order {
		b.keep(n)
	}
	for _, t := range topics {
		for p := range in.Topics[t].Partitions {
			if _, ok := b.owner[unit{t, p}]; !ok {
				b.free = append(b.free, unit{t, p})
			}
		}
	}
	return b
}

func (b *builder) member(n int) *Member { return &b.in.Members[b.order[n]] }

// keep starts with what a member has and may still have.
func (b *builder) keep(n int) {
	m := b.member(n)
	for _, t := range m.Target {
		if _, ok := slices.BinarySearchFunc(m.Topics, t.TopicID, CompareIDs); !ok {
			continue
		}
		for _, p := range t.Partitions {
			u := unit{t.TopicID, p}
			if _, taken := b.owner[u]; !taken && p < b.in.Topics[t.TopicID].Partitions {
				b.give(n, u)
			}
		}
	}
}

func (b *builder) give(n int, u unit) {
	b.has[n][u] = struct{}{}
	b.owner[u] = n
}

func (b *builder) take(n int, u unit) {
	delete(b.has[n], u)
	delete(b.owner, u)
}

// near reports whether a member is in a rack of one of the partition's replicas.
// Without racks on one side, everything is.
func (b *builder) near(n int, u unit) bool {
	rack := b.member(n).Rack
	return rack == "" || !b.racks[u.topic] || slices.Contains(b.in.Topics[u.topic].Racks(u.partition), rack)
}

// shed takes from members of a group with equal subscriptions what is above
// their quota. Members that have one more than the others keep it first.
func (b *builder) shed() {
	total := len(b.owner) + len(b.free)
	quota, extra := total/len(b.has), total%len(b.has)
	for n := range b.has {
		limit := quota
		if len(b.has[n]) > quota && extra > 0 {
			limit++
			extra--
		}
		if over := len(b.has[n]) - limit; over > 0 {
			for _, u := range b.leastWanted(n)[:over] {
				b.take(n, u)
				b.free = append(b.free, u)
			}
		}
	}
	slices.SortFunc(b.free, compareUnits)
}

// leastWanted orders what a member has by what it should give up first: what is
// far away, then the last partitions.
func (b *builder) leastWanted(n int) []unit {
	out := make([]unit, 0, len(b.has[n]))
	for u := range b.has[n] {
		out = append(out, u)
	}
	slices.SortFunc(out, func(x, y unit) int {
		if nx, ny := b.near(n, x), b.near(n, y); nx != ny {
			if ny {
				return -1
			}
			return 1
		}
		return compareUnits(y, x)
	})
	return out
}

func compareUnits(a, b unit) int {
	if c := CompareIDs(a.topic, b.topic); c != 0 {
		return c
	}
	return int(a.partition) - int(b.partition)
}

// fill gives what is free to members below their quota, near ones first.
func (b *builder) fill() {
	total := len(b.owner) + len(b.free)
	quota, extra := total/len(b.has), total%len(b.has)
	for n := range b.has {
		if len(b.has[n]) > quota {
			extra--
		}
	}
	room := make([]int, len(b.has))
	for n := range b.has {
		room[n] = max(0, quota-len(b.has[n]))
		if len(b.has[n]) <= quota && extra > 0 {
			room[n]++
			extra--
		}
	}
	b.fillNear(room)
	n := 0
	for _, u := range b.free {
		for room[n] == 0 {
			n++
		}
		b.give(n, u)
		room[n]--
	}
	b.free = nil
}

// fillNear gives free partitions to members in their racks. It does nothing
// when no member tells its rack.
func (b *builder) fillNear(room []int) {
	byRack := map[string][]int{}
	for n := range b.has {
		if r := b.member(n).Rack; r != "" && room[n] > 0 {
			byRack[r] = append(byRack[r], n)
		}
	}
	if len(byRack) == 0 {
		return
	}
	b.free = slices.DeleteFunc(b.free, func(u unit) bool {
		if !b.racks[u.topic] {
			return false
		}
		for _, r := range b.in.Topics[u.topic].Racks(u.partition) {
			for len(byRack[r]) > 0 && room[byRack[r][0]] == 0 {
				byRack[r] = byRack[r][1:]
			}
			if len(byRack[r]) > 0 {
				n := byRack[r][0]
				b.give(n, u)
				room[n]--
				return true
			}
		}
		return false
	})
}

// place gives each free partition to the reader that has least; near ones first
// among equals.
func (b *builder) place() {
	for _, u := range b.free {
		best := -1
		for _, n := range b.readers[u.topic] {
			switch {
			case best < 0, len(b.has[n]) < len(b.has[best]),
				len(b.has[n]) == len(b.has[best]) && b.near(n, u) && !b.near(best, u):
				best = n
			}
		}
		b.give(best, u)
	}
	b.free = nil
}

// level moves partitions along chains of members until no chain leads from a
// member to one that has at least two less: then the loads are as equal as the
// subscriptions allow.
func (b *builder) level() {
	for {
		byLoad := make([]int, len(b.has))
		for n := range byLoad {
			byLoad[n] = n
		}
		slices.SortStableFunc(byLoad, func(x, y int) int { return len(b.has[y]) - len(b.has[x]) })
		moved := false
		for _, n := range byLoad {
			for b.shift(n) {
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// step is how a chain reached a member: from whom, with which partition.
type step struct {
	from int
	u    unit
}

// shift moves one partition each along the shortest chain from member n to one
// that has at least two less.
func (b *builder) shift(n int) bool {
	came := map[int]step{n: {from: -1}}
	seen := map[types.UUID]bool{}
	queue := []int{n}
	for len(queue) > 0 {
		m := queue[0]
		queue = queue[1:]
		for _, u := range b.leastWanted(m) {
			if seen[u.topic] {
				continue
			}
			seen[u.topic] = true
			for _, r := range b.readers[u.topic] {
				if _, ok := came[r]; ok {
					continue
				}
				came[r] = step{m, u}
				if len(b.has[r])+2 <= len(b.has[n]) {
					b.follow(came, r)
					return true
				}
				queue = append(queue, r)
			}
		}
	}
	return false
}

func (b *builder) follow(came map[int]step, to int) {
	for s := came[to]; s.from >= 0; s = came[to] {
		b.take(s.from, s.u)
		b.give(to, s.u)
		to = s.from
	}
}

func (b *builder) result() []Assignment {
	out := make([]Assignment, len(b.has))
	for n, units := range b.has {
		sorted := make([]unit, 0, len(units))
		for u := range units {
			sorted = append(sorted, u)
		}
		slices.SortFunc(sorted, compareUnits)
		var a Assignment
		for _, u := range sorted {
			if len(a) == 0 || a[len(a)-1].TopicID != u.topic {
				a = append(a, Partitions{TopicID: u.topic})
			}
			last := &a[len(a)-1]
			last.Partitions = append(last.Partitions, u.partition)
		}
		// What did not change stays the same value, so that it is cheap to see.
		if old := b.member(n).Target; a.Equal(old) {
			a = old
		}
		out[b.order[n]] = a
	}
	return out
}
