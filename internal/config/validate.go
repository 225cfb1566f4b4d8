package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Error says which setting was refused, why, and what was probably meant. The
// value of a sensitive setting is never in the text.
type Error struct {
	Key     string
	Value   string
	Reason  string
	Nearest string // a known key that Key resembles, or ""
	Origin  string // where the value came from ("server.properties line", "--set", ...), or ""
}

// Error puts the parts into one line: key, value, reason, nearest name.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Key)
	if e.Value != "" {
		b.WriteString("=" + e.Value)
	}
	b.WriteString(": " + e.Reason)
	if e.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %s?", e.Nearest)
	}
	if e.Origin != "" {
		fmt.Fprintf(&b, " (from %s)", e.Origin)
	}
	return b.String()
}

// Kafka hands anything behind these prefixes to plug-ins, unchecked.
var pluginPrefixes = []string{"rsm.config.", "rlmm.config.", "config.providers.", "metrics.reporter."}

// Validate checks one setting: that it exists, that the value has the type and
// keeps the limits. The error is an *Error. Rules between settings are checked
// by ValidateTopic, ValidateGroup and LoadServer.
func Validate(scope Scope, name, value string) error {
	k, ok := Lookup(scope, name)
	if !ok {
		if scope == ScopeBroker && slices.ContainsFunc(pluginPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			return nil
		}
		return unknown(scope, name)
	}
	if err := k.check(value); err != nil {
		shown := value
		if k.Sensitive {
			shown = "[hidden]"
		}
		return &Error{Key: name, Value: shown, Reason: err.Error()}
	}
	return nil
}

func unknown(scope Scope, name string) *Error {
	e := &Error{Key: name, Reason: "there is no such " + scope.String() + " setting", Nearest: Nearest(scope, name)}
	owner := ownerOf(scope, name)
	if owner == "" {
		return e
	}
	e.Reason += "; it is a " + owner + " setting"
	if near, ok := Lookup(scope, e.Nearest); ok && !slices.Contains(near.Synonyms, name) {
		e.Nearest = ""
	}
	if s := topicSynonyms[name]; scope == ScopeBroker && len(s) > 0 {
		e.Nearest = s[0].name
	}
	return e
}

func ownerOf(not Scope, name string) string {
	for _, s := range []Scope{ScopeTopic, ScopeBroker, ScopeGroup, ScopeClientMetrics} {
		if s == not {
			continue
		}
		if _, ok := tableOf(s).byName[name]; ok {
			return s.String()
		}
	}
	return ""
}

func (k Key) check(value string) error {
	if err := checkType(k.Type, value); err != nil {
		return err
	}
	if k.Validate != nil {
		return k.Validate(value)
	}
	return nil
}

// checkType follows ConfigDef.parseType: values are trimmed, booleans are
// case-insensitive, numbers are decimal and must fit.
func checkType(t Type, value string) error {
	v := trim(value)
	switch t {
	case TypeBool:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return errors.New("must be true or false")
		}
	case TypeShort:
		return checkInt(v, 16)
	case TypeInt:
		return checkInt(v, 32)
	case TypeLong:
		return checkInt(v, 64)
	case TypeDouble:
		if _, err := strconv.ParseFloat(v, 64); err != nil {
			return errors.New("must be a number")
		}
	}
	return nil
}

func checkInt(v string, bits int) error {
	_, err := strconv.ParseInt(v, 10, bits)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("does not fit in %d bits", bits)
	}
	if err != nil {
		return errors.New("must be a whole number")
	}
	return nil
}

func trim(s string) string { return strings.TrimSpace(s) }

// SplitList splits a list value as Kafka does: at commas, white space around
// them dropped; an empty value is an empty list.
func SplitList(v string) []string {
	v = trim(v)
	if v == "" {
		return nil
	}
	items := strings.Split(v, ",")
	for i := range items {
		items[i] = trim(items[i])
	}
	return items
}

