package config

import (
	"slices"
	"strconv"
	"strings"
)

// Layer is the values of one source. Names are those of the source's own
// scope: a topic layer has topic keys, broker layers have broker keys.
type Layer struct {
	Source Source
	Values map[string]string
}

// Entry is a value with the name and layer it was found under.
type Entry struct {
	Name   string
	Value  string
	Source Source
}

// Resolved answers, for every key of a scope, which value is in force and where
// it came from. It holds the layers it was given; they must not change. It is
// safe for concurrent use.
type Resolved struct {
	scope  Scope
	layers []Layer // highest precedence first
}

// precedence of the sources, highest first; the scope's own layer comes before
// all broker layers (kafka-surface 2.18).
var precedence = []Source{
	SourceTopic, SourceGroup, SourceClientMetrics,
	SourceDynamicBroker, SourceDynamicDefaultBroker, SourceStatic,
}

// Effective stacks layers for a scope. Their order does not matter: precedence
// is by source (dynamic broker over dynamic cluster default over static over
// default; a topic's or group's own over all).
func Effective(scope Scope, layers ...Layer) Resolved {
	sorted := slices.Clone(layers)
	slices.SortStableFunc(sorted, func(a, b Layer) int {
		return slices.Index(precedence, a.Source) - slices.Index(precedence, b.Source)
	})
	return Resolved{scope: scope, layers: sorted}
}

func (s Source) ofBroker() bool {
	return s == SourceDynamicBroker || s == SourceDynamicDefaultBroker || s == SourceStatic
}

// brokerValue is the value of one broker key: the layers, then its default.
func (r Resolved) brokerValue(name string) (string, bool) {
	for _, l := range r.layers {
		if v, ok := l.Values[name]; ok && l.Source.ofBroker() {
			return v, true
		}
	}
	if k, ok := Lookup(ScopeBroker, name); ok && k.Default != nil {
		return *k.Default, true
	}
	return "", false
}

func (r Resolved) own(name string) (Entry, bool) {
	for _, l := range r.layers {
		if v, ok := l.Values[name]; ok && !l.Source.ofBroker() {
			return Entry{Name: name, Value: v, Source: l.Source}, true
		}
	}
	return Entry{}, false
}

// Lookup returns the value in force, and false when there is none (no layer has
// one and the key has no default).
func (r Resolved) Lookup(name string) (string, bool) {
	if r.scope == ScopeBroker {
		return r.brokerValue(name)
	}
	if e, ok := r.own(name); ok {
		return e.Value, true
	}
	for _, s := range topicSynonyms[name] {
		if r.scope != ScopeTopic {
			break
		}
		if v, ok := r.brokerValue(s.name); ok {
			return scale(v, s.factor), true
		}
	}
	if s, ok := groupSynonyms[name]; ok && r.scope == ScopeGroup {
		if v, ok := r.brokerValue(s); ok {
			return v, true
		}
	}
	if k, ok := Lookup(r.scope, name); ok && k.Default != nil {
		return *k.Default, true
	}
	return "", false
}

// scale turns minutes or hours into milliseconds; anything negative means
// "no limit" and becomes -1 (KafkaConfig.logRetentionTimeMillis).
func scale(v string, factor int64) string {
	n, err := strconv.ParseInt(trim(v), 10, 64)
	if err != nil || factor == 0 {
		return v
	}
	if n < 0 {
		return "-1"
	}
	return strconv.FormatInt(n*factor, 10)
}

// Source says where the value of name came from, as DescribeConfigs reports it.
func (r Resolved) Source(name string) Source {
	if syn := r.Synonyms(name); len(syn) > 0 {
		return syn[0].Source
	}
	return SourceDefault
}

// Synonyms lists, in order of precedence, every layer that has a value for the
// key under any of its names, as DescribeConfigs does (ConfigHelper of Apache
// Kafka 4.3): the first is in force, and a family of broker keys is listed only
// from its principal key on. So max.message.bytes ends with the default of
// message.max.bytes, and retention.ms with nothing, because log.retention.ms
// has no default.
func (r Resolved) Synonyms(name string) []Entry {
	var out []Entry
	if r.scope != ScopeBroker {
		if e, ok := r.own(name); ok {
			out = append(out, e)
		}
	}
	switch r.scope {
	case ScopeClientMetrics:
		return out
	case ScopeBroker:
		return append(out, r.brokerEntries(name)...)
	}
	k, ok := Lookup(r.scope, name)
	if !ok {
		return out
	}
	if len(k.Synonyms) > 0 {
		return append(out, r.brokerEntries(k.Synonyms[0])...)
	}
	if r.scope == ScopeGroup && k.Default != nil {
		out = append(out, Entry{Name: name, Value: *k.Default, Source: SourceDefault})
	}
	return out
}

