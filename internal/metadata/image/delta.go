package image

import (
	"fmt"
	"iter"
	"slices"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Delta collects what changes between a base image and the next one. Replay
// records into it, then Apply. The questions (ChangedTopics and so on) may be
// asked before and after Apply; after Apply no more Replay.
type Delta struct {
	base    *Image
	state   *State
	applied *Image

	topics      map[types.UUID]map[int32]struct{} // touched partitions by topic
	brokers     map[int32]struct{}
	controllers map[int32]struct{}
	configs     map[Resource]struct{}
	features    bool
	quotas      bool
	acls        bool
	scram       bool
	tokens      bool
	producerIDs bool
	snapshot    bool
}

// NewDelta starts a delta on base.
func NewDelta(base *Image) *Delta {
	return &Delta{
		base: base, state: NewState(base),
		topics:  map[types.UUID]map[int32]struct{}{},
		brokers: map[int32]struct{}{}, controllers: map[int32]struct{}{}, configs: map[Resource]struct{}{},
	}
}

// NewSnapshotDelta starts a delta whose records are a whole snapshot: what base
// has and the snapshot lacks is gone (MetadataDelta.finishSnapshot). Its cost
// grows with the whole image.
func NewSnapshotDelta(base *Image) *Delta {
	d := NewDelta(base)
	d.state = NewState(Empty())
	d.snapshot = true
	return d
}

// Base is the image the delta started from.
func (d *Delta) Base() *Image { return d.base }

// Image is the state after the records so far; read only, valid until the next
// Replay (for ever after Apply).
func (d *Delta) Image() *Image {
	if d.applied != nil {
		return d.applied
	}
	return d.state.Current()
}

// Replay applies the record at offset. An error wraps ErrReplay and leaves the
// delta as it was.
func (d *Delta) Replay(rec recordschema.MetadataRecord, offset int64) error {
	var removed *Topic
	if r, ok := rec.(*recordschema.RemoveTopicRecord); ok {
		removed, _ = d.state.cur.Topics.ByID(r.TopicID)
	}
	if r, ok := rec.(*recordschema.ClearElrRecord); ok {
		d.noteClearElr(r)
	}
	if err := d.state.Replay(rec); err != nil {
		return fmt.Errorf("metadata offset %d: %w", offset, err)
	}
	d.note(rec)
	if removed != nil {
		d.configs[Resource{ResourceTopic, removed.Name}] = struct{}{}
	}
	return nil
}

// Apply freezes the result as the image whose last offset and epoch are given.
func (d *Delta) Apply(offset int64, epoch int32) *Image {
	if d.snapshot {
		d.noteSnapshot()
	}
	d.applied = d.state.Image(offset, epoch)
	return d.applied
}

func (d *Delta) touch(id types.UUID, partition int32) {
	parts := d.touchTopic(id)
	parts[partition] = struct{}{}
}

func (d *Delta) touchTopic(id types.UUID) map[int32]struct{} {
	parts := d.topics[id]
	if parts == nil {
		parts = map[int32]struct{}{}
		d.topics[id] = parts
	}
	return parts
}

func (d *Delta) note(rec recordschema.MetadataRecord) {
	switch r := rec.(type) {
	case *recordschema.TopicRecord:
		d.touchTopic(r.TopicID)
	case *recordschema.PartitionRecord:
		d.touch(r.TopicID, r.PartitionID)
	case *recordschema.PartitionChangeRecord:
		d.touch(r.TopicID, r.PartitionID)
	case *recordschema.RemoveTopicRecord:
		d.touchTopic(r.TopicID)
	case *recordschema.ConfigRecord:
		d.configs[Resource{ResourceType(r.ResourceType), r.ResourceName}] = struct{}{}
	case *recordschema.RegisterBrokerRecord:
		d.brokers[r.BrokerID] = struct{}{}
	case *recordschema.UnregisterBrokerRecord:
		d.brokers[r.BrokerID] = struct{}{}
	case *recordschema.FenceBrokerRecord:
		d.brokers[r.ID] = struct{}{}
	case *recordschema.UnfenceBrokerRecord:
		d.brokers[r.ID] = struct{}{}
	case *recordschema.BrokerRegistrationChangeRecord:
		d.brokers[r.BrokerID] = struct{}{}
	case *recordschema.RegisterControllerRecord:
		d.controllers[r.ControllerID] = struct{}{}
	default:
		d.noteRest(rec)
	}
}

func (d *Delta) noteRest(rec recordschema.MetadataRecord) {
	switch rec.(type) {
	case *recordschema.FeatureLevelRecord:
		d.features = true
	case *recordschema.ClientQuotaRecord:
		d.quotas = true
	case *recordschema.AccessControlEntryRecord, *recordschema.RemoveAccessControlEntryRecord:
		d.acls = true
	case *recordschema.UserScramCredentialRecord, *recordschema.RemoveUserScramCredentialRecord:
		d.scram = true
	case *recordschema.DelegationTokenRecord, *recordschema.RemoveDelegationTokenRecord:
		d.tokens = true
	case *recordschema.ProducerIdsRecord:
		d.producerIDs = true
	}
}

// noteClearElr runs before the replay: afterwards nothing shows which
// partitions had an ELR.
func (d *Delta) noteClearElr(r *recordschema.ClearElrRecord) {
	for t := range d.state.cur.Topics.All() {
		if r.TopicName != "" && r.TopicName != t.Name {
			continue
		}
		for i, p := range t.Partitions {
			if len(p.ELR) > 0 || len(p.LastKnownELR) > 0 {
				d.touch(t.ID, int32(i))
			}
		}
	}
}

// noteSnapshot marks what base has: the questions compare, so that what is
// equal on both sides may be reported but what is gone never is missed.
func (d *Delta) noteSnapshot() {
	for t := range d.base.Topics.All() {
		for i := range t.Partitions {
			d.touch(t.ID, int32(i))
		}
		d.touchTopic(t.ID)
	}
	for b := range d.base.Cluster.All() {
		d.brokers[b.ID] = struct{}{}
	}
	for c := range d.base.Cluster.Controllers() {
		d.controllers[c.ID] = struct{}{}
	}
	for r := range d.base.Configs.All() {
		d.configs[r] = struct{}{}
	}
	d.features, d.quotas, d.acls, d.scram, d.tokens, d.producerIDs = true, true, true, true, true, true
}

// ChangedBrokers yields the ids of brokers that were registered, changed or
// unregistered, ascending; look them up in both images.
func (d *Delta) ChangedBrokers() iter.Seq[int32] { return sortedInts(d.brokers) }

// ChangedControllers is ChangedBrokers for controllers.
func (d *Delta) ChangedControllers() iter.Seq[int32] { return sortedInts(d.controllers) }

// ChangedConfigs yields the resources whose configs may have changed, by type
// and name. A deleted topic is among them.
func (d *Delta) ChangedConfigs() iter.Seq[Resource] {
	list := make([]Resource, 0, len(d.configs))
	for r := range d.configs {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Resource) int {
		if a.key() < b.key() {
			return -1
		}
		return 1
	})
	return slices.Values(list)
}

// FeaturesChanged reports whether a feature level was written.
func (d *Delta) FeaturesChanged() bool { return d.features }

// ClientQuotasChanged reports whether a quota was written.
func (d *Delta) ClientQuotasChanged() bool { return d.quotas }

// ACLsChanged reports whether an ACL was written.
func (d *Delta) ACLsChanged() bool { return d.acls }

// ScramChanged reports whether a SCRAM credential was written.
func (d *Delta) ScramChanged() bool { return d.scram }

// TokensChanged reports whether a delegation token was written.
func (d *Delta) TokensChanged() bool { return d.tokens }

// ProducerIDsChanged reports whether a producer id block was given out.
func (d *Delta) ProducerIDsChanged() bool { return d.producerIDs }

func sortedInts(m map[int32]struct{}) iter.Seq[int32] {
	ids := make([]int32, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Values(ids)
}
