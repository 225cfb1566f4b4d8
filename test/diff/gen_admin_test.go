package diff

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// firstTopics makes the topics that a sequence begins with.
func (g *gen) firstTopics() step {
	configs := [][2]string{
		{"segment.bytes", "1048576"}, {"message.timestamp.type", "LogAppendTime"}, {"compression.type", "zstd"}, {"compression.type", "gzip"},
		{"compression.type", "uncompressed"}, {"compression.type", "snappy"}, {"compression.type", "lz4"}, {"cleanup.policy", "compact"},
		{"max.message.bytes", "300"}, {"message.timestamp.before.max.ms", "1000"}, {"min.insync.replicas", "2"},
	}
	cfg := pick(g, configs...)
	return g.step(kmsg.CreateTopics, 7, func(s *side) kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 10_000
		for i, name := range []string{"a", "b"} {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = s.topic(name), int32(3-2*i), 1
			if i == 1 {
				t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: cfg[0], Value: ptr(cfg[1])}}
			}
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}

// config picks a topic setting with a value that may be wrong.
func (g *gen) config() (string, *string) {
	name := pick(g, "retention.ms", "retention.bytes", "cleanup.policy", "compression.type", "max.message.bytes", "segment.bytes",
		"min.insync.replicas", "message.timestamp.type", "segment.ms", "flush.messages", "unclean.leader.election.enable",
		"leader.replication.throttled.replicas", "follower.replication.throttled.replicas", "min.cleanable.dirty.ratio",
		"message.timestamp.after.max.ms", "local.retention.ms", "remote.storage.enable", "compression.gzip.level", "compression.zstd.level",
		"compression.lz4.level", "max.compaction.lag.ms", "min.compaction.lag.ms", "index.interval.bytes", "segment.index.bytes",
		"preallocate", "delete.retention.ms", "file.delete.delay.ms", "segment.jitter.ms", "local.retention.bytes", "no.such.key", "",
		"remote.log.copy.disable", "remote.log.delete.on.disable", "message.format.version", "message.downconversion.enable")
	values := map[string][]string{
		"cleanup.policy":                          {"compact", "delete", "compact,delete", "delete,delete", "nonsense", "", "delete, compact"},
		"compression.type":                        {"gzip", "producer", "uncompressed", "none", "ZSTD", "zstd"},
		"message.timestamp.type":                  {"LogAppendTime", "CreateTime", "logappendtime"},
		"unclean.leader.election.enable":          {"true", "false", "TRUE", "yes"},
		"preallocate":                             {"true", "no"},
		"min.cleanable.dirty.ratio":               {"0.1", "1.1", "-0.1", "1", "abc", "1e-1"},
		"leader.replication.throttled.replicas":   {"*", "0:1,1:1", "", "bad", "0:1:2", "0:1,0:1"},
		"follower.replication.throttled.replicas": {"*", "1:1", "x:y", "none"},
		"max.message.bytes":                       {"200", "1000", "0", "-1", "1048588"},
		"segment.bytes":                           {"1048576", "1024", "14"},
		"min.insync.replicas":                     {"1", "2", "0"},
		"compression.gzip.level":                  {"-1", "0", "1", "9", "10"},
		"compression.zstd.level":                  {"-131072", "22", "23", "3"},
		"compression.lz4.level":                   {"1", "17", "18", "0"},
		"remote.storage.enable":                   {"true", "false"},
	}
	vs, ok := values[name]
	if !ok || g.one(4) {
		vs = []string{"-3", "-2", "-1", "0", "1", "10", "1000", "86400000", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "abc", "1.5", " 7 ", "", "true", "0x10", "+5", "1_000"}
	}
	v := pick(g, vs...)
	if g.one(15) {
		return name, nil
	}
	return name, &v
}

