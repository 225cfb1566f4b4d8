package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/types"
)

// FindCoordinator (10), versions 0 to 6. Version 4 and later ask for many keys
// (KIP-699). A coordinator is the leader of one partition of an internal topic;
// the first question about groups makes that topic.
func (b *Broker) findCoordinator(ctx context.Context, r *network.Request, req *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	listener := r.Conn.Listener()
	if r.Header.Version >= 4 {
		for _, key := range req.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, b.coordinator(ctx, req.CoordinatorType, key, listener))
		}
		return resp
	}
	co := b.coordinator(ctx, req.CoordinatorType, req.CoordinatorKey, listener)
	resp.ErrorCode, resp.ErrorMessage = co.ErrorCode, co.ErrorMessage
	resp.NodeID, resp.Host, resp.Port = co.NodeID, co.Host, co.Port
	return resp
}

func (b *Broker) coordinator(ctx context.Context, keyType int8, key, listener string) kmsg.FindCoordinatorResponseCoordinator {
	co := kmsg.NewFindCoordinatorResponseCoordinator()
	co.Key, co.NodeID, co.Host, co.Port = key, -1, "", -1
	n, err := b.coordinatorNode(ctx, keyType, key, listener)
	if err != nil {
		co.ErrorCode, co.ErrorMessage = code(err), message(err)
		return co
	}
	co.NodeID, co.Host, co.Port, co.ErrorMessage = n.ID, n.Host, n.Port, ptr("")
	return co
}

func (b *Broker) coordinatorNode(ctx context.Context, keyType int8, key, listener string) (node, error) {
	switch keyType {
	case 0:
	case 1:
		return node{}, kerrors.New(kerrors.UnsupportedVersion, "this release does not serve transactions (transaction.version is 0)")
	case 2:
		return node{}, kerrors.New(kerrors.UnsupportedVersion, "this release does not serve share groups (share.version is 0)")
	default:
		return node{}, kerrors.New(kerrors.InvalidRequest, "coordinator type %d is unknown", keyType)
	}
	topic, ok := b.d.Image().Topics.ByName(types.ConsumerOffsetsTopic)
	if !ok {
		b.ensureTopics(ctx, []string{types.ConsumerOffsetsTopic})
		if topic, ok = b.d.Image().Topics.ByName(types.ConsumerOffsetsTopic); !ok {
			return node{}, kerrors.CoordinatorNotAvailable
		}
	}
	return leaderOf(b.d.Image(), topic, b.d.Offsets.PartitionFor(key, len(topic.Partitions)), listener)
}

// leaderOf returns the live leader of a coordinator partition.
func leaderOf(im *image.Image, topic *image.Topic, partition int32, listener string) (node, error) {
	n, ok := aliveEndpoint(im, topic.Partitions[partition].Leader, listener)
	if !ok {
		return node{}, kerrors.CoordinatorNotAvailable
	}
	return n, nil
}
