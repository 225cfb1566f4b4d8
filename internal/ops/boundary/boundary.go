package boundary

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidemark-io/tidemark/internal/types"
)

// Offset is an offset, or the absence of one: a reading that failed, or that
// there is none. The zero value is absent.
type Offset struct {
	value int64
	ok    bool
}

// At is the offset v.
func At(v int64) Offset { return Offset{value: v, ok: true} }

// Get returns the offset; ok is false when it is absent.
func (o Offset) Get() (v int64, ok bool) { return o.value, o.ok }

// Present reports whether there is an offset.
func (o Offset) Present() bool { return o.ok }

// Or returns o, or other when o is absent.
func (o Offset) Or(other Offset) Offset {
	if o.ok {
		return o
	}
	return other
}

// Minus returns how far o is above other; ok is false when either is absent.
func (o Offset) Minus(other Offset) (n int64, ok bool) {
	return o.value - other.value, o.ok && other.ok
}

// String prints the offset, "?" when it is absent.
func (o Offset) String() string {
	if !o.ok {
		return "?"
	}
	return strconv.FormatInt(o.value, 10)
}

// MarshalJSON writes the offset as a number, or null.
func (o Offset) MarshalJSON() ([]byte, error) {
	if !o.ok {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, o.value, 10), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (o *Offset) UnmarshalJSON(b []byte) error {
	var v *int64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*o = Offset{}
	if v != nil {
		*o = At(*v)
	}
	return nil
}

// Point is a place in one partition.
type Point struct {
	Topic string `json:"topic"`
	// TopicID is zero when the cluster did not tell: then the name has to do.
	TopicID   types.UUID `json:"-"`
	Partition int32      `json:"partition"`
	// Next is the first offset that is not before the point.
	Next Offset `json:"next"`
	// LeaderEpoch is the epoch of the record before Next, -1 when unknown.
	LeaderEpoch int32 `json:"leader_epoch"`
}

// Relation is how two points stand to each other.
type Relation string

// Relations.
const (
	Same   Relation = "same"
	Before Relation = "before"
	After  Relation = "after"
	// Unrelated: other partitions, or a topic that was deleted and made again.
	Unrelated Relation = "unrelated"
	// Unknown: an offset is absent.
	Unknown Relation = "unknown"
	// Diverged: the same offset under different leader epochs, which means that
	// one of the two was read from a log that was truncated since.
	Diverged Relation = "diverged"
)

// Compare says how p stands to q.
func (p Point) Compare(q Point) Relation {
	if p.Partition != q.Partition || p.Topic != q.Topic {
		return Unrelated
	}
	if !p.TopicID.IsZero() && !q.TopicID.IsZero() && p.TopicID != q.TopicID {
		return Unrelated
	}
	n, ok := p.Next.Minus(q.Next)
	epochs := p.LeaderEpoch >= 0 && q.LeaderEpoch >= 0
	switch {
	case !ok:
		return Unknown
	case n == 0 && epochs && p.LeaderEpoch != q.LeaderEpoch:
		return Diverged
	case n == 0:
		return Same
	// A later offset of an older epoch cannot be in the same log.
	case epochs && (n > 0) != (p.LeaderEpoch >= q.LeaderEpoch) && p.LeaderEpoch != q.LeaderEpoch:
		return Diverged
	case n < 0:
		return Before
	}
	return After
}

// Boundary is a place in each of several partitions.
type Boundary struct {
	// AtMs is the clock of the tool at the end of the reading, in Unix ms.
	AtMs   int64   `json:"at_ms"`
	Points []Point `json:"points"`
}

// Sort orders the points by topic and partition.
func (b *Boundary) Sort() {
	slices.SortFunc(b.Points, func(x, y Point) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
}

// Of returns the point of a partition.
func (b Boundary) Of(topic string, partition int32) (Point, bool) {
	for _, p := range b.Points {
		if p.Topic == topic && p.Partition == partition {
			return p, true
		}
	}
	return Point{}, false
}
