package wire

import "github.com/tidemark-io/tidemark/internal/types"

// FetchResponse is a Fetch answer (versions 4 to 18) whose records are file
// ranges. AppendFetchResponse takes the ranges out of it.
type FetchResponse struct {
	ThrottleMs    int32
	ErrorCode     int16
	SessionID     int32
	Topics        []FetchTopic
	NodeEndpoints []NodeEndpoint // tagged, from version 16
}

// FetchTopic is one topic: by name up to version 12, by id from 13 on.
type FetchTopic struct {
	Topic      string
	TopicID    types.UUID
	Partitions []FetchPartition
}

// FetchPartition is the answer for one partition.
type FetchPartition struct {
	Partition            int32
	ErrorCode            int16
	HighWatermark        int64
	LastStableOffset     int64
	LogStartOffset       int64 // -1 unknown; from version 5
	AbortedTransactions  []AbortedTransaction
	PreferredReadReplica int32          // -1 none; from version 11
	DivergingEpoch       *EpochEnd      // tagged, from version 12
	CurrentLeader        *LeaderIDEpoch // tagged, from version 12
	SnapshotID           *EpochEnd      // tagged, from version 12
	Records              Payload
}

// AbortedTransaction names a transaction whose records a read_committed
// consumer must drop, from FirstOffset on. A nil list is null (read_uncommitted).
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// EpochEnd is an epoch and the offset that ends it; also a snapshot id.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// LeaderIDEpoch is the leader that a client should ask instead (KIP-951).
type LeaderIDEpoch struct {
	LeaderID    int32
	LeaderEpoch int32
}

// NodeEndpoint says where a node listens (KIP-951).
type NodeEndpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}