func (g *gen) createTopics() step {
	version := g.version(kmsg.CreateTopics)
	name := pick(g, "c", "c", "d.x", "d_x", "a", "e", "=", "=.", "=..", "=bad name", "=ü", "=__consumer_offsets", "=__cluster_metadata", "="+long(250), "="+long(249)+"/")
	parts, rf := pick(g, int32(1), 1, 2, 3, -1, 0, -2), pick(g, int16(1), 1, 1, -1, 0, 2, -2)
	var assign []kmsg.CreateTopicsRequestTopicReplicaAssignment
	if g.one(4) {
		if !g.one(4) {
			parts, rf = -1, -1
		}
		sets := [][]int32{{1}, {1}, {1}, {}, {1, 1}, {9}, {-1}, {1, 2}}
		for i := range 1 + g.rng.IntN(3) {
			assign = append(assign, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(pick(g, i, i, i, i, 0, 5)), Replicas: pick(g, sets...)})
		}
	}
	var configs []kmsg.CreateTopicsRequestTopicConfig
	for range pick(g, 0, 0, 1, 2) {
		k, v := g.config()
		configs = append(configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: v})
	}
	validate, twice := g.one(4), g.one(12)
	return g.step(kmsg.CreateTopics, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis, req.ValidateOnly = 10_000, validate
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor, t.ReplicaAssignment, t.Configs = s.topic(name), parts, rf, assign, configs
		req.Topics = append(req.Topics, t)
		if twice {
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}

func (g *gen) deleteTopics() step {
	version := g.version(kmsg.DeleteTopics)
	name, byID, both, twice := pick(g, "c", "d.x", "e", "never", "a", "=", "=bad name"), g.one(2), g.one(10), g.one(10)
	return g.step(kmsg.DeleteTopics, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 10_000
		t := kmsg.NewDeleteTopicsRequestTopic()
		if byID {
			t.TopicID = s.id(name)
		}
		if !byID || both {
			t.Topic = ptr(s.topic(name))
		}
		req.Topics, req.TopicNames = append(req.Topics, t), []string{s.topic(name)}
		if twice {
			req.Topics, req.TopicNames = append(req.Topics, t), append(req.TopicNames, s.topic(name))
		}
		return req
	})
}

func (g *gen) createPartitions() step {
	version := g.version(kmsg.CreatePartitions)
	name, count, validate := g.topic(), pick(g, int32(2), 4, 5, 1, 0, -1), g.one(4)
	var assign []kmsg.CreatePartitionsRequestTopicAssignment
	if g.one(3) {
		sets := [][]int32{{1}, {1}, {}, {2}, {1, 1}, {1, 2}}
		for range 1 + g.rng.IntN(2) {
			assign = append(assign, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: pick(g, sets...)})
		}
	}
	return g.step(kmsg.CreatePartitions, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.ValidateOnly = 10_000, validate
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count, t.Assignment = s.topic(name), count, assign
		req.Topics = append(req.Topics, t)
		return req
	})
}

// resource picks a resource whose configuration is changed or shown. Broker
// settings are only shown: a change would reach beyond this run.
func (g *gen) resource(change bool) (kmsg.ConfigResourceType, string) {
	if g.one(4) {
		type res struct {
			kind kmsg.ConfigResourceType
			name string
		}
		odd := []res{{99, "x"}, {0, "x"}, {32, "grp"}, {16, "sub"}, {2, "never"}, {2, "="}, {2, "=bad name"}, {4, "=9"}, {4, "=abc"}, {32, "="}, {8, "=abc"}, {2, "=__consumer_offsets"}}
		if !change {
			odd = append(odd, res{4, "=1"}, res{4, "="}, res{4, "=1"})
		} else {
			odd = odd[:len(odd)-1]
		}
		r := pick(g, odd...)
		return r.kind, r.name
	}
	return 2, pick(g, "a", "b", "c")
}

func (g *gen) incrementalAlterConfigs() step {
	version := g.version(kmsg.IncrementalAlterConfigs)
	kind, name := g.resource(true)
	var configs []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for range pick(g, 1, 1, 1, 2, 0, 3) {
		k, v := g.config()
		op := kmsg.IncrementalAlterConfigOp(pick(g, 0, 0, 0, 1, 2, 3, 2, 3, 7))
		if op >= 2 && g.one(2) {
			k, v = "cleanup.policy", ptr(pick(g, "compact", "delete", "compact,delete"))
		}
		if kind == 32 && g.one(2) {
			k, v = pick(g, "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.auto.offset.reset"), ptr(pick(g, "45000", "50000", "5000", "1", "latest", "x"))
		}
		change := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Op: op, Value: v}
		if op > kmsg.IncrementalAlterConfigOpSubtract { // alone, so that it is the one that is refused
			configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{change}
			break
		}
		configs = append(configs, change)
	}
	validate, twice := g.one(5), g.one(12)
	return g.step(kmsg.IncrementalAlterConfigs, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.ValidateOnly = validate
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.Configs = kind, s.topic(name), configs
		req.Resources = append(req.Resources, r)
		if twice {
			req.Resources = append(req.Resources, r)
		}
		return req
	})
}

