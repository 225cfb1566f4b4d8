package handlers

import (
	"context"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Authorized operations when there is no authorizer: every operation of the
// resource type, as bits (AclEntry.supportedOperations in Apache Kafka 4.3).
const (
	noOperations      int32 = -1 << 31 // not asked for
	topicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

// Metadata (3), versions 0 to 13.
//
// Version notes: v0 empty topics means all, v1+ null means all; v4 may create
// topics; v5 offline replicas; v7 leader epochs; v8 authorized operations (the
// cluster's only until v10); v10 topic ids in the answer; v12 topic ids in the
// request, refused at v10 and v11. The controller id is a random live broker:
// in KRaft clients cannot reach controllers.
func (b *Broker) metadata(ctx context.Context, r *network.Request, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	version, listener := r.Header.Version, r.Conn.Listener()
	resp := kmsg.NewPtrMetadataResponse()
	resp.AuthorizedOperations = noOperations
	if refused := refuseMetadataIDs(version, req); refused != nil {
		resp.Topics, resp.ControllerID = refused, -1 // and no brokers
		return resp
	}
	all := req.Topics == nil || version == 0 && len(req.Topics) == 0
	if !all {
		b.createMissing(ctx, version, req)
	}
	im := b.d.Image()
	b.metadataNodes(resp, im, listener)
	if req.IncludeClusterAuthorizedOperations && version >= 8 && version <= 10 {
		resp.AuthorizedOperations = clusterOperations
	}
	add := func(t kmsg.MetadataResponseTopic) {
		t.AuthorizedOperations = noOperations
		// Topics that do not exist get them too, except where only an id was given.
		if req.IncludeTopicAuthorizedOperations && t.ErrorCode != int16(kerrors.UnknownTopicID) {
			t.AuthorizedOperations = topicOperations
		}
		resp.Topics = append(resp.Topics, t)
	}
	if all {
		for t := range im.Topics.All() {
			add(metadataTopic(im, t, listener, version))
		}
		return resp
	}
	seen, missing := map[string]bool{}, map[missingTopic]bool{}
	for _, want := range req.Topics {
		t, err := findMetadataTopic(im, want)
		if err != nil {
			if key := keyOfMissing(want); !missing[key] {
				missing[key] = true
				add(missingMetadataTopic(want, err))
			}
			continue
		}
		if !seen[t.Name] {
			seen[t.Name] = true
			add(metadataTopic(im, t, listener, version))
		}
	}
	return resp
}

func (b *Broker) metadataNodes(resp *kmsg.MetadataResponse, im *image.Image, listener string) {
	for _, n := range aliveNodes(im, listener) {
		br := kmsg.NewMetadataResponseBroker()
		br.NodeID, br.Host, br.Port, br.Rack = n.ID, n.Host, n.Port, n.Rack
		resp.Brokers = append(resp.Brokers, br)
	}
	resp.ClusterID = &b.d.ClusterID
	resp.ControllerID = randomNode(resp.Brokers)
}

func randomNode(brokers []kmsg.MetadataResponseBroker) int32 {
	if len(brokers) == 0 {
		return -1
	}
	return brokers[rand.IntN(len(brokers))].NodeID
}

// refuseMetadataIDs answers requests that use ids before version 12, or neither
// id nor name.
func refuseMetadataIDs(version int16, req *kmsg.MetadataRequest) []kmsg.MetadataResponseTopic {
	bad := false
	for _, t := range req.Topics {
		bad = bad || version < 12 && t.TopicID != [16]byte{} || t.Topic == nil && t.TopicID == [16]byte{}
	}
	if !bad {
		return nil
	}
	out := make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	for _, t := range req.Topics {
		rt := missingMetadataTopic(t, kerrors.InvalidRequest)
		if rt.Topic == nil && version < 12 {
			rt.Topic = ptr("")
		}
		rt.AuthorizedOperations = noOperations
		out = append(out, rt)
	}
	return out
}

func findMetadataTopic(im *image.Image, want kmsg.MetadataRequestTopic) (*image.Topic, error) {
	if want.TopicID != [16]byte{} {
		if t, ok := im.Topics.ByID(want.TopicID); ok {
			return t, nil
		}
		return nil, kerrors.UnknownTopicID
	}
	if t, ok := im.Topics.ByName(*want.Topic); ok {
		return t, nil
	}
	if !types.ValidTopicName(*want.Topic) {
		return nil, kerrors.InvalidTopicException
	}
	return nil, kerrors.UnknownTopicOrPartition
}

// missingTopic is what a topic that does not exist was asked by: its id, or its
// name.
type missingTopic struct {
	id   [16]byte
	name string
}

func keyOfMissing(want kmsg.MetadataRequestTopic) missingTopic {
	if want.TopicID != [16]byte{} {
		return missingTopic{id: want.TopicID}
	}
	return missingTopic{name: *want.Topic}
}

func missingMetadataTopic(want kmsg.MetadataRequestTopic, err error) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.ErrorCode, t.Topic, t.TopicID = code(err), want.Topic, want.TopicID
	if t.ErrorCode == int16(kerrors.UnknownTopicID) {
		t.Topic = nil // the id decides, whatever name came with it
	}
	if t.Topic != nil {
		t.IsInternal = types.IsInternalTopic(*t.Topic)
	}
	return t
}

func metadataTopic(im *image.Image, topic *image.Topic, listener string, version int16) kmsg.MetadataResponseTopic {
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.IsInternal = ptr(topic.Name), topic.ID, types.IsInternalTopic(topic.Name)
	t.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(topic.Partitions))
	for i, p := range topic.Partitions {
		out := &t.Partitions[i]
		*out = kmsg.NewMetadataResponseTopicPartition()
		out.Partition, out.Leader, out.LeaderEpoch = int32(i), p.Leader, p.LeaderEpoch
		out.Replicas, out.ISR = p.Replicas, p.ISR
		out.OfflineReplicas = offline(im, p, listener)
		out.ErrorCode = leaderError(im, p, listener, version)
		if out.ErrorCode != 0 {
			out.Leader = -1
		}
		if version == 0 {
			hideDeadReplicas(im, out, listener)
		}
	}
	return t
}

// leaderError says why a partition's leader cannot be used through the listener
// (KRaftMetadataCache.getPartitionMetadata).
func leaderError(im *image.Image, p *image.Partition, listener string, version int16) int16 {
	if p.Leader < 0 {
		return int16(kerrors.LeaderNotAvailable)
	}
	br, ok := im.Cluster.Broker(p.Leader)
	if !ok || br.Fenced {
		return int16(kerrors.LeaderNotAvailable)
	}
	if _, ok := br.Endpoint(listener); !ok {
		if version >= 6 {
			return int16(kerrors.ListenerNotFound)
		}
		return int16(kerrors.LeaderNotAvailable)
	}
	return 0
}

// hideDeadReplicas is how version 0 shows replicas that cannot be reached: it
// leaves them out and says REPLICA_NOT_AVAILABLE.
func hideDeadReplicas(im *image.Image, p *kmsg.MetadataResponseTopicPartition, listener string) {
	keep := func(ids []int32) []int32 {
		var out []int32
		for _, id := range ids {
			if _, ok := aliveEndpoint(im, id, listener); ok {
				out = append(out, id)
			}
		}
		return out
	}
	replicas, isr := keep(p.Replicas), keep(p.ISR)
	if p.ErrorCode == 0 && (len(replicas) < len(p.Replicas) || len(isr) < len(p.ISR)) {
		p.ErrorCode = int16(kerrors.ReplicaNotAvailable)
	}
	p.Replicas, p.ISR = replicas, isr
}
