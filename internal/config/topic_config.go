package config

import (
	"math"
	"slices"
)

// TopicConfig is what one topic's log reads, resolved and typed. Field names
// follow the keys; a field's comment names the key where the two differ.
// Sizes are bytes, times milliseconds, unless the name says otherwise.
type TopicConfig struct {
	CleanupDelete  bool // cleanup.policy contains delete
	CleanupCompact bool // cleanup.policy contains compact

	CompressionType      string // producer, uncompressed, gzip, snappy, lz4 or zstd
	CompressionGzipLevel int
	CompressionLZ4Level  int
	CompressionZstdLevel int

	RetentionMs    int64 // -1: no limit
	RetentionBytes int64 // below 0: no limit
	// LocalRetentionMs and LocalRetentionBytes are resolved: -2 in the
	// configuration has become the total retention.
	LocalRetentionMs    int64
	LocalRetentionBytes int64

	SegmentBytes       int
	SegmentMs          int64
	SegmentJitterMs    int64
	SegmentIndexBytes  int
	IndexIntervalBytes int
	FileDeleteDelayMs  int64
	Preallocate        bool

	FlushMessages int64
	FlushMs       int64

	MaxMessageBytes             int
	MessageTimestampLogAppend   bool // message.timestamp.type=LogAppendTime
	MessageTimestampBeforeMaxMs int64
	MessageTimestampAfterMaxMs  int64

	MinInsyncReplicas           int
	UncleanLeaderElectionEnable bool

	MinCleanableDirtyRatio float64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	DeleteRetentionMs      int64

	RemoteStorageEnable      bool
	RemoteLogCopyDisable     bool
	RemoteLogDeleteOnDisable bool

	LeaderReplicationThrottledReplicas   []string
	FollowerReplicationThrottledReplicas []string

	Durability Durability // ours
}

// DefaultTopicConfig returns the configuration of a topic that sets nothing on
// a broker that sets nothing.
func DefaultTopicConfig() TopicConfig {
	return TopicConfig{
		CleanupDelete:               true,
		CompressionType:             "producer",
		CompressionGzipLevel:        -1,
		CompressionLZ4Level:         9,
		CompressionZstdLevel:        3,
		RetentionMs:                 604800000,
		RetentionBytes:              -1,
		LocalRetentionMs:            604800000,
		LocalRetentionBytes:         -1,
		SegmentBytes:                1 << 30,
		SegmentMs:                   604800000,
		SegmentIndexBytes:           10 << 20,
		IndexIntervalBytes:          4096,
		FileDeleteDelayMs:           60000,
		FlushMessages:               math.MaxInt64,
		FlushMs:                     math.MaxInt64,
		MaxMessageBytes:             1048588,
		MessageTimestampBeforeMaxMs: math.MaxInt64,
		MessageTimestampAfterMaxMs:  3600000,
		MinInsyncReplicas:           1,
		MinCleanableDirtyRatio:      0.5,
		MaxCompactionLagMs:          math.MaxInt64,
		DeleteRetentionMs:           86400000,
	}
}

// ToTopicConfig converts the settings of one topic. r must come from
// Effective(ScopeTopic, ...).
func ToTopicConfig(r Resolved) TopicConfig {
	policy := r.List("cleanup.policy")
	c := TopicConfig{
		CleanupDelete:  slices.Contains(policy, "delete"),
		CleanupCompact: slices.Contains(policy, "compact"),

		CompressionType:      r.String("compression.type"),
		CompressionGzipLevel: r.Int("compression.gzip.level"),
		CompressionLZ4Level:  r.Int("compression.lz4.level"),
		CompressionZstdLevel: r.Int("compression.zstd.level"),

		RetentionMs:         r.Long("retention.ms"),
		RetentionBytes:      r.Long("retention.bytes"),
		LocalRetentionMs:    r.Long("local.retention.ms"),
		LocalRetentionBytes: r.Long("local.retention.bytes"),

		SegmentBytes:       r.Int("segment.bytes"),
		SegmentMs:          r.Long("segment.ms"),
		SegmentJitterMs:    r.Long("segment.jitter.ms"),
		SegmentIndexBytes:  r.Int("segment.index.bytes"),
		IndexIntervalBytes: r.Int("index.interval.bytes"),
		FileDeleteDelayMs:  r.Long("file.delete.delay.ms"),
		Preallocate:        r.Bool("preallocate"),
		FlushMessages:      r.Long("flush.messages"),
		FlushMs:            r.Long("flush.ms"),

		MaxMessageBytes:             r.Int("max.message.bytes"),
		MessageTimestampLogAppend:   r.String("message.timestamp.type") == "LogAppendTime",
		MessageTimestampBeforeMaxMs: r.Long("message.timestamp.before.max.ms"),
		MessageTimestampAfterMaxMs:  r.Long("message.timestamp.after.max.ms"),
	}
	if n := r.Int("internal.segment.bytes"); n > 0 {
		c.SegmentBytes = n
	}
	if c.LocalRetentionMs == -2 {
		c.LocalRetentionMs = c.RetentionMs
	}
	if c.LocalRetentionBytes == -2 {
		c.LocalRetentionBytes = c.RetentionBytes
	}
	c.fillReplication(r)
	return c
}

func (c *TopicConfig) fillReplication(r Resolved) {
	c.MinInsyncReplicas = r.Int("min.insync.replicas")
	c.UncleanLeaderElectionEnable = r.Bool("unclean.leader.election.enable")
	c.MinCleanableDirtyRatio = r.Double("min.cleanable.dirty.ratio")
	c.MinCompactionLagMs = r.Long("min.compaction.lag.ms")
	c.MaxCompactionLagMs = r.Long("max.compaction.lag.ms")
	c.DeleteRetentionMs = r.Long("delete.retention.ms")
	c.RemoteStorageEnable = r.Bool("remote.storage.enable")
	c.RemoteLogCopyDisable = r.Bool("remote.log.copy.disable")
	c.RemoteLogDeleteOnDisable = r.Bool("remote.log.delete.on.disable")
	c.LeaderReplicationThrottledReplicas = r.List("leader.replication.throttled.replicas")
	c.FollowerReplicationThrottledReplicas = r.List("follower.replication.throttled.replicas")
	c.Durability, _ = ParseDurability(r.String("durability"))
}

// SegmentMaxAgeMs is the age at which a segment rolls: segment.ms, and for a
// compacted topic no later than max.compaction.lag.ms (LogConfig.maxSegmentMs).
func (c TopicConfig) SegmentMaxAgeMs() int64 {
	if c.CleanupCompact && c.MaxCompactionLagMs > 0 {
		return min(c.MaxCompactionLagMs, c.SegmentMs)
	}
	return c.SegmentMs
}
