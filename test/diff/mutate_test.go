package diff

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// untouched fields would make a request wait, or cost too much, or leave the run.
var untouched = []string{
	"Version", "UnknownTags", "MaxWaitMillis", "TimeoutMillis", "Records", "ValidateOnly", "AllowAutoTopicCreation", "TopicID",
	"ReplicaState", "ClusterID", "ReplicaDirectoryID", "HighWatermark", "ResourceType", "ResourceName", "Topic", "Group", "RetentionTimeMillis", "Acks",
	"ResourceTypes", "FeatureUpdates", "TransactionID", "TransactionalID", "InstanceID", "Rack", "IsolationLevel", "CoordinatorType", "Groups", "ReplicaID",
	"Op", "LeaderEpoch", "Cursor",
}

// mutated changes n leaves of a step's request: an integer to the edge of its
// range, a string to an odd one, an array to none, or with an element twice.
func mutated(st step, seed uint64, n int) step {
	build := st.build
	st.what += " (mutated)"
	st.build = func(s *side) kmsg.Request {
		req := resent(s, build(s))
		if req.Key() == int16(kmsg.Produce) { // damage and plan do that, without naming a partition twice
			return req
		}
		rng := rand.New(rand.NewPCG(seed, 4))
		for range n {
			var leaves []leafRef
			collect(reflect.ValueOf(req).Elem(), "", &leaves)
			if len(leaves) > 0 {
				leaves[rng.IntN(len(leaves))].change(s, rng)
			}
		}
		return req
	}
	return st
}

// resent returns a copy of a request with the fields of its version, sharing
// nothing with the step that made it.
func resent(s *side, req kmsg.Request) kmsg.Request {
	out := kmsg.RequestForKey(req.Key())
	out.SetVersion(req.GetVersion())
	if err := out.ReadFrom(req.AppendTo(nil)); err != nil {
		s.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return out
}

// leafRef is a field of a request that can be changed.
type leafRef struct {
	v    reflect.Value
	name string
}

func collect(v reflect.Value, name string, out *[]leafRef) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && !slices.Contains(untouched, f.Name) {
				collect(v.Field(i), f.Name, out)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		*out = append(*out, leafRef{v, name})
		for i := range v.Len() {
			collect(v.Index(i), name, out)
		}
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String {
			*out = append(*out, leafRef{v, name})
		} else if !v.IsNil() {
			collect(v.Elem(), name, out)
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.String, reflect.Bool:
		*out = append(*out, leafRef{v, name})
	}
}

func (l leafRef) change(s *side, rng *rand.Rand) {
	edges := []int64{-2, -1, 0, 1, 2, 3, 7, 127, math.MaxInt16, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}
	odd := []string{"", s.run + "nope", ".", "..", "a b", long(250), "é", "a\x00b"}
	switch l.v.Kind() {
	case reflect.Bool:
		l.v.SetBool(!l.v.Bool())
	case reflect.String:
		l.v.SetString(odd[rng.IntN(len(odd))])
	case reflect.Pointer:
		if i := rng.IntN(len(odd) + 1); i < len(odd) {
			l.v.Set(reflect.ValueOf(&odd[i]))
		} else {
			l.v.SetZero()
		}
	case reflect.Slice:
		shape := rng.IntN(3)
		if l.name == "Partitions" { // nobody names a topic without partitions, and each API answers that in its own way
			shape = 2
		}
		switch shape {
		case 0:
			l.v.Set(reflect.MakeSlice(l.v.Type(), 0, 0))
		case 1:
			l.v.SetZero()
		default:
			// Kafka never answers AlterConfigs that names a resource twice (it fails
			// while it counts the errors of its answer).
			_, silent := l.v.Interface().([]kmsg.AlterConfigsRequestResource)
			if l.v.Len() > 0 && !silent && !strings.HasPrefix(l.v.Type().Elem().Name(), "ProduceRequest") &&
				!strings.HasPrefix(l.v.Type().Elem().Name(), "Offset") {
				l.v.Set(reflect.Append(l.v, l.v.Index(rng.IntN(l.v.Len()))))
			}
		}
	default:
		e := edges[rng.IntN(len(edges))]
		if l.name == "NumPartitions" || l.name == "Count" {
			e = min(max(e, -5), 9)
		}
		if l.v.OverflowInt(e) {
			e = int64(rng.IntN(5)) - 2
		}
		l.v.SetInt(e)
	}
}
