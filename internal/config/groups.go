package config

import "strings"

// GroupsConfig is the groups of consumers.
type GroupsConfig struct {
	Classic  ClassicGroupsConfig
	Consumer ConsumerGroupsConfig
	// NewPartitionsEarliest is group.new.partitions.start=earliest: ours.
	NewPartitionsEarliest bool
}

// ClassicGroupsConfig is the classic protocol (JoinGroup, SyncGroup).
type ClassicGroupsConfig struct {
	MinSessionTimeoutMs, MaxSessionTimeoutMs int64
	InitialRebalanceDelayMs                  int64
	MaxSize                                  int
}

// ConsumerGroupsConfig is the protocol of KIP-848.
type ConsumerGroupsConfig struct {
	Enabled              bool // group.coordinator.rebalance.protocols names consumer
	SessionTimeoutMs     int64
	HeartbeatIntervalMs  int64
	AssignmentIntervalMs int64
	Assignors            []string // the first is the default
	MaxSize              int
	MigrationPolicy      string // disabled, downgrade, upgrade or bidirectional
	RegexRefreshMs       int64
}

func (c *ServerConfig) fillGroups(r Resolved) {
	protocols := strings.Join(r.List("group.coordinator.rebalance.protocols"), ",")
	c.Groups = GroupsConfig{
		NewPartitionsEarliest: r.String("group.new.partitions.start") == "earliest",
		Classic: ClassicGroupsConfig{
			MinSessionTimeoutMs:     r.Long("group.min.session.timeout.ms"),
			MaxSessionTimeoutMs:     r.Long("group.max.session.timeout.ms"),
			InitialRebalanceDelayMs: r.Long("group.initial.rebalance.delay.ms"),
			MaxSize:                 r.Int("group.max.size"),
		},
		Consumer: ConsumerGroupsConfig{
			Enabled:              strings.Contains(","+strings.ToLower(protocols)+",", ",consumer,"),
			SessionTimeoutMs:     r.Long("group.consumer.session.timeout.ms"),
			HeartbeatIntervalMs:  r.Long("group.consumer.heartbeat.interval.ms"),
			AssignmentIntervalMs: r.Long("group.consumer.assignment.interval.ms"),
			Assignors:            r.List("group.consumer.assignors"),
			MaxSize:              r.Int("group.consumer.max.size"),
			MigrationPolicy:      strings.ToLower(r.String("group.consumer.migration.policy")),
			RegexRefreshMs:       600_000,
		},
	}
}
