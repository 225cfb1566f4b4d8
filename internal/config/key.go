package config

import (
	"fmt"
	"slices"
	"strconv"
)

// Type is the type of a setting; the numbers are those of DescribeConfigs
// (ConfigEntry.ConfigType of Apache Kafka 4.3).
type Type int8

// Types of settings.
const (
	TypeUnknown  Type = 0
	TypeBool     Type = 1
	TypeString   Type = 2
	TypeInt      Type = 3 // 32 bits
	TypeShort    Type = 4 // 16 bits
	TypeLong     Type = 5 // 64 bits
	TypeDouble   Type = 6
	TypeList     Type = 7 // comma separated
	TypeClass    Type = 8 // a Java class name; kept as text
	TypePassword Type = 9 // never shown
)

// String returns the lower-case name that Kafka's documentation uses.
func (t Type) String() string {
	names := [...]string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}
	if t < 0 || int(t) >= len(names) {
		return "type(" + strconv.Itoa(int(t)) + ")"
	}
	return names[t]
}

// Scope says what a setting belongs to; the numbers are those of ConfigResource.Type.
type Scope int8

// Scopes of settings.
const (
	ScopeTopic         Scope = 2
	ScopeBroker        Scope = 4
	ScopeClientMetrics Scope = 16
	ScopeGroup         Scope = 32
)

// String returns the word used in messages and in the docs table.
func (s Scope) String() string {
	switch s {
	case ScopeTopic:
		return "topic"
	case ScopeBroker:
		return "broker"
	case ScopeClientMetrics:
		return "client-metrics"
	case ScopeGroup:
		return "group"
	}
	return "scope(" + strconv.Itoa(int(s)) + ")"
}

// Source says which layer a value came from; the numbers are those of
// DescribeConfigs (DescribeConfigsResponse.ConfigSource).
type Source int8

// Sources of values.
const (
	SourceUnknown              Source = 0
	SourceTopic                Source = 1
	SourceDynamicBroker        Source = 2
	SourceDynamicDefaultBroker Source = 3 // the cluster-wide default, resource name ""
	SourceStatic               Source = 4 // file, environment or flag
	SourceDefault              Source = 5
	SourceDynamicBrokerLogger  Source = 6
	SourceClientMetrics        Source = 7
	SourceGroup                Source = 8
)

// String returns Kafka's name of the source.
func (s Source) String() string {
	names := [...]string{
		"UNKNOWN_CONFIG", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG",
		"STATIC_BROKER_CONFIG", "DEFAULT_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG", "CLIENT_METRICS_CONFIG", "GROUP_CONFIG",
	}
	if s < 0 || int(s) >= len(names) {
		return "source(" + strconv.Itoa(int(s)) + ")"
	}
	return names[s]
}

// Importance ranks settings in documentation (ConfigDef.Importance).
type Importance int8

// Ranks.
const (
	Low Importance = iota
	Medium
	High
)

// String returns the lower-case rank.
func (i Importance) String() string { return [...]string{"low", "medium", "high"}[max(0, min(2, i))] }

// Key describes one setting.
type Key struct {
	Name    string
	Scope   Scope
	Type    Type
	Default *string // nil: no default (null in DescribeConfigs)
	Doc     string

	Sensitive bool // the value is never returned
	ReadOnly  bool // broker scope: changes need a restart
	PerBroker bool // broker scope: dynamic, but only for one named broker, never cluster-wide
	Internal  bool // accepted but not listed by DescribeConfigs (ConfigDef.defineInternal)
	InForce   bool // false: known and stored, but nothing here acts on it yet
	// NotInForce says why, in words, when InForce is false, or for the value
	// Except of a setting that is in force otherwise.
	NotInForce string
	Except     string // value (of a list: element) that nothing acts on yet
	Ours       bool   // Tidemark's own, unknown to Apache Kafka

	// Synonyms are the broker keys that a value is taken from when the scope
	// itself has none, in order of precedence. For broker keys the first one
	// is the key itself.
	Synonyms   []string
	Validate   func(value string) error // limits beyond the type; nil: none
	Limits     string                   // the limits in words, for the docs table
	distinct   bool                     // a list that loses what comes again
	Importance Importance
}

// Documentation is the text of DescribeConfigs: what the setting means and,
// when nothing acts on it yet, that it is not in force and why. Clients can
// recognise the latter by "Not in force here: ".
func (k Key) Documentation() string {
	if k.NotInForce == "" {
		return k.Doc
	}
	return k.Doc + " Not in force here: " + k.notInForce() + "."
}

func (k Key) notInForce() string {
	if k.Except != "" {
		return k.Except + ": " + k.NotInForce
	}
	return k.NotInForce
}

// Warning says that value is stored and not acted on; "" when it is in force.
func (k Key) Warning(value string) string {
	switch {
	case k.Except != "" && slices.Contains(SplitList(value), k.Except):
		return fmt.Sprintf("%s=%s is set but not in force: %s", k.Name, value, k.notInForce())
	case !k.InForce:
		return fmt.Sprintf("%s is set but not in force: %s", k.Name, k.NotInForce)
	}
	return ""
}
