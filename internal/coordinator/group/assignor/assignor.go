package assignor

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/types"
)

// Partitions is partitions of one topic, in ascending order.
type Partitions struct {
	TopicID    types.UUID
	Partitions []int32
}

// Assignment is what one member has or is to have: by topic id, ascending,
// topics without partitions left out. Assignments are shared and never changed.
type Assignment []Partitions

// Count returns the number of partitions.
func (a Assignment) Count() int {
	n := 0
	for _, t := range a {
		n += len(t.Partitions)
	}
	return n
}

// Of returns the partitions of one topic.
func (a Assignment) Of(topic types.UUID) []int32 {
	i, ok := slices.BinarySearchFunc(a, topic, func(p Partitions, id types.UUID) int { return CompareIDs(p.TopicID, id) })
	if !ok {
		return nil
	}
	return a[i].Partitions
}

// Has reports whether a partition is in the assignment.
func (a Assignment) Has(topic types.UUID, partition int32) bool {
	_, ok := slices.BinarySearch(a.Of(topic), partition)
	return ok
}

// Equal reports whether two assignments are the same.
func (a Assignment) Equal(b Assignment) bool {
	return slices.EqualFunc(a, b, func(x, y Partitions) bool {
		return x.TopicID == y.TopicID && slices.Equal(x.Partitions, y.Partitions)
	})
}

// CompareIDs orders topic ids.
func CompareIDs(a, b types.UUID) int { return bytes.Compare(a[:], b[:]) }

// Topic is a topic that members subscribe to.
type Topic struct {
	ID         types.UUID
	Partitions int32
	// Racks returns the racks of a partition's replicas; nil when no broker has
	// a rack.
	Racks func(partition int32) []string
}

// Member is one member of the group.
type Member struct {
	ID         string
	InstanceID string // "": dynamic
	Rack       string // "": not given
	// Topics are the ids of the topics that it subscribes to and that exist,
	// ascending.
	Topics []types.UUID
	// Target is what it was to have so far.
	Target Assignment
}

// Input is what an assignment is made from.
type Input struct {
	Members []Member // in any order; the result has the same
	Topics  map[types.UUID]Topic
}

// homogeneous reports whether all members subscribe to the same topics.
func (in *Input) homogeneous() bool {
	for i := range in.Members {
		if !slices.Equal(in.Members[i].Topics, in.Members[0].Topics) {
			return false
		}
	}
	return true
}

// Func computes the assignment of each member.
type Func func(in Input) []Assignment

// ByName returns an assignor of Kafka's names, uniform or range.
func ByName(name string) (Func, bool) {
	switch name {
	case "uniform":
		return Uniform, true
	case "range":
		return Range, true
	}
	return nil, false
}

// order returns member indexes as range hands out partitions: static members by
// instance id, then the others by member id.
func order(members []Member) []int {
	out := make([]int, len(members))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int {
		x, y := &members[a], &members[b]
		switch {
		case x.InstanceID != "" && y.InstanceID != "":
			return strings.Compare(x.InstanceID, y.InstanceID)
		case x.InstanceID != "":
			return -1
		case y.InstanceID != "":
			return 1
		}
		return strings.Compare(x.ID, y.ID)
	})
	return out
}

// Range gives each member a range of each topic's partitions, the first members
// one more where they do not divide evenly.
func Range(in Input) []Assignment {
	out := make([]Assignment, len(in.Members))
	subscribers := map[types.UUID]int{}
	for i := range in.Members {
		for _, t := range in.Members[i].Topics {
			subscribers[t]++
		}
	}
	type cursor struct{ next, extra int32 }
	at := map[types.UUID]*cursor{}
	for _, i := range order(in.Members) {
		for _, id := range in.Members[i].Topics {
			t, n := in.Topics[id], int32(subscribers[id])
			c := at[id]
			if c == nil {
				c = &cursor{extra: t.Partitions % n}
				at[id] = c
			}
			quota := t.Partitions / n
			if c.extra > 0 {
				quota++
				c.extra--
			}
			if quota == 0 {
				continue
			}
			ps := make([]int32, quota)
			for j := range ps {
				ps[j] = c.next
				c.next++
			}
			out[i] = append(out[i], Partitions{TopicID: id, Partitions: ps})
		}
	}
	return out
}
