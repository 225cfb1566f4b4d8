package image

import (
	"iter"
	"maps"
)

// ResourceType is the kind of thing a config belongs to (ConfigResource.Type).
type ResourceType int8

// Resource types.
const (
	ResourceTopic         ResourceType = 2
	ResourceBroker        ResourceType = 4
	ResourceBrokerLogger  ResourceType = 8
	ResourceClientMetrics ResourceType = 16
	ResourceGroup         ResourceType = 32
)

// String names the type as Kafka's messages do.
func (t ResourceType) String() string {
	switch t {
	case ResourceTopic:
		return "TOPIC"
	case ResourceBroker:
		return "BROKER"
	case ResourceBrokerLogger:
		return "BROKER_LOGGER"
	case ResourceClientMetrics:
		return "CLIENT_METRICS"
	case ResourceGroup:
		return "GROUP"
	}
	return "UNKNOWN"
}

// Resource names a thing that has configs. A broker's name is its id; the empty
// name is the cluster-wide default of its type.
type Resource struct {
	Type ResourceType
	Name string
}

func (r Resource) key() string { return string([]byte{byte(r.Type)}) + r.Name }

type resourceConfig struct {
	resource Resource
	values   map[string]string
}

// Configs are the dynamic configs of all resources.
type Configs struct{ byResource tree[string, resourceConfig] }

// Get returns the keys set on a resource; the map is shared, do not write to it.
// It is nil when nothing is set.
func (c Configs) Get(t ResourceType, name string) map[string]string {
	rc, _ := c.byResource.get(Resource{t, name}.key())
	return rc.values
}

// Value returns one key of a resource.
func (c Configs) Value(t ResourceType, name, key string) (string, bool) {
	v, ok := c.Get(t, name)[key]
	return v, ok
}

// All yields the resources that have configs, by type and name.
func (c Configs) All() iter.Seq2[Resource, map[string]string] {
	return func(yield func(Resource, map[string]string) bool) {
		for rc := range c.byResource.values() {
			if !yield(rc.resource, rc.values) {
				return
			}
		}
	}
}

// set changes one key (nil removes it) and reports whether anything changed.
func (c Configs) set(r Resource, key string, value *string) bool {
	old, _ := c.byResource.get(r.key())
	cur, had := old.values[key]
	if value == nil && !had || value != nil && had && cur == *value {
		return false
	}
	next := maps.Clone(old.values)
	if next == nil {
		next = map[string]string{}
	}
	if value == nil {
		delete(next, key)
	} else {
		next[key] = *value
	}
	if len(next) == 0 {
		c.byResource.del(r.key())
	} else {
		c.byResource.set(r.key(), resourceConfig{resource: r, values: next})
	}
	return true
}
