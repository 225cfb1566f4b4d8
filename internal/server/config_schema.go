package server

import (
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/tlsconf"
)

// configSchema tells the controller core about config keys.
type configSchema struct{ static config.Layer }

func scopeOf(t image.ResourceType) (config.Scope, bool) {
	switch t {
	case image.ResourceTopic:
		return config.ScopeTopic, true
	case image.ResourceBroker:
		return config.ScopeBroker, true
	case image.ResourceGroup:
		return config.ScopeGroup, true
	case image.ResourceClientMetrics:
		return config.ScopeClientMetrics, true
	}
	return 0, false
}

// Validate implements controller.ConfigSchema. Broker keys that cannot change
// at run time are refused.
func (c configSchema) Validate(r image.Resource, existing, proposed map[string]string) error {
	scope, ok := scopeOf(r.Type)
	if !ok {
		return kerrors.New(kerrors.InvalidRequest, "configs of resource type %v cannot be changed here", r.Type)
	}
	switch scope { // settings that depend on each other are checked as a whole
	case config.ScopeTopic:
		return invalidConfig(config.ValidateTopic(proposed, c.static))
	case config.ScopeGroup:
		return invalidConfig(config.ValidateGroup(proposed, c.static))
	}
	for _, name := range slices.Sorted(maps.Keys(proposed)) {
		value := proposed[name]
		if old, had := existing[name]; had && old == value {
			continue
		}
		if err := config.Validate(scope, name, value); err != nil {
			if scope == config.ScopeClientMetrics { // ClientMetricsConfigs.validate
				return kerrors.New(kerrors.InvalidRequest, "%v", err)
			}
			return invalidConfig(err)
		}
		if scope == config.ScopeBroker && slices.Contains(tlsconf.Reconfigurable, name) { // DynamicBrokerConfig.validateConfigs
			return kerrors.New(kerrors.InvalidRequest, "These security configs can be dynamically updated only per-listener using the listener prefix: [%s]", name)
		}
		if scope == config.ScopeBroker && tlsconf.NeedsRestart(name) {
			return kerrors.New(kerrors.InvalidRequest, "%s cannot change while its listener serves: set it in the configuration file and restart", name)
		}
		if k, known := config.Lookup(scope, name); scope == config.ScopeBroker && known && k.ReadOnly {
			return kerrors.New(kerrors.InvalidRequest, "Cannot update these configs dynamically: [%s]", name)
		}
	}
	return nil
}

func invalidConfig(err error) error {
	if err == nil {
		return nil
	}
	return kerrors.New(kerrors.InvalidConfig, "%v", err)
}

// List implements controller.ConfigSchema.
func (c configSchema) List(t image.ResourceType, key string) bool {
	scope, ok := scopeOf(t)
	if !ok {
		return false
	}
	k, known := config.Lookup(scope, key)
	return known && k.Type == config.TypeList
}

// Default implements controller.ConfigSchema.
func (c configSchema) Default(t image.ResourceType, key string) string {
	scope, ok := scopeOf(t)
	if !ok {
		return ""
	}
	v, _ := config.Effective(scope, c.static).Lookup(key)
	return v
}
