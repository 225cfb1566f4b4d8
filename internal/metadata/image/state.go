package image

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// ErrReplay is wrapped by every error of Replay: the record contradicts the
// state, so either the log or this code is wrong.
var ErrReplay = errors.New("metadata record does not fit the state")

// State is an image under change. Reads go through Current; Replay is the only
// mutator. It belongs to one goroutine.
type State struct {
	cur *Image
	// owned are the topics whose Partitions slice was already copied since the
	// last Image call, so that it can be written in place.
	owned map[types.UUID]*Topic
}

// NewState starts from im, which stays as it is.
func NewState(im *Image) *State {
	return &State{cur: im.fork(), owned: map[types.UUID]*Topic{}}
}

// Current is the state as an image for reading. It changes with the next
// Replay; do not keep it.
func (s *State) Current() *Image { return s.cur }

// Image freezes the state: what it returns never changes. O(1).
func (s *State) Image(offset int64, epoch int32) *Image {
	frozen := s.cur
	frozen.Offset, frozen.Epoch = offset, epoch
	s.cur = frozen.fork()
	clear(s.owned)
	return frozen
}

// Replay applies one record. A record that does not fit gives an error that
// wraps ErrReplay and leaves the state as it was. Begin, end and abort
// transaction records change nothing here: whoever reads the log decides which
// records to replay (KIP-868).
func (s *State) Replay(rec recordschema.MetadataRecord) error {
	switch r := rec.(type) {
	case *recordschema.TopicRecord:
		return s.replayTopic(r)
	case *recordschema.PartitionRecord:
		return s.replayPartition(r)
	case *recordschema.PartitionChangeRecord:
		return s.replayPartitionChange(r)
	case *recordschema.RemoveTopicRecord:
		return s.replayRemoveTopic(r)
	case *recordschema.ClearElrRecord:
		return s.replayClearElr(r)
	case *recordschema.ConfigRecord:
		s.cur.Configs.set(Resource{ResourceType(r.ResourceType), r.ResourceName}, r.Name, r.Value)
	case *recordschema.FeatureLevelRecord:
		s.cur.Features = s.cur.Features.with(r.Name, r.FeatureLevel)
	case *recordschema.ProducerIdsRecord:
		s.cur.ProducerIDs.Next = r.NextProducerID
	default:
		if handled, err := s.replayNode(rec); handled {
			return err
		}
		return s.replaySecurity(rec)
	}
	return nil
}

// replayNode applies the records about brokers and controllers; false when rec
// is none of them.
func (s *State) replayNode(rec recordschema.MetadataRecord) (bool, error) {
	switch r := rec.(type) {
	case *recordschema.RegisterBrokerRecord:
		s.cur.Cluster.brokers.set(r.BrokerID, brokerFromRecord(r))
		return true, nil
	case *recordschema.UnregisterBrokerRecord:
		return true, s.replayUnregister(r)
	case *recordschema.FenceBrokerRecord:
		return true, s.changeBroker(r.ID, r.Epoch, func(b *Broker) { b.Fenced = true })
	case *recordschema.UnfenceBrokerRecord:
		return true, s.changeBroker(r.ID, r.Epoch, func(b *Broker) { b.Fenced = false })
	case *recordschema.BrokerRegistrationChangeRecord:
		return true, s.replayRegistrationChange(r)
	case *recordschema.RegisterControllerRecord:
		s.cur.Cluster.controllers.set(r.ControllerID, controllerFromRecord(r))
		return true, nil
	}
	return false, nil
}

// replaySecurity applies quota, ACL, SCRAM and token records.
func (s *State) replaySecurity(rec recordschema.MetadataRecord) error {
	switch r := rec.(type) {
	case *recordschema.ClientQuotaRecord:
		s.cur.ClientQuotas.replay(r)
	case *recordschema.AccessControlEntryRecord:
		s.cur.ACLs.byID.set(uuidKey(r.ID), aclFromRecord(r))
	case *recordschema.RemoveAccessControlEntryRecord:
		if !s.cur.ACLs.byID.del(uuidKey(r.ID)) {
			return fmt.Errorf("%w: no ACL with id %s", ErrReplay, r.ID)
		}
	case *recordschema.UserScramCredentialRecord:
		s.cur.Scram.byUser.set(scramKey(r.Mechanism, r.Name), scramFromRecord(r))
	case *recordschema.RemoveUserScramCredentialRecord:
		s.cur.Scram.byUser.del(scramKey(r.Mechanism, r.Name))
	case *recordschema.DelegationTokenRecord:
		s.cur.Tokens.byID.set(r.TokenID, tokenFromRecord(r))
	case *recordschema.RemoveDelegationTokenRecord:
		s.cur.Tokens.byID.del(r.TokenID)
	case *recordschema.NoOpRecord, *recordschema.ZkMigrationStateRecord,
		*recordschema.BeginTransactionRecord, *recordschema.EndTransactionRecord,
		*recordschema.AbortTransactionRecord:
	default:
		return fmt.Errorf("%w: no replay for %s", ErrReplay, recordschema.Name(rec))
	}
	return nil
}

