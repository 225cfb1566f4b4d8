package apis

// Why an API of Apache Kafka 4.3 is not served (everywhere) in this release.
const (
	reasonTxn        = "transactions come with the transaction coordinator; transaction.version stays 0"
	reasonSASL       = "SASL and SCRAM come with security"
	reasonTokens     = "delegation tokens come with security"
	reasonACLs       = "ACLs come with the authorizer"
	reasonLogDirMove = "moving replicas between log folders comes with multi-broker clusters"
	reasonReassign   = "reassignment comes with multi-broker clusters"
	reasonQuotas     = "quotas are not enforced yet"
	reasonVoters     = "one voter only: votes and voter changes come with multi-node quorums"
	reasonEnvelope   = "brokers send the forwarded request itself to the controller listener"
	reasonTelemetry  = "Kafka, too, advertises it only with a telemetry exporter configured"
	reasonShare      = "share groups come with the share coordinator"
	reasonStreams    = "streams groups come with the group coordinator"
)

type flags uint8

const (
	inBroker     flags = 1 << iota // Kafka serves it on broker listeners
	inController                   // Kafka serves it on controller listeners
	forward                        // a broker forwards it
	onBroker                       // we serve it on broker listeners
	onController                   // we serve it on controller listeners
)

const never = NeverFlexible

func row(key int16, name string, minV, maxV, flexible int16, f flags, reason string) API {
	a := API{
		Key: key, Name: name, Min: minV, Max: maxV, AdvertisedMin: minV, FirstFlexible: flexible,
		Broker: f&inBroker != 0, Controller: f&inController != 0, Forward: f&forward != 0,
		Served: f&(onBroker|onController) != 0, Reason: reason,
		servedBroker: f&onBroker != 0, servedController: f&onController != 0,
	}
	if name == "Produce" {
		a.AdvertisedMin = 0 // librdkafka needs it (KAFKA-18659); versions 0 to 2 are refused
	}
	return a
}

