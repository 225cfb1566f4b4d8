package quorum

import (
	"context"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// FetchInput is the part of a Fetch of __cluster_metadata-0 that concerns the log.
type FetchInput struct {
	FetchOffset      int64
	LastFetchedEpoch int32 // -1: not given
	// CurrentLeaderEpoch is the epoch that the fetcher believes in; -1: not given.
	CurrentLeaderEpoch int32
	MaxBytes           int
}

// FetchResult answers FetchInput. At most one of Records, Diverging and
// Snapshot is set. Records holds whole batches up to the durable end of the
// log, committed or not (KafkaRaftClient.handleFetchRequest); the first batch
// is returned whole even beyond MaxBytes.
type FetchResult struct {
	Records        []byte
	Diverging      *EpochEnd
	Snapshot       *SnapshotID
	HighWatermark  int64
	LogStartOffset int64
	LogEndOffset   int64
	LeaderID       int32
	LeaderEpoch    int32
}

// EpochEnd is the end offset of an epoch.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// SnapshotChunk is a piece of a snapshot file.
type SnapshotChunk struct {
	Data       []byte
	TotalBytes int64
}

// ReplicaState is one row of DescribeQuorum. Times are -1 when not known.
type ReplicaState struct {
	NodeID             int32
	DirectoryID        types.UUID
	LogEndOffset       int64 // -1: not known
	LastFetchTimeMs    int64
	LastCaughtUpTimeMs int64
}

// Status is a moment of the quorum as this node sees it.
type Status struct {
	LeaderID       int32
	LeaderEpoch    int32
	IsLeader       bool
	HighWatermark  int64
	LogStartOffset int64
	LogEndOffset   int64 // durable end
	Voters         []Voter
	// VoterStates is filled on the leader only.
	VoterStates []ReplicaState
	Snapshot    SnapshotID // newest one
	Failed      error      // why the node stopped, if it did
}

// Proposer is what a controller needs of a Node.
type Proposer interface {
	NextOffset() (offset int64, epoch int32, err error)
	ProposeAt(offset int64, records []recordschema.MetadataRecord) error
}

var _ Proposer = (*Node)(nil)

// Prober is what /readyz needs of a Node.
type Prober interface {
	Probe(ctx context.Context) error
}
