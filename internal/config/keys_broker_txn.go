package config

// brokerTxnRows are the broker settings of transactions.
var brokerTxnRows = []row{
	{"add.partitions.to.txn.retry.backoff.max.ms", TypeInt, "100", readOnly, needsTxn, High, atLeast(0), "Longest pause, in ms, between server-side retries while a partition is being added to a transaction that is still completing."},
	{"add.partitions.to.txn.retry.backoff.ms", TypeInt, "20", readOnly, needsTxn, High, atLeast(1), "First pause, in ms, before the server retries to add a partition to a transaction on the client's behalf."},
	{"transaction.abort.timed.out.transaction.cleanup.interval.ms", TypeInt, "10000", readOnly, needsTxn, Low, atLeast(1), "How often transactions past their timeout are looked for, in ms."},
	{"transaction.max.timeout.ms", TypeInt, "900000", readOnly, needsTxn, High, atLeast(1), "Longest transaction timeout that a producer may ask for, in ms."},
	{"transaction.partition.verification.enable", TypeBool, "true", clusterWide, needsTxn, Low, free, "Check with the transaction coordinator that a partition belongs to a transaction before it is written."},
	{"transaction.remove.expired.transaction.cleanup.interval.ms", TypeInt, "3600000", readOnly, needsTxn, Low, atLeast(1), "How often expired transactional ids are looked for, in ms."},
	{"transaction.state.log.load.buffer.size", TypeInt, "5242880", readOnly, needsTxn, High, atLeast(1), "Bytes read at once while a partition of the transaction topic is loaded."},
	{"transaction.state.log.min.isr", TypeInt, "2", readOnly, needsTxn, High, atLeast(1), "min.insync.replicas of the transaction topic. A cluster of one uses 1 when this is not set."},
	{"transaction.state.log.num.partitions", TypeInt, "50", readOnly, needsTxn, High, atLeast(1), "Partitions of the transaction topic; fixed once it exists."},
	{"transaction.state.log.replication.factor", TypeShort, "3", readOnly, needsTxn, High, atLeast(1), "Replicas of the transaction topic. A cluster of one uses 1 when this is not set."},
	{"transaction.state.log.segment.bytes", TypeInt, "104857600", readOnly, needsTxn, High, atLeast(1), "Size of a segment of the transaction topic at which the next one is started."},
	{"transaction.two.phase.commit.enable", TypeBool, "false", readOnly, needsTxn, Low, free, "Allow transactions that an outside coordinator commits (KIP-939)."},
	{"transactional.id.expiration.ms", TypeInt, "604800000", readOnly, needsTxn, High, atLeast(1), "A transactional id without activity for this long, in ms, is forgotten."},
}
