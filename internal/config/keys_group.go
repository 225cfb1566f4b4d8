package config

// groupRows are the settings of one group.
var groupRows = []row{
	{"consumer.assignment.interval.ms", TypeInt, "1000", clusterWide, live, Medium, atLeast(0), "Shortest time between two assignments of the group, in ms."},
	{"consumer.heartbeat.interval.ms", TypeInt, "5000", clusterWide, live, Medium, atLeast(1), "Heartbeat interval given to members of the group, in ms."},
	{"consumer.session.timeout.ms", TypeInt, "45000", clusterWide, live, Medium, atLeast(1), "A member without a heartbeat for this long, in ms, is removed."},
	{"share.assignment.interval.ms", TypeInt, "1000", clusterWide, needsShare, Medium, atLeast(0), "Shortest time between two assignments of the share group, in ms."},
	{"share.auto.offset.reset", TypeString, "latest", clusterWide, needsShare, Medium, shareReset, "Where a share group starts on a partition it has not read: latest, earliest or by_duration:DURATION (ISO 8601)."},
	{"share.delivery.count.limit", TypeInt, "5", clusterWide, needsShare, Medium, atLeast(2), "A record is delivered to the share group at most this many times (KIP-1240)."},
	{"share.heartbeat.interval.ms", TypeInt, "5000", clusterWide, needsShare, Medium, atLeast(1), "Heartbeat interval given to members of the share group, in ms."},
	{"share.isolation.level", TypeString, "read_uncommitted", clusterWide, needsShare, Medium, oneOf("read_committed", "read_uncommitted"), "Whether the share group sees records of open and aborted transactions: read_uncommitted or read_committed."},
	{"share.partition.max.record.locks", TypeInt, "2000", clusterWide, needsShare, Medium, atLeast(100), "Most records of one partition that the share group holds locked at once (KIP-1240)."},
	{"share.record.lock.duration.ms", TypeInt, "30000", clusterWide, needsShare, Medium, atLeast(1000), "A record handed to a member stays locked this long, in ms."},
	{"share.renew.acknowledge.enable", TypeBool, "true", clusterWide, needsShare, Medium, free, "Let members renew the lock of a record they still work on."},
	{"share.session.timeout.ms", TypeInt, "45000", clusterWide, needsShare, Medium, atLeast(1), "A member without a heartbeat for this long, in ms, is removed."},
	{"streams.assignment.interval.ms", TypeInt, "1000", clusterWide, needsStreams, Medium, atLeast(0), "Shortest time between two assignments of the streams group, in ms."},
	{"streams.heartbeat.interval.ms", TypeInt, "5000", clusterWide, needsStreams, Medium, atLeast(1), "Heartbeat interval given to members of the streams group, in ms."},
	{"streams.initial.rebalance.delay.ms", TypeInt, "3000", clusterWide, needsStreams, Medium, atLeast(0), "A new streams group waits this long, in ms, for more members before its first assignment."},
	{"streams.num.standby.replicas", TypeInt, "0", clusterWide, needsStreams, Medium, atLeast(0), "Standby tasks per stateful task."},
	{"streams.session.timeout.ms", TypeInt, "45000", clusterWide, needsStreams, Medium, atLeast(1), "A member without a heartbeat for this long, in ms, is removed."},
}

// clientMetricsRows are the settings of one client metrics subscription (KIP-714).
var clientMetricsRows = []row{
	{"interval.ms", TypeInt, "300000", clusterWide, needsTelemetry, Medium, between(100, 3600000), "How often matching clients push their metrics, in ms."},
	{"match", TypeList, "", clusterWide, needsTelemetry, Medium, clientMatch, "Which clients the subscription is for, as NAME=PATTERN; empty matches all."},
	{"metrics", TypeList, "", clusterWide, needsTelemetry, Medium, listOf(true), "Prefixes of the metrics that clients push; * means all, empty none."},
}
