package group

import (
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/coordinator/group/classic"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/timers"
	"github.com/tidemark-io/tidemark/internal/timeline"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Config is the part of the configuration that decides.
type Config struct {
	// MetadataMaxChars is offset.metadata.max.bytes; despite its name Kafka
	// counts UTF-16 characters. Default 4096.
	MetadataMaxChars int
	// OffsetsRetentionMs is offsets.retention.minutes. Default 7 days.
	OffsetsRetentionMs int64
	Classic            classic.Config
	Consumer           consumer.Config
	Migration          Migration
	// NewPartitionsEarliest is group.new.partitions.start=earliest, for what a
	// shard finds when it is loaded.
	NewPartitionsEarliest bool
	// Metadata returns the topics of the cluster as they are now; every request
	// works with one answer. Default: there are none.
	Metadata func() consumer.Metadata
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	return Config{MetadataMaxChars: 4096, OffsetsRetentionMs: 10080 * 60_000, Classic: classic.DefaultConfig(), Consumer: consumer.DefaultConfig(), Migration: Migration{true, true}}
}

// Shard is the groups of one partition of __consumer_offsets.
type Shard struct {
	cfg    Config
	reg    *timeline.Registry
	groups *timeline.Map[string, *groupState]
	// pending holds the offsets of open transactions by producer id, in log order.
	pending *timeline.Map[int64, []pendingOffset]
	next    int64 // offset of the record to come

	// Soft state: not in the log, made again when the shard is loaded.
	timers timers.Set
	live   map[string]*classic.Group // the classic groups at work
	env    consumer.Env              // what consumer groups share
}

// groupState is what the log says of one group.
type groupState struct {
	offsets *timeline.Map[types.TopicPartition, Offset]
	// open holds the producers with an undecided commit of a partition.
	open *timeline.Map[types.TopicPartition, []int64]
	// classic is the last GroupMetadata record; none for a simple group.
	classic *timeline.Map[struct{}, *kmsg.GroupMetadataValue]
	// consumer is the group under KIP-848; nil when it never was one.
	consumer *consumer.Group
}

// Offset is one committed offset.
type Offset struct {
	Offset       int64
	LeaderEpoch  int32 // -1: none
	Metadata     string
	CommitTimeMs int64
	ExpireTimeMs int64 // -1: by the retention setting
	TopicID      types.UUID
	RecordOffset int64 // where in the partition it is written
}

type pendingOffset struct {
	group string
	tp    types.TopicPartition
	value Offset
}

// NewShard returns a shard without groups.
func NewShard(cfg Config) *Shard {
	reg := &timeline.Registry{}
	s := &Shard{
		cfg: cfg, reg: reg,
		groups:  timeline.NewMap[string, *groupState](reg),
		pending: timeline.NewMap[int64, []pendingOffset](reg),
		live:    map[string]*classic.Group{},
	}
	s.env = consumer.Env{Config: &s.cfg.Consumer, Timers: &s.timers}
	s.sync()
	return s
}

// sync takes the newest metadata for the next step.
func (s *Shard) sync() {
	if s.cfg.Metadata == nil {
		s.env.Metadata = consumer.NoMetadata{}
		return
	}
	s.env.Metadata = s.cfg.Metadata()
}

// Configure changes the settings; the next request uses them.
func (s *Shard) Configure(cfg Config) { s.cfg = cfg }

// Commit notes that the partition is committed below offset.
func (s *Shard) Commit(offset int64) { s.reg.Commit(offset) }

// Revert forgets every record at or above offset: their append failed.
func (s *Shard) Revert(offset int64) {
	s.reg.Revert(offset)
	s.next = min(s.next, offset)
}

// Len returns the number of groups, uncommitted ones included.
func (s *Shard) Len() int { return s.groups.Len() }

func (s *Shard) group(id string, asOf int64) (*groupState, bool) { return s.groups.Get(id, asOf) }

func (s *Shard) newGroup() *groupState {
	return &groupState{
		offsets: timeline.NewMap[types.TopicPartition, Offset](s.reg),
		open:    timeline.NewMap[types.TopicPartition, []int64](s.reg),
		classic: timeline.NewMap[struct{}, *kmsg.GroupMetadataValue](s.reg),
	}
}

// bare reports a group of which the log says nothing any more.
func (g *groupState) bare() bool {
	return g.offsets.Len() == 0 && g.open.Len() == 0 && g.classic.Len() == 0 && (g.consumer == nil || !g.consumer.Known(latest))
}

// charCount is the length of s in UTF-16 code units, as String.length counts.
func charCount(s string) int {
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}
