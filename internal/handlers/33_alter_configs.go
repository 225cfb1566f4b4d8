package handlers

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
)

// AlterConfigs (33, versions 0 to 2) and IncrementalAlterConfigs (44, versions 0
// and 1): the broker refuses what is wrong in itself, resource by resource, and
// forwards the rest (ConfigAdminManager.preprocess).

// resourceKey names a resource of a request.
type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

func (b *Broker) alterConfigs(ctx context.Context, r *network.Request, req *kmsg.AlterConfigsRequest) kmsg.Response {
	type (
		resource = kmsg.AlterConfigsRequestResource
		answer   = kmsg.AlterConfigsResponseResource
	)
	api := alterAPI[resource, answer]{
		asked: func(res *resource) (key resourceKey, changes []configChange) {
			for _, c := range res.Configs {
				changes = append(changes, configChange{c.Name, c.Value == nil})
			}
			return resourceKey{res.ResourceType, res.ResourceName}, changes
		},
		answer: func(a *answer) (*kmsg.ConfigResourceType, *string, *int16, **string) {
			return &a.ResourceType, &a.ResourceName, &a.ErrorCode, &a.ErrorMessage
		},
		forward: func(rest []resource) []answer {
			accepted := *req
			accepted.Resources = rest
			return b.forward(ctx, r, &accepted).(*kmsg.AlterConfigsResponse).Resources
		},
	}
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Resources = api.alter(b, req.Resources)
	return resp
}

func (b *Broker) incrementalAlterConfigs(ctx context.Context, r *network.Request, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	type (
		resource = kmsg.IncrementalAlterConfigsRequestResource
		answer   = kmsg.IncrementalAlterConfigsResponseResource
	)
	api := alterAPI[resource, answer]{
		asked: func(res *resource) (key resourceKey, changes []configChange) {
			for _, c := range res.Configs {
				changes = append(changes, configChange{c.Name, c.Value == nil && c.Op != kmsg.IncrementalAlterConfigOpDelete})
			}
			return resourceKey{res.ResourceType, res.ResourceName}, changes
		},
		answer: func(a *answer) (*kmsg.ConfigResourceType, *string, *int16, **string) {
			return &a.ResourceType, &a.ResourceName, &a.ErrorCode, &a.ErrorMessage
		},
		forward: func(rest []resource) []answer {
			accepted := *req
			accepted.Resources = rest
			return b.forward(ctx, r, &accepted).(*kmsg.IncrementalAlterConfigsResponse).Resources
		},
	}
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Resources = api.alter(b, req.Resources)
	return resp
}

// alterAPI is what differs between the two APIs: the types of a resource asked
// for (Q) and of its answer (A).
type alterAPI[Q, A any] struct {
	asked   func(*Q) (resourceKey, []configChange)
	answer  func(*A) (kind *kmsg.ConfigResourceType, name *string, errorCode *int16, words **string)
	forward func([]Q) []A
}

// alter answers each resource in the order asked.
func (api alterAPI[Q, A]) alter(b *Broker, resources []Q) []A {
	keys, changes, times := make([]resourceKey, len(resources)), make([][]configChange, len(resources)), map[resourceKey]int{}
	for i := range resources {
		keys[i], changes[i] = api.asked(&resources[i])
		times[keys[i]]++
	}
	refused, rest := make([]error, len(resources)), []Q(nil)
	for i, res := range resources {
		if refused[i] = b.checkConfigChange(keys[i], times[keys[i]], changes[i]); refused[i] == nil {
			rest = append(rest, res)
		}
	}
	done := map[resourceKey]A{}
	if len(rest) > 0 {
		for _, a := range api.forward(rest) {
			kind, name, _, _ := api.answer(&a)
			done[resourceKey{*kind, *name}] = a
		}
	}
	out := make([]A, len(resources))
	for i, key := range keys {
		out[i] = done[key]
		kind, name, errorCode, words := api.answer(&out[i])
		*kind, *name = key.kind, key.name
		if refused[i] != nil {
			*errorCode, *words = code(refused[i]), message(refused[i])
		}
	}
	return out
}

// configChange is one key of a change; null says that its value is missing.
type configChange struct {
	key  string
	null bool
}

// checkConfigChange refuses a change that needs no controller to be wrong. times
// says how often the request names the resource.
func (b *Broker) checkConfigChange(r resourceKey, times int, changes []configChange) error {
	if times > 1 {
		return kerrors.New(kerrors.InvalidRequest, "Each resource must appear at most once.")
	}
	seen := map[string]bool{}
	for _, c := range changes {
		if seen[c.key] {
			return kerrors.New(kerrors.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[c.key] = true
	}
	for _, c := range changes {
		if c.null {
			return kerrors.New(kerrors.InvalidRequest, "Null value not supported for : %s", c.key)
		}
	}
	switch {
	case r.kind == kmsg.ConfigResourceTypeBrokerLogger:
		return kerrors.New(kerrors.InvalidRequest, "log levels are set at start (log.level), not through BROKER_LOGGER")
	case r.kind != kmsg.ConfigResourceTypeBroker || r.name == "":
		return nil
	}
	id, err := strconv.ParseInt(r.name, 10, 32)
	if err != nil {
		return kerrors.New(kerrors.InvalidRequest, "Node id must be an integer, but it is: %s", r.name)
	}
	if int32(id) != b.d.NodeID {
		return kerrors.New(kerrors.InvalidRequest, "Unexpected broker id, expected %d, but received %s", b.d.NodeID, r.name)
	}
	return nil
}
