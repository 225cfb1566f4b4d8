package apis

// Listener is the kind of listener a request came in on.
type Listener int8

// The two kinds: clients and other brokers speak to Broker listeners, brokers
// and voters speak to Controller listeners.
const (
	Broker Listener = iota
	Controller
)

// String returns "broker" or "controller".
func (l Listener) String() string {
	if l == Controller {
		return "controller"
	}
	return "broker"
}

// NeverFlexible is the FirstFlexible of an API without flexible versions.
const NeverFlexible int16 = 1<<15 - 1

// API is one row of the table.
type API struct {
	Key  int16
	Name string // as the protocol guide spells it, for example OffsetForLeaderEpoch
	// Min and Max are the versions that are served where the API is served.
	Min, Max int16
	// FirstFlexible is the first version with compact types and tags; from it
	// on the request header is version 2 and the response header version 1.
	FirstFlexible int16
	// Broker and Controller say on which listeners Apache Kafka serves it.
	Broker, Controller bool
	// Forward means that a broker passes it on to the active controller.
	Forward bool
	// Served means that this release serves it on some listener; see On.
	Served bool
	// AdvertisedMin is the minimum in the ApiVersions answer of a broker. It is
	// Min, except for Produce (0, KAFKA-18659).
	AdvertisedMin int16
	// Reason says why it is not served where Apache Kafka does; "" if it is.
	Reason string

	servedBroker, servedController bool
}

// On reports whether this release serves the API on listeners of kind l.
func (a API) On(l Listener) bool {
	if l == Controller {
		return a.servedController
	}
	return a.servedBroker
}

// Exists reports whether Apache Kafka serves the API on listeners of kind l.
func (a API) Exists(l Listener) bool {
	if l == Controller {
		return a.Controller
	}
	return a.Broker
}

// Supports reports whether version is in the served range.
func (a API) Supports(version int16) bool { return version >= a.Min && version <= a.Max }

// Flexible reports whether version has compact types and tags.
func (a API) Flexible(version int16) bool { return version >= a.FirstFlexible }

// Serves reports whether listeners of kind l answer a version of an API.
func Serves(l Listener, key, version int16) bool {
	a, ok := ByKey(key)
	return ok && a.On(l) && a.Supports(version)
}

// ByKey returns the row of a key; false for keys that Kafka 4.3 does not have,
// the removed ones (4 to 7) included.
func ByKey(key int16) (API, bool) {
	if key < 0 || int(key) >= len(index) || index[key] < 0 {
		return API{}, false
	}
	return table[index[key]], true
}

// All returns every row in order of keys.
func All() []API { return append([]API(nil), table...) }

// Advertised returns the rows that the ApiVersions answer of a listener lists,
// in order of keys, with Min set to what is advertised there.
func Advertised(l Listener) []API {
	var out []API
	for _, a := range table {
		if !a.On(l) {
			continue
		}
		if l == Broker {
			a.Min = a.AdvertisedMin
		}
		out = append(out, a)
	}
	return out
}

// index maps a key to its row in table, or -1.
var index = buildIndex()

func buildIndex() []int {
	idx := make([]int, table[len(table)-1].Key+1)
	for i := range idx {
		idx[i] = -1
	}
	for i, a := range table {
		idx[a.Key] = i
	}
	return idx
}
