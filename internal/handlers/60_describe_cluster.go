package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/network"
)

// Endpoint types of DescribeCluster (KIP-919).
const (
	endpointBrokers     int8 = 1
	endpointControllers int8 = 2
)

// DescribeCluster (60), versions 0 to 2.
//
// Version notes: v1 endpoint type, which must match the listener; v2 includes
// fenced brokers when asked.
func (b *Broker) describeCluster(_ context.Context, r *network.Request, req *kmsg.DescribeClusterRequest) *kmsg.DescribeClusterResponse {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterAuthorizedOperations = noOperations
	if err := checkEndpointType(r.Header.Version, req.EndpointType, endpointBrokers); err != nil {
		resp.ErrorCode, resp.ErrorMessage = code(err), message(err)
		return resp
	}
	resp.EndpointType = endpointBrokers
	im, listener := b.d.Image(), r.Conn.Listener()
	resp.ClusterID, resp.ControllerID = b.d.ClusterID, -1
	for br := range im.Cluster.All() {
		n, ok := endpointOf(br, listener)
		if !ok || br.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack, out.IsFenced = n.ID, n.Host, n.Port, n.Rack, br.Fenced
		resp.Brokers = append(resp.Brokers, out)
		if !br.Fenced && resp.ControllerID < 0 {
			resp.ControllerID = br.ID
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return resp
}

func checkEndpointType(version int16, asked, served int8) error {
	switch {
	case version < 1 && served == endpointBrokers, asked == served:
		return nil
	case asked == endpointBrokers || asked == endpointControllers:
		return kerrors.New(kerrors.MismatchedEndpointType, "The request was sent to an endpoint of the wrong type.")
	}
	return kerrors.New(kerrors.UnsupportedEndpointType, "Unsupported endpoint type %d", asked)
}
