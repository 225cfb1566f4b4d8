package groupservice

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/coordinator/runtime"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/types"
)

// topics is the cluster's metadata as groups see it.
type topics struct {
	im      *image.Image
	version int64 // offset of the last change of a topic or a rack
	racks   bool  // some broker has one
}

// Version implements consumer.Metadata.
func (t *topics) Version() int64 { return t.version }

// Topic implements consumer.Metadata.
func (t *topics) Topic(name string) (assignor.Topic, bool) {
	topic, ok := t.im.Topics.ByName(name)
	if !ok {
		return assignor.Topic{}, false
	}
	out := assignor.Topic{ID: topic.ID, Partitions: int32(len(topic.Partitions))}
	if t.racks {
		out.Racks = func(p int32) []string { return t.racksOf(topic.Partitions[p]) }
	}
	return out, true
}

// GrownTimeMs implements consumer.Metadata.
func (t *topics) GrownTimeMs(name string, partition int32) int64 {
	topic, ok := t.im.Topics.ByName(name)
	if !ok || int(partition) >= len(topic.Partitions) {
		return 0
	}
	return topic.Partitions[partition].GrownTimeMs
}

func (t *topics) racksOf(p *image.Partition) []string {
	var out []string
	for _, id := range p.Replicas {
		if b, ok := t.im.Cluster.Broker(id); ok && b.Rack != nil {
			out = append(out, *b.Rack)
		}
	}
	return out
}

// Name implements consumer.Metadata.
func (t *topics) Name(id types.UUID) (string, bool) {
	topic, ok := t.im.Topics.ByID(id)
	if !ok {
		return "", false
	}
	return topic.Name, true
}

// Names implements consumer.Metadata.
func (t *topics) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for topic := range t.im.Topics.All() {
			if !yield(topic.Name) {
				return
			}
		}
	}
}

// OnMetadata takes a new image: the next step of each group sees it. What it
// means for committed offsets is queued before, so that no member is given a new
// partition ahead of its offset.
func (s *Service) OnMetadata(d *image.Delta, im *image.Image) {
	old := s.topics.Load()
	next := &topics{im: im, version: old.version}
	for b := range im.Cluster.All() {
		next.racks = next.racks || b.Rack != nil
	}
	if old.im.Offset < 0 || topicsChanged(d, next.racks) {
		next.version = im.Offset
	}
	if s.opts.Group.NewPartitionsEarliest {
		s.onTopicsGrown(d)
	}
	s.topics.Store(next)
	s.first.Do(func() { close(s.known) })
	s.configs.reset()
	s.OnTopicsDeleted(d)
}

// awaitTopics waits for the first image.
func (s *Service) awaitTopics() {
	select {
	case <-s.known:
	case <-s.stopping.Done():
	}
}

// topicsChanged reports a change that an assignment may depend on.
func topicsChanged(d *image.Delta, racks bool) bool {
	for range d.DeletedTopics() {
		return true
	}
	for c := range d.ChangedTopics() {
		if c.Created() || len(c.Before.Partitions) != len(c.After.Partitions) || racks {
			return true
		}
	}
	for range d.ChangedBrokers() {
		return racks
	}
	return false
}

// onTopicsGrown commits the start of new partitions for the groups that read
// their topics, on every shard; one that loads just now is asked again.
func (s *Service) onTopicsGrown(d *image.Delta) {
	var grown []group.Growth
	for c := range d.ChangedTopics() {
		if !c.Created() && len(c.Before.Partitions) < len(c.After.Partitions) {
			grown = append(grown, group.Growth{
				Topic: c.After.Name, TopicID: c.After.ID, From: int32(len(c.Before.Partitions)), To: int32(len(c.After.Partitions)),
			})
		}
	}
	if len(grown) == 0 {
		return
	}
	for _, tp := range s.runtime.Shards() {
		s.growShard(tp, grown, time.Now().Add(growPatience))
	}
}

// growPatience is how long a shard that cannot be written is asked again, and
// retryPause the time between.
const (
	growPatience = 10 * time.Minute
	retryPause   = 500 * time.Millisecond
)

// later calls f after a pause, unless the service ends.
func (s *Service) later(f func()) {
	timer := time.AfterFunc(retryPause, f)
	context.AfterFunc(s.stopping, func() { timer.Stop() })
}

func (s *Service) growShard(tp types.TopicPartition, grown []group.Growth, until time.Time) {
	runtime.Write(s.runtime, tp, func(g *group.Shard) (coordinator.Result[int], error) { return g.OnTopicsGrown(s.now(), grown), nil }, func(n int, err error) {
		switch {
		case err == nil && n > 0:
			s.opts.Logger.Info("committed the start of new partitions", "partition", tp.String(), "offsets", n)
		case err == nil, kerrors.CodeOf(err) == kerrors.NotCoordinator, time.Now().After(until):
		default:
			s.later(func() { s.growShard(tp, grown, until) })
		}
	})
}

// groupConfigs remembers the settings of groups until the metadata changes: a
// heartbeat asks for them.
type groupConfigs struct {
	of func(*image.Image, string) consumer.GroupConfig

	mu    sync.Mutex // guards cache
	cache map[string]consumer.GroupConfig
}

// maxCachedConfigs bounds the cache: it is filled anew when it is full.
const maxCachedConfigs = 10_000

func (c *groupConfigs) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache = nil
}

func (c *groupConfigs) get(im *image.Image, id string) consumer.GroupConfig {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.cache[id]
	if !ok {
		v = c.of(im, id)
		if c.cache == nil || len(c.cache) >= maxCachedConfigs {
			c.cache = map[string]consumer.GroupConfig{}
		}
		c.cache[id] = v
	}
	return v
}
