package group

import (
	"iter"
	"maps"
	"slices"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Growth is a topic that gained partitions: From is the first new one, To the
// number of partitions now.
type Growth struct {
	Topic    string
	TopicID  types.UUID
	From, To int32
}

// OnTopicsGrown commits the start of each new partition for every group that
// committed offsets of its topic (group.new.partitions.start=earliest). Without
// that, a member with auto.offset.reset=latest would start behind the records
// that were written before it noticed the partition, and nobody would read them.
// A partition that has an offset, or an undecided one, keeps it.
func (s *Shard) OnTopicsGrown(now coordinator.Now, grown []Growth) coordinator.Result[int] {
	var out coordinator.Result[int]
	for _, id := range s.sortedGroups() {
		if g, ok := s.group(id, latest); ok {
			for _, t := range grown {
				out.Records = append(out.Records, g.starts(now, id, t)...)
			}
		}
	}
	out.Response, out.NonAtomic = len(out.Records), true
	return out
}

// catchUp does the same for what grew while nobody led the shard, or right before
// a crash. Of topics that members have, new is what lies behind the partitions
// that the last assignment dealt out. Of others it is what was added since a
// commit of the group on the topic: while somebody led the shard, such a partition
// got its start committed at once.
func (s *Shard) catchUp(now coordinator.Now, id string) []coordinator.Record {
	g, ok := s.group(id, latest)
	if !ok || g.offsets.Len() == 0 {
		return nil
	}
	dealt := map[string]int32{}
	if cg := s.consumerGroup(id, latest); cg != nil {
		dealt = cg.Dealt()
	} else if c := s.classicGroup(now, id); c != nil {
		dealt = c.Dealt()
	}
	var out []coordinator.Record
	for topic, committedMs := range g.firstCommits() {
		t, ok := s.env.Metadata.Topic(topic)
		if !ok {
			continue
		}
		from, had := dealt[topic]
		if !had {
			from = s.addedSince(topic, t.Partitions, committedMs)
		}
		if from < t.Partitions {
			out = append(out, g.starts(now, id, Growth{Topic: topic, TopicID: t.ID, From: from, To: t.Partitions})...)
		}
	}
	return out
}

// addedSince is the first of n partitions that were added at or after that time.
func (s *Shard) addedSince(topic string, n int32, sinceMs int64) int32 {
	for n > 0 && s.env.Metadata.GrownTimeMs(topic, n-1) >= max(sinceMs, 1) {
		n--
	}
	return n
}

// firstCommits yields the topics that the group has offsets of, and when it
// committed the oldest of them, in the order of their names.
func (g *groupState) firstCommits() iter.Seq2[string, int64] {
	first := map[string]int64{}
	for tp, o := range g.offsets.All(latest) {
		if at, ok := first[tp.Topic]; !ok || o.CommitTimeMs < at {
			first[tp.Topic] = o.CommitTimeMs
		}
	}
	return func(yield func(string, int64) bool) {
		for _, topic := range slices.Sorted(maps.Keys(first)) {
			if !yield(topic, first[topic]) {
				return
			}
		}
	}
}

// starts are the commits of the start of new partitions, for a group that reads
// the topic.
func (g *groupState) starts(now coordinator.Now, id string, t Growth) []coordinator.Record {
	if !g.reads(t) {
		return nil
	}
	var out []coordinator.Record
	for p := t.From; p < t.To; p++ {
		tp := types.TopicPartition{Topic: t.Topic, Partition: p}
		if !g.has(tp) {
			out = append(out, offsetRecord(id, tp, Offset{
				Offset: 0, LeaderEpoch: -1, CommitTimeMs: now.WallMs, ExpireTimeMs: expireByRetention, TopicID: t.TopicID,
			}))
		}
	}
	return out
}

// reads reports that the group has an offset of the topic, of this incarnation.
func (g *groupState) reads(t Growth) bool {
	for p := range t.From {
		o, ok := g.offsets.Get(types.TopicPartition{Topic: t.Topic, Partition: p}, latest)
		if ok && (o.TopicID.IsZero() || o.TopicID == t.TopicID) {
			return true
		}
	}
	return false
}
