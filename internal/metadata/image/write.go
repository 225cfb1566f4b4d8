package image

import (
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// WriteRecords yields the records that rebuild im from Empty: the body of a
// snapshot. metadata.version comes first, then Kafka's order (MetadataImage.write).
// It stops when yield returns false.
func WriteRecords(im *Image, yield func(recordschema.MetadataRecord) bool) {
	w := &recordWriter{yield: yield}
	w.features(im)
	w.cluster(im)
	w.topics(im)
	w.configs(im)
	w.quotas(im)
	if im.ProducerIDs.Next >= 0 {
		w.put(&recordschema.ProducerIdsRecord{BrokerID: -1, BrokerEpoch: -1, NextProducerID: im.ProducerIDs.Next})
	}
	w.security(im)
}

// recordWriter stops for good once yield has said false.
type recordWriter struct {
	yield func(recordschema.MetadataRecord) bool
	done  bool
}

func (w *recordWriter) put(r recordschema.MetadataRecord) bool {
	if !w.done && !w.yield(r) {
		w.done = true
	}
	return !w.done
}

func (w *recordWriter) features(im *Image) {
	if im.Features.Has(FeatureMetadataVersion) {
		w.put(&recordschema.FeatureLevelRecord{Name: FeatureMetadataVersion, FeatureLevel: im.Features.MetadataVersion()})
	}
	for name, level := range im.Features.All() {
		if name != FeatureMetadataVersion {
			w.put(&recordschema.FeatureLevelRecord{Name: name, FeatureLevel: level})
		}
	}
}

func (w *recordWriter) cluster(im *Image) {
	for b := range im.Cluster.All() {
		if !w.put(b.record()) {
			return
		}
	}
	for c := range im.Cluster.Controllers() {
		w.put(&recordschema.RegisterControllerRecord{
			ControllerID: c.ID, IncarnationID: c.IncarnationID, ZkMigrationReady: c.ZkMigrationReady,
			EndPoints: endpointRecords(c.Endpoints), Features: featureRecords(c.Features),
		})
	}
}

func (w *recordWriter) topics(im *Image) {
	for t := range im.Topics.AllByID() {
		if !w.put(&recordschema.TopicRecord{Name: t.Name, TopicID: t.ID}) {
			return
		}
		for i, p := range t.Partitions {
			if !w.put(p.Record(t.ID, int32(i))) {
				return
			}
		}
	}
}

func (w *recordWriter) configs(im *Image) {
	for r, values := range im.Configs.All() {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := values[key]
			if !w.put(&recordschema.ConfigRecord{
				ResourceType: int8(r.Type), ResourceName: r.Name, Name: key, Value: &value,
			}) {
				return
			}
		}
	}
}

func (w *recordWriter) quotas(im *Image) {
	for q := range im.ClientQuotas.All() {
		var entity []recordschema.QuotaEntity
		for _, e := range q.Entity {
			entity = append(entity, recordschema.QuotaEntity{EntityType: e.Type, EntityName: e.Name})
		}
		for _, key := range slices.Sorted(maps.Keys(q.Values)) {
			if !w.put(&recordschema.ClientQuotaRecord{Entity: entity, QuotaKey: key, Value: q.Values[key]}) {
				return
			}
		}
	}
}

func (w *recordWriter) security(im *Image) {
	for a := range im.ACLs.All() {
		if !w.put(&recordschema.AccessControlEntryRecord{
			ID: a.ID, ResourceType: a.ResourceType, ResourceName: a.ResourceName, PatternType: a.PatternType,
			Principal: a.Principal, Host: a.Host, Operation: a.Operation, PermissionType: a.PermissionType,
		}) {
			return
		}
	}
	for s := range im.Scram.All() {
		w.put(&recordschema.UserScramCredentialRecord{
			Name: s.User, Mechanism: s.Mechanism, Salt: s.Salt, StoredKey: s.StoredKey,
			ServerKey: s.ServerKey, Iterations: s.Iterations,
		})
	}
	for t := range im.Tokens.All() {
		w.put(&recordschema.DelegationTokenRecord{
			Owner: t.Owner, Requester: t.Requester, Renewers: t.Renewers, IssueTimestamp: t.IssueMs,
			MaxTimestamp: t.MaxMs, ExpirationTimestamp: t.ExpirationMs, TokenID: t.ID,
		})
	}
}

// Record is the partition as the record that rebuilds it. The ELR tags are
// left out when empty (KIP-966).
func (p *Partition) Record(topic types.UUID, id int32) *recordschema.PartitionRecord {
	r := &recordschema.PartitionRecord{
		PartitionID: id, TopicID: topic, Replicas: p.Replicas, ISR: p.ISR,
		RemovingReplicas: p.RemovingReplicas, AddingReplicas: p.AddingReplicas,
		Leader: p.Leader, LeaderRecoveryState: p.LeaderRecoveryState,
		LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Directories: p.Directories, GrownTimeMs: p.GrownTimeMs,
	}
	if len(p.ELR) > 0 {
		r.EligibleLeaderReplicas = p.ELR
	}
	if len(p.LastKnownELR) > 0 {
		r.LastKnownElr = p.LastKnownELR
	}
	return r
}

func (b *Broker) record() *recordschema.RegisterBrokerRecord {
	return &recordschema.RegisterBrokerRecord{
		BrokerID: b.ID, IncarnationID: b.IncarnationID, BrokerEpoch: b.Epoch,
		EndPoints: endpointRecords(b.Endpoints), Features: featureRecords(b.Features),
		Rack: b.Rack, Fenced: b.Fenced, InControlledShutdown: b.InControlledShutdown,
		LogDirs: b.LogDirs, CordonedLogDirs: b.CordonedLogDirs,
	}
}

func endpointRecords(in []types.Endpoint) []recordschema.NodeEndpoint {
	var out []recordschema.NodeEndpoint
	for _, e := range in {
		out = append(out, recordschema.NodeEndpoint{
			Name: e.Listener, Host: e.Host, Port: uint16(e.Port), SecurityProtocol: e.SecurityProtocol,
		})
	}
	return out
}

func featureRecords(in map[string]FeatureRange) []recordschema.NodeFeature {
	var out []recordschema.NodeFeature
	for _, name := range slices.Sorted(maps.Keys(in)) {
		out = append(out, recordschema.NodeFeature{
			Name: name, MinSupportedVersion: in[name].Min, MaxSupportedVersion: in[name].Max,
		})
	}
	return out
}
