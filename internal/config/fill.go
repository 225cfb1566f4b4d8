package config

// fill copies the typed values out of r. Values have been validated.
func (c *ServerConfig) fill(r Resolved) {
	c.Durability, _ = ParseDurability(r.String("durability"))
	if v, ok := r.Lookup("broker.rack"); ok {
		c.Rack = &v
	}
	c.AdminListener = r.String("admin.listener")
	c.Topics = TopicDefaults{
		NumPartitions:            r.Int("num.partitions"),
		DefaultReplicationFactor: r.Int("default.replication.factor"),
		AutoCreate:               r.Bool("auto.create.topics.enable"),
		DeleteEnabled:            r.Bool("delete.topic.enable"),
	}
	c.fillNetwork(r)
	c.fillLog(r)
	c.fillQuorum(r)
	c.fillReplica(r)
	c.fillOffsets(r)
	c.fillGroups(r)
}

func (c *ServerConfig) fillNetwork(r Resolved) {
	overrides, _ := parseIPOverrides(r.String("max.connections.per.ip.overrides"))
	c.Network = NetworkConfig{
		SocketSendBufferBytes:        r.Int("socket.send.buffer.bytes"),
		SocketReceiveBufferBytes:     r.Int("socket.receive.buffer.bytes"),
		SocketRequestMaxBytes:        r.Int("socket.request.max.bytes"),
		ConnectionsMaxIdleMs:         r.Long("connections.max.idle.ms"),
		MaxConnections:               r.Int("max.connections"),
		MaxConnectionsPerIP:          r.Int("max.connections.per.ip"),
		MaxConnectionsPerIPOverrides: overrides,
		QueuedMaxRequests:            r.Int("queued.max.requests"),
		QueuedMaxRequestBytes:        r.Long("queued.max.request.bytes"),
		FetchMaxBytes:                r.Int("fetch.max.bytes"),
		FetchSessionCacheSlots:       r.Int("max.incremental.fetch.session.cache.slots"),
		MaxRequestPartitionSizeLimit: r.Int("max.request.partition.size.limit"),
		RequestTimeoutMs:             r.Long("request.timeout.ms"),
		ConnectionSetupTimeoutMs:     r.Long("socket.connection.setup.timeout.ms"),
		ConnectionSetupTimeoutMaxMs:  r.Long("socket.connection.setup.timeout.max.ms"),
	}
}

func (c *ServerConfig) fillLog(r Resolved) {
	c.Log = LogManagerConfig{
		RetentionCheckIntervalMs:             r.Long("log.retention.check.interval.ms"),
		FlushSchedulerIntervalMs:             r.Long("log.flush.scheduler.interval.ms"),
		FlushOffsetCheckpointIntervalMs:      r.Long("log.flush.offset.checkpoint.interval.ms"),
		FlushStartOffsetCheckpointIntervalMs: r.Long("log.flush.start.offset.checkpoint.interval.ms"),
		InitialTaskDelayMs:                   r.Long("log.initial.task.delay.ms"),
		RecoveryThreadsPerDataDir:            r.Int("num.recovery.threads.per.data.dir"),
		ProducerIDExpirationMs:               r.Long("producer.id.expiration.ms"),
		Defaults:                             ToTopicConfig(Effective(ScopeTopic, c.Static)),
	}
	c.Metadata = MetadataLogConfig{
		SegmentBytes:                   r.Int("metadata.log.segment.bytes"),
		SegmentMs:                      r.Long("metadata.log.segment.ms"),
		MaxIdleIntervalMs:              r.Long("metadata.max.idle.interval.ms"),
		RetentionBytes:                 r.Long("metadata.max.retention.bytes"),
		RetentionMs:                    r.Long("metadata.max.retention.ms"),
		MaxRecordBytesBetweenSnapshots: r.Long("metadata.log.max.record.bytes.between.snapshots"),
		MaxSnapshotIntervalMs:          r.Long("metadata.log.max.snapshot.interval.ms"),
	}
}

func (c *ServerConfig) fillQuorum(r Resolved) {
	voters, _ := ParseVoters(r.String("controller.quorum.voters"))
	c.Quorum = QuorumConfig{
		Voters:                voters,
		ElectionTimeoutMs:     r.Long("controller.quorum.election.timeout.ms"),
		FetchTimeoutMs:        r.Long("controller.quorum.fetch.timeout.ms"),
		RequestTimeoutMs:      r.Long("controller.quorum.request.timeout.ms"),
		RetryBackoffMs:        r.Long("controller.quorum.retry.backoff.ms"),
		FetchMaxBytes:         r.Int("controller.quorum.fetch.max.bytes"),
		FetchSnapshotMaxBytes: r.Int("controller.quorum.fetch.snapshot.max.bytes"),
	}
	c.Lifecycle = LifecycleConfig{
		HeartbeatIntervalMs:       r.Long("broker.heartbeat.interval.ms"),
		SessionTimeoutMs:          r.Long("broker.session.timeout.ms"),
		RegistrationTimeoutMs:     r.Long("initial.broker.registration.timeout.ms"),
		ControlledShutdown:        r.Bool("controlled.shutdown.enable"),
		ControllerSocketTimeoutMs: r.Long("controller.socket.timeout.ms"),
	}
}

func (c *ServerConfig) fillReplica(r Resolved) {
	c.Replica = ReplicaConfig{
		LagTimeMaxMs:                      r.Long("replica.lag.time.max.ms"),
		FetchWaitMaxMs:                    r.Long("replica.fetch.wait.max.ms"),
		FetchMinBytes:                     r.Int("replica.fetch.min.bytes"),
		FetchMaxBytes:                     r.Int("replica.fetch.max.bytes"),
		FetchResponseMaxBytes:             r.Int("replica.fetch.response.max.bytes"),
		FetchBackoffMs:                    r.Long("replica.fetch.backoff.ms"),
		HighWatermarkCheckpointIntervalMs: r.Long("replica.high.watermark.checkpoint.interval.ms"),
	}
}

func (c *ServerConfig) fillOffsets(r Resolved) {
	c.Offsets = OffsetsConfig{
		TopicPartitions:          r.Int("offsets.topic.num.partitions"),
		TopicReplicationFactor:   r.Int("offsets.topic.replication.factor"),
		TopicSegmentBytes:        r.Int("offsets.topic.segment.bytes"),
		TopicCompressionCodec:    r.Int("offsets.topic.compression.codec"),
		MetadataMaxBytes:         r.Int("offset.metadata.max.bytes"),
		CommitTimeoutMs:          r.Long("offsets.commit.timeout.ms"),
		LoadBufferSize:           r.Int("offsets.load.buffer.size"),
		RetentionMs:              r.Long("offsets.retention.minutes") * minutesToMs,
		RetentionCheckIntervalMs: r.Long("offsets.retention.check.interval.ms"),
		AppendLingerMs:           r.Long("group.coordinator.append.linger.ms"),
	}
}
