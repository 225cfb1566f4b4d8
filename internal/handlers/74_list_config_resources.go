package handlers

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
)

// ListConfigResources (74), versions 0 and 1 (KIP-1142). Version 0 lists client
// metrics subscriptions; version 1 lists the asked types, none meaning all.
func (b *Broker) listConfigResources(_ context.Context, r *network.Request, req *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	asked := req.ResourceTypes
	if r.Header.Version == 0 {
		asked = []int8{int8(image.ResourceClientMetrics)}
	} else if len(asked) == 0 {
		asked = []int8{
			int8(image.ResourceTopic), int8(image.ResourceBroker), int8(image.ResourceBrokerLogger),
			int8(image.ResourceClientMetrics), int8(image.ResourceGroup),
		}
	}
	im, seen := b.d.Image(), map[int8]bool{}
	for _, t := range asked {
		if seen[t] {
			continue
		}
		seen[t] = true
		names, ok := configResourceNames(im, image.ResourceType(t))
		if !ok {
			resp.ErrorCode, resp.ConfigResources = int16(kerrors.UnsupportedVersion), nil
			return resp
		}
		for _, n := range names {
			cr := kmsg.NewListConfigResourcesResponseConfigResource()
			cr.Name, cr.Type = n, t
			resp.ConfigResources = append(resp.ConfigResources, cr)
		}
	}
	return resp
}

func configResourceNames(im *image.Image, t image.ResourceType) (names []string, ok bool) {
	switch t {
	case image.ResourceTopic:
		for topic := range im.Topics.All() {
			names = append(names, topic.Name)
		}
	case image.ResourceBroker, image.ResourceBrokerLogger:
		for br := range im.Cluster.All() {
			names = append(names, strconv.Itoa(int(br.ID)))
		}
	case image.ResourceClientMetrics, image.ResourceGroup:
		for r := range im.Configs.All() {
			if r.Type == t {
				names = append(names, r.Name)
			}
		}
	default:
		return nil, false
	}
	return names, true
}