func (s *State) replayUnregister(r *recordschema.UnregisterBrokerRecord) error {
	b, ok := s.cur.Cluster.Broker(r.BrokerID)
	if !ok {
		return fmt.Errorf("%w: unregister broker %d: it is not registered", ErrReplay, r.BrokerID)
	}
	if b.Epoch != r.BrokerEpoch {
		return fmt.Errorf("%w: unregister broker %d of epoch %d: its epoch is %d", ErrReplay, r.BrokerID, r.BrokerEpoch, b.Epoch)
	}
	s.cur.Cluster.brokers.del(r.BrokerID)
	return nil
}

func (s *State) changeBroker(id int32, epoch int64, change func(*Broker)) error {
	b, ok := s.cur.Cluster.Broker(id)
	if !ok {
		return fmt.Errorf("%w: change broker %d: it is not registered", ErrReplay, id)
	}
	if b.Epoch != epoch {
		return fmt.Errorf("%w: change broker %d of epoch %d: its epoch is %d", ErrReplay, id, epoch, b.Epoch)
	}
	next := *b
	change(&next)
	s.cur.Cluster.brokers.set(id, &next)
	return nil
}

func (s *State) replayRegistrationChange(r *recordschema.BrokerRegistrationChangeRecord) error {
	if r.Fenced < recordschema.FencingUnfence || r.Fenced > recordschema.FencingFence {
		return fmt.Errorf("%w: change broker %d: fenced is %d", ErrReplay, r.BrokerID, r.Fenced)
	}
	if r.InControlledShutdown != 0 && r.InControlledShutdown != recordschema.ControlledShutdownEntered {
		return fmt.Errorf("%w: change broker %d: inControlledShutdown is %d", ErrReplay, r.BrokerID, r.InControlledShutdown)
	}
	return s.changeBroker(r.BrokerID, r.BrokerEpoch, func(b *Broker) {
		if r.Fenced != recordschema.FencingUnchanged {
			b.Fenced = r.Fenced == recordschema.FencingFence
		}
		if r.InControlledShutdown == recordschema.ControlledShutdownEntered {
			b.InControlledShutdown = true
		}
		if len(r.LogDirs) > 0 {
			b.LogDirs = sortedDirs(r.LogDirs)
		}
		if r.CordonedLogDirs != nil {
			b.CordonedLogDirs = slices.Clone(r.CordonedLogDirs)
		}
	})
}

func sortedDirs(dirs []types.UUID) []types.UUID {
	if len(dirs) == 0 {
		return nil
	}
	out := slices.Clone(dirs)
	slices.SortFunc(out, CompareUUID)
	return out
}

func endpointsFromRecord(in []recordschema.NodeEndpoint) []types.Endpoint {
	out := make([]types.Endpoint, 0, len(in))
	for _, e := range in {
		out = append(out, types.Endpoint{Listener: e.Name, SecurityProtocol: e.SecurityProtocol, Host: e.Host, Port: int32(e.Port)})
	}
	return out
}

func featuresFromRecord(in []recordschema.NodeFeature) map[string]FeatureRange {
	out := make(map[string]FeatureRange, len(in))
	for _, f := range in {
		out[f.Name] = FeatureRange{Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion}
	}
	return out
}

func brokerFromRecord(r *recordschema.RegisterBrokerRecord) *Broker {
	return &Broker{
		ID: r.BrokerID, Epoch: r.BrokerEpoch, IncarnationID: r.IncarnationID,
		Endpoints: endpointsFromRecord(r.EndPoints), Features: featuresFromRecord(r.Features),
		Rack: r.Rack, Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown,
		LogDirs: sortedDirs(r.LogDirs), CordonedLogDirs: slices.Clone(r.CordonedLogDirs),
	}
}

func controllerFromRecord(r *recordschema.RegisterControllerRecord) *Controller {
	return &Controller{
		ID: r.ControllerID, IncarnationID: r.IncarnationID, ZkMigrationReady: r.ZkMigrationReady,
		Endpoints: endpointsFromRecord(r.EndPoints), Features: featuresFromRecord(r.Features),
	}
}

func aclFromRecord(r *recordschema.AccessControlEntryRecord) *ACL {
	return &ACL{
		ID: r.ID, ResourceType: r.ResourceType, ResourceName: r.ResourceName, PatternType: r.PatternType,
		Principal: r.Principal, Host: r.Host, Operation: r.Operation, PermissionType: r.PermissionType,
	}
}

func scramFromRecord(r *recordschema.UserScramCredentialRecord) *ScramCredential {
	return &ScramCredential{
		Mechanism: r.Mechanism, User: r.Name, Salt: r.Salt, StoredKey: r.StoredKey,
		ServerKey: r.ServerKey, Iterations: r.Iterations,
	}
}

func tokenFromRecord(r *recordschema.DelegationTokenRecord) *Token {
	return &Token{
		ID: r.TokenID, Owner: r.Owner, Requester: r.Requester, Renewers: r.Renewers,
		IssueMs: r.IssueTimestamp, MaxMs: r.MaxTimestamp, ExpirationMs: r.ExpirationTimestamp,
	}
}