// Nearest returns the known key of scope that looks most like name, or "" when
// none is close enough to be meant. Internal keys are not suggested.
func Nearest(scope Scope, name string) string {
	limit := max(2, len(name)/4)
	best, bestDistance := "", limit+1
	for _, k := range tableOf(scope).keys {
		if k.Internal {
			continue
		}
		if slices.Contains(k.Synonyms, name) && k.Name != name {
			return k.Name
		}
		if d := distance(name, k.Name, bestDistance); d < bestDistance {
			best, bestDistance = k.Name, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b, or bound when it is not below it.
func distance(a, b string, bound int) int {
	if len(a)-len(b) >= bound || len(b)-len(a) >= bound {
		return bound
	}
	prev, cur := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
		}
		prev, cur = cur, prev
	}
	return min(prev[len(b)], bound)
}

// ValidateTopic checks the overrides of one topic, each alone and then against
// each other and the broker's values (LogConfig.validate of Apache Kafka 4.3).
// brokerLayers may be empty.
func ValidateTopic(overrides map[string]string, brokerLayers ...Layer) error {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if err := Validate(ScopeTopic, name, overrides[name]); err != nil {
			return err
		}
	}
	r := Effective(ScopeTopic, append([]Layer{{Source: SourceTopic, Values: overrides}}, brokerLayers...)...)
	if low, high := r.Long("min.compaction.lag.ms"), r.Long("max.compaction.lag.ms"); low > high {
		return conflict(overrides, "min.compaction.lag.ms", fmt.Sprintf("is %d, more than max.compaction.lag.ms, which is %d", low, high))
	}
	if !r.Bool("remote.storage.enable") {
		return nil
	}
	return &Error{Key: "remote.storage.enable", Value: "true", Reason: "tiered storage is not served yet"}
}

func conflict(values map[string]string, key, reason string) *Error {
	return &Error{Key: key, Value: values[key], Reason: reason}
}

// groupBounds are the broker keys that bound a group key (GroupConfig.validate).
var groupBounds = []struct{ key, low, high string }{
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
}

// ValidateGroup checks the overrides of one group, each alone and then against
// the bounds that the broker sets.
func ValidateGroup(overrides map[string]string, brokerLayers ...Layer) error {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if err := Validate(ScopeGroup, name, overrides[name]); err != nil {
			return err
		}
	}
	broker := Effective(ScopeBroker, brokerLayers...)
	group := Effective(ScopeGroup, append([]Layer{{Source: SourceGroup, Values: overrides}}, brokerLayers...)...)
	for _, b := range groupBounds {
		if _, set := overrides[b.key]; !set {
			continue
		}
		v := group.Long(b.key)
		if b.low != "" && v < broker.Long(b.low) {
			return conflict(overrides, b.key, fmt.Sprintf("is less than %s, which is %d", b.low, broker.Long(b.low)))
		}
		if v > broker.Long(b.high) {
			return conflict(overrides, b.key, fmt.Sprintf("is more than %s, which is %d", b.high, broker.Long(b.high)))
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		beat, session := kind+".heartbeat.interval.ms", kind+".session.timeout.ms"
		if group.Long(beat) >= group.Long(session) {
			return conflict(overrides, session, fmt.Sprintf("must be more than %s, which is %d", beat, group.Long(beat)))
		}
	}
	return nil
}

// ValidateDynamicBroker checks one change of a broker setting at run time: that
// it exists, is not read-only, and is not set for the whole cluster when it
// belongs to one broker (DynamicBrokerConfig.validateConfigs). oneBroker is
// false for the cluster-wide default.
func ValidateDynamicBroker(name, value string, oneBroker bool) error {
	k, ok := Lookup(ScopeBroker, name)
	if ok && k.ReadOnly {
		return &Error{Key: name, Reason: "cannot be changed at run time; set it in the configuration file and restart"}
	}
	if ok && k.PerBroker && !oneBroker {
		return &Error{Key: name, Reason: "belongs to one broker; name the broker"}
	}
	return Validate(ScopeBroker, name, value)
}
