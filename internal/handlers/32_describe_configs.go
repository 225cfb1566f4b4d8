package handlers

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/types"
)

// DescribeConfigs (32), versions 1 to 4: every key of a resource, the value in
// force, and where it comes from.
//
// Version notes: v1 source and synonyms; v3 types and documentation.
func (b *Broker) describeConfigs(_ context.Context, _ *network.Request, req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	d := configDescriber{nodeID: b.d.NodeID, static: b.d.Config.Static, im: b.d.Image()}
	return d.describe(req)
}

// configDescriber resolves configs on one node with one image.
type configDescriber struct {
	nodeID int32
	static config.Layer
	im     *image.Image
}

func (d configDescriber) describe(req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, r := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		resolved, names, err := d.resource(r.ResourceType, r.ResourceName)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = code(err), message(err)
			resp.Resources = append(resp.Resources, out)
			continue
		}
		for _, name := range names {
			if len(r.ConfigNames) > 0 && !slices.Contains(r.ConfigNames, name) {
				continue
			}
			row := resolved.Describe(name)
			if r.ResourceType == kmsg.ConfigResourceTypeBroker && r.ResourceName == "" {
				row.Synonyms = slices.DeleteFunc(row.Synonyms, func(s config.DescribedSynonym) bool { return s.Source != config.SourceDynamicDefaultBroker })
			}
			out.Configs = append(out.Configs, configRow(row, req.IncludeSynonyms, req.IncludeDocumentation))
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// resource returns the layers of a resource and the keys to list.
func (d configDescriber) resource(kind kmsg.ConfigResourceType, name string) (config.Resolved, []string, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if !types.ValidTopicName(name) {
			return config.Resolved{}, nil, kerrors.New(kerrors.InvalidTopicException, "%q is not a legal topic name", name)
		}
		if _, ok := d.im.Topics.ByName(name); !ok {
			return config.Resolved{}, nil, kerrors.UnknownTopicOrPartition
		}
		r := d.topic(name)
		return r, r.Names(), nil
	case kmsg.ConfigResourceTypeBroker:
		return d.broker(name)
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return config.Resolved{}, nil, kerrors.New(kerrors.InvalidRequest, "Group name must not be empty")
		}
		r := config.Effective(config.ScopeGroup, append(d.brokerLayers(), d.own(config.SourceGroup, image.ResourceGroup, name))...)
		return r, r.Names(), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return config.Resolved{}, nil, kerrors.New(kerrors.InvalidRequest, "Client metrics subscription name must not be empty")
		}
		r := config.Effective(config.ScopeClientMetrics, d.own(config.SourceClientMetrics, image.ResourceClientMetrics, name))
		return r, r.Names(), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		return config.Resolved{}, nil, kerrors.New(kerrors.InvalidRequest, "log levels are set at start (log.level), not through BROKER_LOGGER")
	}
	return config.Resolved{}, nil, kerrors.New(kerrors.InvalidRequest, "Unsupported resource type: %d", kind)
}

// topic resolves a topic's configs on this node.
func (d configDescriber) topic(name string) config.Resolved {
	return config.Effective(config.ScopeTopic, append(d.brokerLayers(), d.own(config.SourceTopic, image.ResourceTopic, name))...)
}

// broker resolves this node's configs, or with an empty name lists what is set
// for all brokers. Other brokers must be asked themselves (ConfigHelper).
func (d configDescriber) broker(name string) (config.Resolved, []string, error) {
	if name == "" {
		own := d.own(config.SourceDynamicDefaultBroker, image.ResourceBroker, "")
		var names []string
		for n := range own.Values {
			names = append(names, n)
		}
		slices.Sort(names)
		return config.Effective(config.ScopeBroker, own), names, nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return config.Resolved{}, nil, kerrors.New(kerrors.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	}
	if int32(id) != d.nodeID {
		return config.Resolved{}, nil, kerrors.New(kerrors.InvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", d.nodeID, name)
	}
	r := config.Effective(config.ScopeBroker, d.brokerLayers()...)
	return r, r.Names(), nil
}

// brokerLayers are the layers below a topic's or group's own.
func (d configDescriber) brokerLayers() []config.Layer {
	return []config.Layer{
		d.own(config.SourceDynamicBroker, image.ResourceBroker, strconv.Itoa(int(d.nodeID))),
		d.own(config.SourceDynamicDefaultBroker, image.ResourceBroker, ""),
		d.static,
	}
}

func (d configDescriber) own(s config.Source, t image.ResourceType, name string) config.Layer {
	return config.Layer{Source: s, Values: d.im.Configs.Get(t, name)}
}

func configRow(row config.Described, synonyms, docs bool) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly, c.IsSensitive = row.Name, row.Value, row.ReadOnly, row.Sensitive
	c.Source, c.IsDefault = kmsg.ConfigSource(row.Source), row.Source == config.SourceDefault
	c.ConfigType = kmsg.ConfigType(row.Type)
	if docs {
		c.Documentation = ptr(row.Doc)
	}
	if synonyms {
		for _, s := range row.Synonyms {
			cs := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			cs.Name, cs.Value, cs.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			c.ConfigSynonyms = append(c.ConfigSynonyms, cs)
		}
	}
	return c
}

// createdConfigs lists a topic's configs for CreateTopics answers (v5+), with
// the overrides it was created with.
func (d configDescriber) createdConfigs(overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	r := config.Effective(config.ScopeTopic, append(d.brokerLayers(), config.Layer{Source: config.SourceTopic, Values: overrides})...)
	var out []kmsg.CreateTopicsResponseTopicConfig
	for _, name := range r.Names() {
		row := r.Describe(name)
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.ReadOnly, c.Source, c.IsSensitive = row.Name, row.Value, row.ReadOnly, int8(row.Source), row.Sensitive
		if v, ok := overrides[name]; ok {
			c.Value = &v // as it was sent: lists are not tidied here
		}
		out = append(out, c)
	}
	return out
}
