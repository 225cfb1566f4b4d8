package config

// brokerMiscRows are the broker settings of quotas, metrics and plug-ins.
var brokerMiscRows = []row{
	{"alter.config.policy.class.name", TypeClass, null, readOnly, javaOnly, Low, free, "Java class that may veto configuration changes."},
	{"alter.log.dirs.replication.quota.window.num", TypeInt, "11", readOnly, needsQuota, Low, atLeast(1), "Number of samples kept for the quota on moving replicas between data folders."},
	{"alter.log.dirs.replication.quota.window.size.seconds", TypeInt, "1", readOnly, needsQuota, Low, atLeast(1), "Length of one sample of the quota on moving replicas between data folders, in seconds."},
	{"background.threads", TypeInt, "10", clusterWide, goRuntime, High, atLeast(1), "Threads for background work."},
	{"client.quota.callback.class", TypeClass, null, readOnly, javaOnly, Low, free, "Java class that computes client quotas."},
	{"config.providers", TypeList, "", clusterWide, javaOnly, Low, listOf(true), "Names of providers that fetch configuration values from outside, for example a vault."},
	{"controller.quota.window.num", TypeInt, "11", readOnly, needsQuota, Low, atLeast(1), "Number of samples kept for the quota on topic and partition mutations."},
	{"controller.quota.window.size.seconds", TypeInt, "1", readOnly, needsQuota, Low, atLeast(1), "Length of one sample of the quota on topic and partition mutations, in seconds."},
	{"create.topic.policy.class.name", TypeClass, null, readOnly, javaOnly, Low, free, "Java class that may veto new topics."},
	{"follower.replication.throttled.rate", TypeLong, null, clusterWide, needsQuota, Medium, atLeast(0), "Most bytes a second that throttled replicas fetch."},
	{"kafka.metrics.polling.interval.secs", TypeInt, "10", readOnly, javaOnly, Low, atLeast(1), "Polling interval of Kafka's Yammer metrics reporters, in seconds."},
	{"kafka.metrics.reporters", TypeList, "", readOnly, javaOnly, Low, listOf(true), "Java classes that export Kafka's Yammer metrics. Tidemark serves Prometheus metrics on admin.listener."},
	{"leader.replication.throttled.rate", TypeLong, null, clusterWide, needsQuota, Medium, atLeast(0), "Most bytes a second that a leader sends to throttled replicas."},
	{"metric.reporters", TypeList, "org.apache.kafka.common.metrics.JmxReporter", clusterWide, javaOnly, Low, listOf(true), "Java classes that export Kafka's metrics. Tidemark serves Prometheus metrics on admin.listener."},
	{"metrics.num.samples", TypeInt, "2", readOnly, javaOnly, Low, atLeast(1), "Samples kept for Kafka's rate metrics."},
	{"metrics.recording.level", TypeString, "INFO", readOnly, javaOnly, Low, free, "Level of detail of Kafka's metrics."},
	{"metrics.sample.window.ms", TypeLong, "30000", readOnly, javaOnly, Low, atLeast(1), "Length of one sample of Kafka's rate metrics, in ms."},
	{"quota.window.num", TypeInt, "11", readOnly, needsQuota, Low, atLeast(1), "Number of samples kept for client quotas."},
	{"quota.window.size.seconds", TypeInt, "1", readOnly, needsQuota, Low, atLeast(1), "Length of one sample of client quotas, in seconds."},
	{"replica.alter.log.dirs.io.max.bytes.per.second", TypeLong, null, clusterWide, needsQuota, Medium, atLeast(0), "Most bytes a second for moving replicas between data folders."},
	{"replication.quota.window.num", TypeInt, "11", readOnly, needsQuota, Low, atLeast(1), "Number of samples kept for replication quotas."},
	{"replication.quota.window.size.seconds", TypeInt, "1", readOnly, needsQuota, Low, atLeast(1), "Length of one sample of replication quotas, in seconds."},
	{"telemetry.max.bytes", TypeInt, "1048576", readOnly, needsTelemetry, Low, atLeast(1), "Largest metrics push of a client, in bytes (KIP-714)."},
}
