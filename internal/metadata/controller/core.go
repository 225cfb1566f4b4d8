package controller

import (
	"fmt"
	"strings"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Result is what a command decided.
type Result[T any] struct {
	// Records to append, in order; empty when nothing changes.
	Records []recordschema.MetadataRecord
	// Response to send once Records are committed.
	Response T
	// Atomic asks that Records land in one batch: replaying a part of them would
	// show a state that never was.
	Atomic bool
	// Refused says for the operator's log why the response carries an error that
	// has no message field of its own; "" otherwise.
	Refused string
}

// Options are the settings of a Core. Zero values mean Kafka's defaults.
type Options struct {
	// NodeID is this controller's id; ClusterID the cluster's.
	NodeID    int32
	ClusterID string
	// SessionTimeoutMs is broker.session.timeout.ms (9000).
	SessionTimeoutMs int64
	// DefaultReplicationFactor is default.replication.factor (1).
	DefaultReplicationFactor int16
	// DefaultNumPartitions is num.partitions (1).
	DefaultNumPartitions int32
	// UncleanElectionIntervalMs is unclean.leader.election.interval.ms (300000).
	UncleanElectionIntervalMs int64
	// LeaderImbalanceCheckIntervalMs is leader.imbalance.check.interval.seconds
	// (300) in ms; negative turns automatic preferred elections off
	// (auto.leader.rebalance.enable=false).
	LeaderImbalanceCheckIntervalMs int64
	// Features are the levels that this controller supports, by feature name; nil
	// means SupportedFeatures().
	Features map[string]image.FeatureRange
	// KRaftVersion is the level of kraft.version that the quorum runs at. It is
	// kept by the quorum, not by FeatureLevel records.
	KRaftVersion int16
	// Voters are the ids of the quorum's voters: a feature may be raised only
	// when each has registered. Empty means this node alone.
	Voters []int32
	// Configs answers questions about config keys; nil accepts everything.
	Configs ConfigSchema
}

// Bounds of one command, as in Kafka.
const (
	maxPartitionsPerRequest  = 10_000 // CreateTopics, CreatePartitions
	maxRecordsPerUserOp      = 10_000 // QuorumController.MAX_RECORDS_PER_USER_OP
	maxElectionsPerTick      = 1_000  // ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE
	defaultSessionTimeoutMs  = 9_000
	defaultUncleanIntervalMs = 300_000
	defaultBalanceIntervalMs = 300_000
	configMinISR             = "min.insync.replicas"
	configUncleanElection    = "unclean.leader.election.enable"
	errExcessivelyLargeBatch = "Unable to perform excessively large batch operation."
)

// ConfigSchema is what the core must know about config keys. Errors carry a
// code (kerrors.InvalidConfig when they carry none) and the client's message.
type ConfigSchema interface {
	// Validate checks the configs a resource would have after a change.
	Validate(r image.Resource, existing, proposed map[string]string) error
	// List reports whether key is of type LIST, which alone may be appended to.
	List(t image.ResourceType, key string) bool
	// Default is the value in force for a key that no dynamic config sets: from
	// the static file, else Kafka's default. "" when there is none.
	Default(t image.ResourceType, key string) string
}

// Core is the controller's state machine. Make a fresh one on every leadership.
type Core struct {
	opts  Options
	state *image.State
	index *partitionIndex

	// collisions maps a topic name with '.' replaced by '_' to the topics that
	// have such a name: metrics cannot tell them apart.
	collisions map[string]map[string]struct{}
	// dirOwner says which broker a log directory belongs to.
	dirOwner map[types.UUID]int32
	// registeredAt is an offset that is not below the broker's last
	// RegisterBrokerRecord: a broker is unfenced once it has read so far.
	registeredAt map[int32]int64

	// Soft state.
	contacts      map[brokerSession]int64 // time of the last heartbeat
	localHeard    bool                    // a heartbeat came from the broker of this very node
	progress      map[int32]*brokerProgress
	nextUncleanMs int64
	nextBalanceMs int64
}

// brokerSession names one incarnation of a broker.
type brokerSession struct {
	id    int32
	epoch int64
}

// brokerProgress is what a broker reported in its heartbeats.
type brokerProgress struct {
	// metadataOffset is the last offset the broker has applied; -1 unknown.
	metadataOffset int64
	// shutdownOffset is the offset other brokers must have read before a broker
	// in controlled shutdown may stop; -1 when it is not in one.
	shutdownOffset int64
}

// New starts from the committed image at the moment this node becomes leader.
// nowMs counts as the last contact of every unfenced broker.
func New(im *image.Image, opts Options, nowMs int64) *Core {
	c := &Core{
		opts: opts.withDefaults(), state: image.NewState(im), index: newPartitionIndex(),
		collisions: map[string]map[string]struct{}{}, dirOwner: map[types.UUID]int32{},
		registeredAt: map[int32]int64{}, contacts: map[brokerSession]int64{},
		progress: map[int32]*brokerProgress{},
	}
	for t := range im.Topics.All() {
		c.addName(t.Name)
		for i, p := range t.Partitions {
			c.index.update(partKey{t.ID, int32(i)}, nil, p)
		}
	}
	for b := range im.Cluster.All() {
		c.registeredAt[b.ID] = im.Offset
		c.progress[b.ID] = &brokerProgress{metadataOffset: -1, shutdownOffset: -1}
		for _, dir := range b.LogDirs {
			c.dirOwner[dir] = b.ID
		}
		if !b.Fenced {
			c.contacts[brokerSession{b.ID, b.Epoch}] = nowMs
		}
	}
	c.nextUncleanMs = nowMs + c.opts.UncleanElectionIntervalMs
	c.nextBalanceMs = nowMs + c.opts.LeaderImbalanceCheckIntervalMs
	return c
}

func (o Options) withDefaults() Options {
	if o.SessionTimeoutMs == 0 {
		o.SessionTimeoutMs = defaultSessionTimeoutMs
	}
	if o.DefaultReplicationFactor == 0 {
		o.DefaultReplicationFactor = 1
	}
	if o.DefaultNumPartitions == 0 {
		o.DefaultNumPartitions = 1
	}
	if o.UncleanElectionIntervalMs == 0 {
		o.UncleanElectionIntervalMs = defaultUncleanIntervalMs
	}
	if o.LeaderImbalanceCheckIntervalMs == 0 {
		o.LeaderImbalanceCheckIntervalMs = defaultBalanceIntervalMs
	}
	if o.Features == nil {
		o.Features = SupportedFeatures()
	}
	if o.Configs == nil {
		o.Configs = anyConfig{}
	}
	return o
}

// anyConfig accepts every config.
type anyConfig struct{}

func (anyConfig) Validate(image.Resource, map[string]string, map[string]string) error { return nil }
func (anyConfig) List(image.ResourceType, string) bool                                { return false }
func (anyConfig) Default(image.ResourceType, string) string                           { return "" }

// Image is the speculative state: everything appended, committed or not. O(1).
func (c *Core) Image() *image.Image {
	cur := c.state.Current()
	return c.state.Image(cur.Offset, cur.Epoch)
}

// now is the state for reading within a command.
func (c *Core) now() *image.Image { return c.state.Current() }

// Replay applies a record that was appended at offset. An error means that this
// core and the log disagree; the shell must step down.
func (c *Core) Replay(rec recordschema.MetadataRecord, offset int64) error {
	before := c.before(rec)
	if err := c.state.Replay(rec); err != nil {
		return fmt.Errorf("controller: metadata offset %d: %w", offset, err)
	}
	c.now().Offset = offset
	c.after(rec, offset, before)
	return nil
}

// snapshot of what a record is about to change, for the indexes.
type beforeReplay struct {
	topics    []*image.Topic // as they were; partitions are immutable
	partition *image.Partition
	broker    *image.Broker
}

func (c *Core) before(rec recordschema.MetadataRecord) beforeReplay {
	im := c.now()
	var b beforeReplay
	switch r := rec.(type) {
	case *recordschema.PartitionRecord:
		b.partition, _ = im.Topics.Partition(r.TopicID, r.PartitionID)
	case *recordschema.PartitionChangeRecord:
		b.partition, _ = im.Topics.Partition(r.TopicID, r.PartitionID)
	case *recordschema.RemoveTopicRecord:
		if t, ok := im.Topics.ByID(r.TopicID); ok {
			b.topics = []*image.Topic{t}
		}
	case *recordschema.ClearElrRecord:
		b.topics = topicsToClear(im, r.TopicName)
	case *recordschema.RegisterBrokerRecord:
		b.broker, _ = im.Cluster.Broker(r.BrokerID)
	case *recordschema.UnregisterBrokerRecord:
		b.broker, _ = im.Cluster.Broker(r.BrokerID)
	case *recordschema.BrokerRegistrationChangeRecord:
		b.broker, _ = im.Cluster.Broker(r.BrokerID)
	}
	return b
}

// topicsToClear copies the partition slices: the state may write them in place.
func topicsToClear(im *image.Image, name string) []*image.Topic {
	var out []*image.Topic
	for t := range im.Topics.All() {
		if name == "" || t.Name == name {
			out = append(out, &image.Topic{ID: t.ID, Name: t.Name, Partitions: append([]*image.Partition(nil), t.Partitions...)})
		}
	}
	return out
}

func (c *Core) after(rec recordschema.MetadataRecord, offset int64, b beforeReplay) {
	im := c.now()
	switch r := rec.(type) {
	case *recordschema.TopicRecord:
		c.addName(r.Name)
	case *recordschema.PartitionRecord:
		next, _ := im.Topics.Partition(r.TopicID, r.PartitionID)
		c.index.update(partKey{r.TopicID, r.PartitionID}, b.partition, next)
	case *recordschema.PartitionChangeRecord:
		next, _ := im.Topics.Partition(r.TopicID, r.PartitionID)
		c.index.update(partKey{r.TopicID, r.PartitionID}, b.partition, next)
	case *recordschema.RemoveTopicRecord:
		for _, t := range b.topics {
			c.removeName(t.Name)
			for i, p := range t.Partitions {
				c.index.update(partKey{t.ID, int32(i)}, p, nil)
			}
		}
	case *recordschema.ClearElrRecord:
		for _, t := range b.topics {
			for i, p := range t.Partitions {
				next, _ := im.Topics.Partition(t.ID, int32(i))
				c.index.update(partKey{t.ID, int32(i)}, p, next)
			}
		}
	default:
		c.afterBroker(rec, offset, b.broker)
	}
}

func (c *Core) addName(name string) {
	if !hasCollisionChars(name) {
		return
	}
	key := unifyCollisionChars(name)
	if c.collisions[key] == nil {
		c.collisions[key] = map[string]struct{}{}
	}
	c.collisions[key][name] = struct{}{}
}

func (c *Core) removeName(name string) {
	key := unifyCollisionChars(name)
	delete(c.collisions[key], name)
	if len(c.collisions[key]) == 0 {
		delete(c.collisions, key)
	}
}

func hasCollisionChars(name string) bool     { return strings.ContainsAny(name, "._") }
func unifyCollisionChars(name string) string { return strings.ReplaceAll(name, ".", "_") }