// table has every API of Apache Kafka 4.3, by key. Unlisted keys were removed.
var table = []API{
	row(0, "Produce", 3, 13, 9, inBroker|onBroker, ""),
	row(1, "Fetch", 4, 18, 12, inBroker|inController|onBroker|onController, ""),
	row(2, "ListOffsets", 1, 11, 6, inBroker|onBroker, ""),
	row(3, "Metadata", 0, 13, 9, inBroker|onBroker, ""),
	row(8, "OffsetCommit", 2, 10, 8, inBroker|onBroker, ""),
	row(9, "OffsetFetch", 1, 10, 6, inBroker|onBroker, ""),
	row(10, "FindCoordinator", 0, 6, 3, inBroker|onBroker, ""),
	row(11, "JoinGroup", 0, 9, 6, inBroker|onBroker, ""),
	row(12, "Heartbeat", 0, 4, 4, inBroker|onBroker, ""),
	row(13, "LeaveGroup", 0, 5, 4, inBroker|onBroker, ""),
	row(14, "SyncGroup", 0, 5, 4, inBroker|onBroker, ""),
	row(15, "DescribeGroups", 0, 6, 5, inBroker|onBroker, ""),
	row(16, "ListGroups", 0, 5, 3, inBroker|onBroker, ""),
	row(17, "SaslHandshake", 0, 1, never, inBroker|inController, reasonSASL),
	row(18, "ApiVersions", 0, 4, 3, inBroker|inController|onBroker|onController, ""),
	row(19, "CreateTopics", 2, 7, 5, inBroker|inController|forward|onBroker|onController, ""),
	row(20, "DeleteTopics", 1, 6, 4, inBroker|inController|forward|onBroker|onController, ""),
	row(21, "DeleteRecords", 0, 2, 2, inBroker|onBroker, ""),
	row(22, "InitProducerId", 0, 5, 2, inBroker|onBroker, ""),
	row(23, "OffsetForLeaderEpoch", 2, 4, 4, inBroker|onBroker, ""),
	row(24, "AddPartitionsToTxn", 0, 5, 3, inBroker, reasonTxn),
	row(25, "AddOffsetsToTxn", 0, 4, 3, inBroker, reasonTxn),
	row(26, "EndTxn", 0, 5, 3, inBroker, reasonTxn),
	row(27, "WriteTxnMarkers", 1, 2, 1, inBroker, reasonTxn),
	row(28, "TxnOffsetCommit", 0, 5, 3, inBroker, reasonTxn),
	row(29, "DescribeAcls", 1, 3, 2, inBroker|inController, reasonACLs),
	row(30, "CreateAcls", 1, 3, 2, inBroker|inController|forward, reasonACLs),
	row(31, "DeleteAcls", 1, 3, 2, inBroker|inController|forward, reasonACLs),
	row(32, "DescribeConfigs", 1, 4, 4, inBroker|inController|onBroker|onController, ""),
	row(33, "AlterConfigs", 0, 2, 2, inBroker|inController|forward|onBroker|onController, ""),
	row(34, "AlterReplicaLogDirs", 1, 2, 2, inBroker, reasonLogDirMove),
	row(35, "DescribeLogDirs", 1, 5, 2, inBroker|onBroker, ""),
	row(36, "SaslAuthenticate", 0, 2, 2, inBroker|inController, reasonSASL),
	row(37, "CreatePartitions", 0, 3, 2, inBroker|inController|forward|onBroker|onController, ""),
	row(38, "CreateDelegationToken", 1, 3, 2, inBroker|inController|forward, reasonTokens),
	row(39, "RenewDelegationToken", 1, 2, 2, inBroker|inController|forward, reasonTokens),
	row(40, "ExpireDelegationToken", 1, 2, 2, inBroker|inController|forward, reasonTokens),
	row(41, "DescribeDelegationToken", 1, 3, 2, inBroker|inController, reasonTokens),
	row(42, "DeleteGroups", 0, 2, 2, inBroker|onBroker, ""),
	row(43, "ElectLeaders", 0, 2, 2, inBroker|inController|forward|onBroker|onController, ""),
	row(44, "IncrementalAlterConfigs", 0, 1, 1, inBroker|inController|forward|onBroker|onController, ""),
	row(45, "AlterPartitionReassignments", 0, 1, 0, inBroker|inController|forward, reasonReassign),
	row(46, "ListPartitionReassignments", 0, 0, 0, inBroker|inController|forward|onBroker|onController, ""),
	row(47, "OffsetDelete", 0, 0, never, inBroker|onBroker, ""),
	row(48, "DescribeClientQuotas", 0, 1, 1, inBroker, reasonQuotas),
	row(49, "AlterClientQuotas", 0, 1, 1, inBroker|inController|forward, reasonQuotas),
	row(50, "DescribeUserScramCredentials", 0, 0, 0, inBroker|inController, reasonSASL),
	row(51, "AlterUserScramCredentials", 0, 0, 0, inBroker|inController|forward, reasonSASL),
	row(52, "Vote", 0, 2, 0, inController, reasonVoters),
	row(53, "BeginQuorumEpoch", 0, 1, 1, inController, reasonVoters),
	row(54, "EndQuorumEpoch", 0, 1, 1, inController, reasonVoters),
	row(55, "DescribeQuorum", 0, 2, 0, inBroker|inController|forward|onBroker|onController, ""),
	row(56, "AlterPartition", 2, 3, 0, inController|onController, ""),
	row(57, "UpdateFeatures", 0, 2, 0, inBroker|inController|forward|onBroker|onController, ""),
	row(58, "Envelope", 0, 0, 0, inController, reasonEnvelope),
	row(59, "FetchSnapshot", 0, 1, 0, inController|onController, ""),
	row(60, "DescribeCluster", 0, 2, 0, inBroker|inController|onBroker|onController, ""),
	row(61, "DescribeProducers", 0, 0, 0, inBroker|onBroker, ""),
	row(62, "BrokerRegistration", 0, 4, 0, inController|onController, ""),
	row(63, "BrokerHeartbeat", 0, 2, 0, inController|onController, ""),
	row(64, "UnregisterBroker", 0, 0, 0, inBroker|inController|forward|onBroker|onController, ""),
	row(65, "DescribeTransactions", 0, 0, 0, inBroker, reasonTxn),
	row(66, "ListTransactions", 0, 2, 0, inBroker, reasonTxn),
	row(67, "AllocateProducerIds", 0, 0, 0, inController|forward|onController, ""),
	row(68, "ConsumerGroupHeartbeat", 0, 1, 0, inBroker|onBroker, ""),
	row(69, "ConsumerGroupDescribe", 0, 1, 0, inBroker|onBroker, ""),
	row(70, "ControllerRegistration", 0, 0, 0, inController|onController, ""),
	row(71, "GetTelemetrySubscriptions", 0, 0, 0, inBroker, reasonTelemetry),
	row(72, "PushTelemetry", 0, 0, 0, inBroker, reasonTelemetry),
	row(73, "AssignReplicasToDirs", 0, 0, 0, inController|onController, ""),
	row(74, "ListConfigResources", 0, 1, 0, inBroker|onBroker, ""),
	row(75, "DescribeTopicPartitions", 0, 0, 0, inBroker|onBroker, ""),
	row(76, "ShareGroupHeartbeat", 1, 1, 0, inBroker, reasonShare),
	row(77, "ShareGroupDescribe", 1, 1, 0, inBroker, reasonShare),
	row(78, "ShareFetch", 1, 2, 0, inBroker, reasonShare),
	row(79, "ShareAcknowledge", 1, 2, 0, inBroker, reasonShare),
	row(80, "AddRaftVoter", 0, 1, 0, inBroker|inController|forward, reasonVoters),
	row(81, "RemoveRaftVoter", 0, 0, 0, inBroker|inController|forward, reasonVoters),
	row(82, "UpdateRaftVoter", 0, 0, 0, inController, reasonVoters),
	row(83, "InitializeShareGroupState", 0, 0, 0, inBroker, reasonShare),
	row(84, "ReadShareGroupState", 0, 0, 0, inBroker, reasonShare),
	row(85, "WriteShareGroupState", 0, 1, 0, inBroker, reasonShare),
	row(86, "DeleteShareGroupState", 0, 0, 0, inBroker, reasonShare),
	row(87, "ReadShareGroupStateSummary", 0, 1, 0, inBroker, reasonShare),
	row(88, "StreamsGroupHeartbeat", 0, 0, 0, inBroker, reasonStreams),
	row(89, "StreamsGroupDescribe", 0, 0, 0, inBroker, reasonStreams),
	row(90, "DescribeShareGroupOffsets", 0, 1, 0, inBroker, reasonShare),
	row(91, "AlterShareGroupOffsets", 0, 0, 0, inBroker, reasonShare),
	row(92, "DeleteShareGroupOffsets", 0, 0, 0, inBroker, reasonShare),
}
