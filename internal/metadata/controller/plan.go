package controller

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// plan collects the records of one command. Partitions that it changes are seen
// changed by the rest of the same command, so that no partition is decided twice
// from the same starting point.
type plan struct {
	c       *Core
	records []recordschema.MetadataRecord
	changed map[partKey]*image.Partition
}

func (c *Core) newPlan() *plan { return &plan{c: c} }

func (p *plan) add(r recordschema.MetadataRecord) { p.records = append(p.records, r) }

func (p *plan) partition(k partKey) (*image.Partition, bool) {
	if part, ok := p.changed[k]; ok {
		return part, true
	}
	return p.c.now().Topics.Partition(k.topic, k.id)
}

// change starts a change of part with everything as it is.
func (p *plan) change(k partKey, part *image.Partition, topic string) *change {
	c := p.c
	b := &change{
		part: part, key: k, election: electOnline, minISR: c.effectiveMinISR(topic), elr: c.now().Features.ELREnabled(),
		isr: part.ISR, replicas: part.Replicas, adding: part.AddingReplicas, removing: part.RemovingReplicas,
		recovery: part.LeaderRecoveryState, defaultDir: c.defaultDir,
	}
	b.acceptable = c.acceptableLeader(part, c.isActive)
	return b
}

// commit builds the change and adds its record. It returns the partition as it
// is from then on and the record, which is nil when nothing changes.
func (p *plan) commit(b *change) (*image.Partition, *recordschema.PartitionChangeRecord) {
	rec := b.build()
	if rec == nil {
		return b.part, nil
	}
	next, err := b.part.Merge(rec)
	if err != nil { // build keeps replicas and directories aligned
		return b.part, nil
	}
	if p.changed == nil {
		p.changed = map[partKey]*image.Partition{}
	}
	p.changed[b.key] = next
	p.add(rec)
	return next, rec
}

// acceptableLeader says which replicas of part could lead, given which brokers
// count as alive.
func (c *Core) acceptableLeader(part *image.Partition, alive func(int32) bool) func(int32) bool {
	return func(id int32) bool {
		if !alive(id) {
			return false
		}
		b, ok := c.now().Cluster.Broker(id)
		if !ok {
			return false
		}
		dir, assigned := part.Directory(id)
		return assigned && b.HasOnlineDir(dir)
	}
}

// isActive: registered, unfenced, not in controlled shutdown.
func (c *Core) isActive(id int32) bool {
	b, ok := c.now().Cluster.Broker(id)
	return ok && !b.Fenced && !b.InControlledShutdown
}

// defaultDir is where a new replica on a broker goes as far as the controller
// can tell: the only directory, or "the broker will say" (KIP-858).
func (c *Core) defaultDir(id int32) types.UUID {
	b, ok := c.now().Cluster.Broker(id)
	switch {
	case !ok || len(b.LogDirs) > 1:
		return types.UnassignedDir
	case len(b.LogDirs) == 1:
		return b.LogDirs[0]
	}
	return types.ZeroUUID // MIGRATING: the broker's directories are unknown
}

// topicConfig is the value in force for a topic: topic, this node, cluster
// default, static (ConfigurationControlManager.getTopicConfig).
func (c *Core) topicConfig(topic, key string) string {
	configs := c.now().Configs
	if v, ok := configs.Value(image.ResourceTopic, topic, key); ok {
		return v
	}
	if v, ok := configs.Value(image.ResourceBroker, strconv.Itoa(int(c.opts.NodeID)), key); ok {
		return v
	}
	if v, ok := configs.Value(image.ResourceBroker, "", key); ok {
		return v
	}
	return c.opts.Configs.Default(image.ResourceTopic, key)
}

// effectiveMinISR is min.insync.replicas, at most the replication factor.
func (c *Core) effectiveMinISR(topic string) int {
	n, err := strconv.Atoi(strings.TrimSpace(c.topicConfig(topic, configMinISR)))
	if err != nil || n < 1 {
		n = 1 // Kafka's default; validation keeps other values out
	}
	if t, ok := c.now().Topics.ByName(topic); ok && len(t.Partitions) > 0 {
		n = min(n, len(t.Partitions[0].Replicas))
	}
	return n
}

func (c *Core) uncleanElectionEnabled(topic string) bool {
	return strings.EqualFold(strings.TrimSpace(c.topicConfig(topic, configUncleanElection)), "true")
}

// leaderUpdate says what happened to brokers; NoLeader is "none".
type leaderUpdate struct {
	remove  int32 // leaves ISRs and leaderships
	add     int32 // may lead from now on, though still fenced in the state
	unclean int32 // came back after losing its page cache: leaves ISR and ELR
}

// updateLeaders changes ISR, ELR and leader of each partition as the update
// demands (ReplicationControlManager.generateLeaderAndIsrUpdates).
func (p *plan) updateLeaders(u leaderUpdate, set *keySet) {
	alive := func(id int32) bool {
		return id != u.remove && id != u.unclean && (id == u.add || p.c.isActive(id))
	}
	for k := range keys(set) {
		part, ok := p.partition(k)
		if !ok {
			continue
		}
		topic, ok := p.c.now().Topics.ByID(k.topic)
		if !ok {
			continue
		}
		b := p.change(k, part, topic.Name)
		b.acceptable = p.c.acceptableLeader(part, alive)
		if p.c.uncleanElectionEnabled(topic.Name) {
			b.election = electUnclean
		}
		if u.unclean != recordschema.NoLeader {
			b.uncleanShutdown = []int32{u.unclean}
		}
		if slices.Contains(part.ISR, u.remove) || slices.Contains(part.ISR, u.unclean) {
			b.isr = without(part.ISR, u.remove, u.unclean)
		}
		p.commit(b)
	}
}