func (r Resolved) brokerEntries(name string) []Entry {
	var out []Entry
	family := brokerSynonyms(name)
	for _, l := range r.layers {
		if !l.Source.ofBroker() {
			continue
		}
		for _, n := range family {
			if v, ok := l.Values[n]; ok {
				out = append(out, Entry{Name: n, Value: v, Source: l.Source})
			}
		}
	}
	for _, n := range family {
		if k, ok := Lookup(ScopeBroker, n); ok && k.Default != nil {
			out = append(out, Entry{Name: n, Value: *k.Default, Source: SourceDefault})
		}
	}
	i := slices.IndexFunc(out, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return out[i:]
}

// Names lists what DescribeConfigs answers when no keys are asked for: every
// key that is not internal, and whatever else a layer of this scope sets.
func (r Resolved) Names() []string {
	var names []string
	for _, k := range tableOf(r.scope).keys {
		if !k.Internal {
			names = append(names, k.Name)
		}
	}
	for _, l := range r.layers {
		if l.Source.ofBroker() != (r.scope == ScopeBroker) {
			continue
		}
		for n := range l.Values {
			if k, ok := tableOf(r.scope).byName[n]; !ok || tableOf(r.scope).keys[k].Internal {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Described is one row of a DescribeConfigs answer.
type Described struct {
	Name      string
	Value     *string // nil: no value, or sensitive
	Type      Type
	Source    Source
	Sensitive bool
	ReadOnly  bool
	Doc       string
	Synonyms  []DescribedSynonym
}

// DescribedSynonym is an Entry whose value may be hidden.
type DescribedSynonym struct {
	Name   string
	Value  *string
	Source Source
}

// Describe builds the row for one key. A name that is in no table (a plug-in's)
// counts as sensitive, as in Kafka.
func (r Resolved) Describe(name string) Described {
	k, known := Lookup(r.scope, name)
	d := Described{
		Name: name, Type: k.Type, Source: r.Source(name), Doc: k.Documentation(),
		Sensitive: k.Sensitive || !known, ReadOnly: k.ReadOnly || !known && r.scope == ScopeBroker,
	}
	if v, ok := r.Lookup(name); ok && !d.Sensitive {
		v = canonical(k, v)
		d.Value = &v
	}
	for _, e := range r.Synonyms(name) {
		s := DescribedSynonym{Name: e.Name, Source: e.Source}
		if !d.Sensitive {
			if s.Value = &e.Value; !e.Source.ofBroker() && e.Source != SourceDefault {
				s.Value = d.Value // Kafka prints the resource's own value as parsed, the others as they were written
			}
		}
		d.Synonyms = append(d.Synonyms, s)
	}
	return d
}

// canonical writes a value as Kafka prints it after parsing: no stray white
// space, plain numbers, lower-case truth values (ConfigDef.convertToString).
func canonical(k Key, v string) string {
	switch k.Type {
	case TypeBool:
		return strings.ToLower(trim(v))
	case TypeInt, TypeShort, TypeLong:
		if n, err := strconv.ParseInt(trim(v), 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	case TypeList:
		items := SplitList(v)
		if k.distinct {
			seen := map[string]bool{}
			items = slices.DeleteFunc(items, func(it string) bool { again := seen[it]; seen[it] = true; return again })
		}
		return strings.Join(items, ",")
	}
	return trim(v)
}

// String returns the value in force, "" when there is none.
func (r Resolved) String(name string) string {
	v, _ := r.Lookup(name)
	return trim(v)
}

// Long returns a whole number. A value that is not one (it cannot come from
// Validate, but may from a metadata log written elsewhere) gives the default.
func (r Resolved) Long(name string) int64 {
	if n, err := strconv.ParseInt(r.String(name), 10, 64); err == nil {
		return n
	}
	if k, ok := Lookup(r.scope, name); ok && k.Default != nil {
		n, _ := strconv.ParseInt(*k.Default, 10, 64)
		return n
	}
	return 0
}

// Int is Long for keys of type int and short.
func (r Resolved) Int(name string) int { return int(r.Long(name)) }

// Bool returns a truth value; anything but "true" is false.
func (r Resolved) Bool(name string) bool { return strings.EqualFold(r.String(name), "true") }

// Double returns a number, 0 when the value is not one.
func (r Resolved) Double(name string) float64 {
	f, _ := strconv.ParseFloat(r.String(name), 64)
	return f
}

// List returns the elements of a list value.
func (r Resolved) List(name string) []string { return SplitList(r.String(name)) }
