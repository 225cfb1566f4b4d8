package config

// synonym is a broker key that stands in for a topic key, with the factor that
// turns its unit into the topic key's (0: same unit).
type synonym struct {
	name   string
	factor int64
}

const (
	minutesToMs = 60 * 1000
	hoursToMs   = 60 * minutesToMs
)

func one(name string) []synonym { return []synonym{{name: name}} }

// topicSynonyms maps a topic key to the broker keys that its value comes from,
// in order of precedence (ServerTopicConfigSynonyms of Apache Kafka 4.3, plus
// our own durability).
var topicSynonyms = map[string][]synonym{
	"segment.bytes":                   one("log.segment.bytes"),
	"segment.ms":                      {{"log.roll.ms", 0}, {"log.roll.hours", hoursToMs}},
	"segment.jitter.ms":               {{"log.roll.jitter.ms", 0}, {"log.roll.jitter.hours", hoursToMs}},
	"segment.index.bytes":             one("log.index.size.max.bytes"),
	"flush.messages":                  one("log.flush.interval.messages"),
	"flush.ms":                        {{"log.flush.interval.ms", 0}, {"log.flush.scheduler.interval.ms", 0}},
	"retention.bytes":                 one("log.retention.bytes"),
	"retention.ms":                    {{"log.retention.ms", 0}, {"log.retention.minutes", minutesToMs}, {"log.retention.hours", hoursToMs}},
	"max.message.bytes":               one("message.max.bytes"),
	"index.interval.bytes":            one("log.index.interval.bytes"),
	"delete.retention.ms":             one("log.cleaner.delete.retention.ms"),
	"min.compaction.lag.ms":           one("log.cleaner.min.compaction.lag.ms"),
	"max.compaction.lag.ms":           one("log.cleaner.max.compaction.lag.ms"),
	"file.delete.delay.ms":            one("log.segment.delete.delay.ms"),
	"min.cleanable.dirty.ratio":       one("log.cleaner.min.cleanable.ratio"),
	"cleanup.policy":                  one("log.cleanup.policy"),
	"unclean.leader.election.enable":  one("unclean.leader.election.enable"),
	"min.insync.replicas":             one("min.insync.replicas"),
	"compression.type":                one("compression.type"),
	"compression.gzip.level":          one("compression.gzip.level"),
	"compression.lz4.level":           one("compression.lz4.level"),
	"compression.zstd.level":          one("compression.zstd.level"),
	"preallocate":                     one("log.preallocate"),
	"message.timestamp.type":          one("log.message.timestamp.type"),
	"message.timestamp.before.max.ms": one("log.message.timestamp.before.max.ms"),
	"message.timestamp.after.max.ms":  one("log.message.timestamp.after.max.ms"),
	"local.retention.ms":              one("log.local.retention.ms"),
	"local.retention.bytes":           one("log.local.retention.bytes"),
	"durability":                      one("durability"),
}

// groupSynonyms maps a group key to its broker key (GroupConfig of Apache Kafka 4.3).
var groupSynonyms = map[string]string{
	"consumer.session.timeout.ms":        "group.consumer.session.timeout.ms",
	"consumer.heartbeat.interval.ms":     "group.consumer.heartbeat.interval.ms",
	"consumer.assignment.interval.ms":    "group.consumer.assignment.interval.ms",
	"share.session.timeout.ms":           "group.share.session.timeout.ms",
	"share.heartbeat.interval.ms":        "group.share.heartbeat.interval.ms",
	"share.assignment.interval.ms":       "group.share.assignment.interval.ms",
	"share.record.lock.duration.ms":      "group.share.record.lock.duration.ms",
	"share.delivery.count.limit":         "group.share.delivery.count.limit",
	"share.partition.max.record.locks":   "group.share.partition.max.record.locks",
	"streams.session.timeout.ms":         "group.streams.session.timeout.ms",
	"streams.heartbeat.interval.ms":      "group.streams.heartbeat.interval.ms",
	"streams.assignment.interval.ms":     "group.streams.assignment.interval.ms",
	"streams.num.standby.replicas":       "group.streams.num.standby.replicas",
	"streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
}

// brokerSynonyms lists the broker keys that describe the same thing as name,
// name's family in order of precedence (DynamicBrokerConfig.brokerConfigSynonyms).
func brokerSynonyms(name string) []string {
	switch name {
	case "log.roll.ms", "log.roll.hours":
		return []string{"log.roll.ms", "log.roll.hours"}
	case "log.roll.jitter.ms", "log.roll.jitter.hours":
		return []string{"log.roll.jitter.ms", "log.roll.jitter.hours"}
	case "log.flush.interval.ms":
		return []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		return []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
	}
	if base, ok := listenerBase(name); ok {
		return []string{name, base}
	}
	return []string{name}
}