func (g *gen) alterConfigs() step {
	version := g.version(kmsg.AlterConfigs)
	kind, name := g.resource(true)
	var configs []kmsg.AlterConfigsRequestResourceConfig
	for range pick(g, 1, 1, 2, 0) {
		k, v := g.config()
		configs = append(configs, kmsg.AlterConfigsRequestResourceConfig{Name: k, Value: v})
	}
	validate := g.one(4)
	return g.step(kmsg.AlterConfigs, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.ValidateOnly = validate
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.Configs = kind, s.topic(name), configs
		req.Resources = append(req.Resources, r)
		return req
	})
}

func (g *gen) describeConfigs() step {
	version := g.version(kmsg.DescribeConfigs)
	kind, name := g.resource(false)
	syn := g.one(2)
	var keys []string
	if g.one(3) {
		for range g.rng.IntN(3) {
			k, _ := g.config()
			keys = append(keys, k)
		}
	}
	return g.step(kmsg.DescribeConfigs, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.IncludeSynonyms = syn
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, s.topic(name), keys
		req.Resources = append(req.Resources, r)
		return req
	})
}

func (g *gen) listConfigResources() step {
	version := g.version(kmsg.ListConfigResources)
	types := pick(g, []int8{2}, []int8{2, 4}, []int8{4}, []int8{8}, []int8{16}, []int8{99}, []int8{2, 2})
	return g.step(kmsg.ListConfigResources, version, func(*side) kmsg.Request {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		return req
	})
}

func (g *gen) electLeaders() step {
	version := g.version(kmsg.ElectLeaders)
	kind, name, parts := pick(g, int8(0), 0, 1, 2), g.topic(), []int32{g.partition(), g.partition()}
	return g.step(kmsg.ElectLeaders, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrElectLeadersRequest()
		req.ElectionType, req.TimeoutMillis = kind, 5000
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = s.topic(name), parts
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) listReassignments() step {
	name, all, parts := g.topic(), g.one(3), []int32{g.partition()}
	return g.step(kmsg.ListPartitionReassignments, 0, func(s *side) kmsg.Request {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.TimeoutMillis = 5000
		if !all {
			t := kmsg.NewListPartitionReassignmentsRequestTopic()
			t.Topic, t.Partitions = s.topic(name), parts
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}

func (g *gen) updateFeatures() step {
	version := max(1, g.version(kmsg.UpdateFeatures)) // version 0 cannot be asked to validate only
	name, level, kind := pick(g, "metadata.version", "metadata.version", "group.version", "eligible.leader.replicas.version", "nope", ""), pick(g, int16(30), 29, 7, 6, 31, 0, -1, 1, 2), pick(g, int8(1), 1, 2, 3, 0, 9)
	return g.step(kmsg.UpdateFeatures, version, func(*side) kmsg.Request {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.ValidateOnly, req.TimeoutMillis = true, 5000
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = name, level, kind, kind > 1
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		return req
	})
}

func (g *gen) describeCluster() step {
	version := g.version(kmsg.DescribeCluster)
	ops, kind, fenced := g.one(2), pick(g, int8(1), 1, 2, 3), g.one(2)
	return g.step(kmsg.DescribeCluster, version, func(*side) kmsg.Request {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations, req.EndpointType, req.IncludeFencedBrokers = ops, kind, fenced
		return req
	})
}

func (g *gen) describeQuorum() step {
	version := g.version(kmsg.DescribeQuorum)
	name, part := pick(g, "=__cluster_metadata", "=__cluster_metadata", "a"), pick(g, int32(0), 0, 1)
	return g.step(kmsg.DescribeQuorum, version, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeQuorumRequest()
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic = s.topic(name)
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		p.Partition = part
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func long(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}
