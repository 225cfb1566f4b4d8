package replica

import (
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/wire"
)

// ProduceInput is one Produce request after authorization and topic id resolution.
type ProduceInput struct {
	Acks      int16 // 0, 1 or -1; anything else answers INVALID_REQUIRED_ACKS
	TimeoutMs int32
	Version   int16 // Produce version
	ClientID  string
	// Partitions are appended in order. TP.Topic must be set; TP.TopicID may be
	// zero (Produce below v13), else it must match the partition's id.
	Partitions []ProducePartition
}

// ProducePartition is the data for one partition. Records must stay unchanged
// until Produce returns; it is stamped in place.
type ProducePartition struct {
	TP      types.TopicIDPartition
	Records []byte
}

// ProduceResult is the outcome for one partition, in request order.
type ProduceResult struct {
	TP types.TopicIDPartition
	// Err is nil on success; kerrors.CodeOf gives the code.
	Err             error
	BaseOffset      int64 // -1 on error
	LogAppendTimeMs int64 // -1 for CreateTime
	LogStartOffset  int64 // -1 where unknown
	RecordErrors    []RecordError
	CurrentLeader   *LeaderHint // set with NOT_LEADER_OR_FOLLOWER (KIP-951)
}

// RecordError names a record of the batch that made it invalid (KIP-467).
type RecordError struct {
	BatchIndex int32
	Message    string
}

// LeaderHint is the leader of a partition as this broker knows it (KIP-951).
type LeaderHint struct {
	LeaderID    int32 // -1: none
	LeaderEpoch int32
}

// FetchInput is one Fetch request after session handling, authorization and
// topic id resolution.
type FetchInput struct {
	ReplicaID     int32 // -1 consumer, -2 debugging consumer (reads to the log end), >= 0 follower
	ReplicaEpoch  int64 // broker epoch of a follower; -1 unknown
	MaxWaitMs     int32
	MinBytes      int32
	MaxBytes      int32 // already capped by fetch.max.bytes for consumers
	Version       int16
	ReadCommitted bool
	RackID        string
	Partitions    []FetchPartition
}

// FetchPartition is one partition of a Fetch request.
type FetchPartition struct {
	// TP.Topic must be set unless Code is; TP.TopicID is zero below v13.
	TP types.TopicIDPartition
	// Code, when set by the caller (for example TOPIC_AUTHORIZATION_FAILED or
	// UNKNOWN_TOPIC_ID), is answered as it is without reading; the answer
	// comes at once, as for any partition error.
	Code               kerrors.Code
	CurrentLeaderEpoch int32 // -1: not checked
	FetchOffset        int64
	LastFetchedEpoch   int32 // -1: no divergence check
	LogStartOffset     int64 // a follower's own; -1 for consumers
	MaxBytes           int32
}

// FetchResult answers one FetchPartition, in request order. On an error all
// offsets are -1 and Records is empty. AbortedTransactions is nil unless
// ReadCommitted was asked. CurrentLeader is set with NOT_LEADER_OR_FOLLOWER and
// FENCED_LEADER_EPOCH from Fetch v16 on (KIP-951). The receiver owns Records
// and must release it.
type FetchResult struct {
	TP types.TopicIDPartition
	wire.FetchPartition
}

// Code is the error code of the partition.
func (r *FetchResult) Code() kerrors.Code { return kerrors.Code(r.ErrorCode) }

// ListOffsetsInput is one ListOffsets request (all versions).
type ListOffsetsInput struct {
	ReplicaID     int32 // -1 consumer, -2 debugging consumer
	ReadCommitted bool
	Version       int16
	Partitions    []ListOffsetsPartition
}

// ListOffsetsPartition asks for one timestamp of one partition.
type ListOffsetsPartition struct {
	TP                 types.TopicPartition
	CurrentLeaderEpoch int32 // -1: not checked
	Timestamp          int64 // >= 0 or one of the Timestamp constants
}

// Special timestamps of ListOffsets (ListOffsetsRequest in Apache Kafka 4.3).
const (
	TimestampLatest                int64 = -1
	TimestampEarliest              int64 = -2
	TimestampMax                   int64 = -3 // v7
	TimestampEarliestLocal         int64 = -4 // v8
	TimestampLatestTiered          int64 = -5 // v9
	TimestampEarliestPendingUpload int64 = -6 // v11
)

// ListOffsetsResult answers one ListOffsetsPartition, in request order.
type ListOffsetsResult struct {
	TP          types.TopicPartition
	Code        kerrors.Code
	Timestamp   int64 // -1: none
	Offset      int64 // -1: none
	LeaderEpoch int32 // -1: none
}

// EpochEndInput asks where an epoch ends (OffsetForLeaderEpoch).
type EpochEndInput struct {
	TP                 types.TopicPartition
	CurrentLeaderEpoch int32 // -1: not checked
	LeaderEpoch        int32
}

// EpochEndResult answers an EpochEndInput.
type EpochEndResult struct {
	TP          types.TopicPartition
	Code        kerrors.Code
	LeaderEpoch int32 // -1: unknown
	EndOffset   int64 // -1: unknown
}

// DeleteRecordsInput is one DeleteRecords request.
type DeleteRecordsInput struct {
	TimeoutMs  int32
	Partitions []DeleteRecordsPartition
}

// DeleteRecordsPartition asks to drop everything below Offset; -1 means the
// high watermark.
type DeleteRecordsPartition struct {
	TP     types.TopicPartition
	Offset int64
}

// DeleteRecordsResult answers one DeleteRecordsPartition, in request order.
type DeleteRecordsResult struct {
	TP           types.TopicPartition
	Code         kerrors.Code
	LowWatermark int64 // -1 on error
}

// DescribeProducersResult lists the producers that a partition's leader knows.
type DescribeProducersResult struct {
	TP        types.TopicPartition
	Code      kerrors.Code
	Message   string
	Producers []ProducerState
}

// ProducerState is one active producer of a partition.
type ProducerState struct {
	ProducerID            int64
	ProducerEpoch         int32
	LastSequence          int32 // -1: none
	LastTimestampMs       int64 // -1: none
	CoordinatorEpoch      int32 // -1: none
	CurrentTxnStartOffset int64 // -1: none
}

// LogDirDescription is one data folder with the logs asked for.
type LogDirDescription struct {
	Path        string
	Code        kerrors.Code // KAFKA_STORAGE_ERROR for a failed folder
	TotalBytes  int64        // -1: unknown
	UsableBytes int64        // -1: unknown
	Logs        []LogDescription
}

// LogDescription is the size of one log.
type LogDescription struct {
	TP        types.TopicPartition
	SizeBytes int64
	OffsetLag int64 // how far the log end is behind the high watermark; 0 for a leader
	Future    bool
}

// CoordinatorAppend is one batch that a coordinator writes to its own partition.
type CoordinatorAppend struct {
	TP          types.TopicPartition
	LeaderEpoch int32 // the epoch the shard was loaded in; another answers NOT_LEADER_OR_FOLLOWER
	Batch       record.Batch
}
