package quorum

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// Defaults, from KRaftConfigs, QuorumConfig and MetadataLogConfig of Apache Kafka 4.3.
const (
	DefaultElectionTimeoutMs = 1000
	DefaultSegmentBytes      = 1 << 30
	DefaultSegmentMs         = 7 * 24 * 3600 * 1000
	DefaultRetentionBytes    = 100 << 20
	DefaultRetentionMs       = 7 * 24 * 3600 * 1000
	// MaxBatchBytes bounds one batch (KafkaRaftClient.MAX_BATCH_SIZE_BYTES).
	MaxBatchBytes = 8 << 20
	// MaxRecordsPerBatch bounds the records of one batch (QuorumController).
	MaxRecordsPerBatch = 10_000
	// maxUncommittedBytes bounds what waits for a commit; proposals beyond it
	// are refused with ErrBusy.
	maxUncommittedBytes = 64 << 20
)

// Voter is one member of the quorum: a KIP-853 replica key and where it listens.
type Voter struct {
	NodeID      int32
	DirectoryID types.UUID       // zero for a quorum of kraft.version 0
	Endpoints   []types.Endpoint // controller listeners; the security protocol is not stored
}

// Options of Open. FS, Dir and NodeID are required.
type Options struct {
	FS vfs.FS
	// Dir is the metadata log folder (metadata.log.dir); the log itself is in
	// its subfolder __cluster_metadata-0, made by Format.
	Dir         string
	NodeID      int32
	DirectoryID types.UUID
	ClusterID   string
	// Endpoints are this node's controller listeners as other nodes should
	// dial them. A leader whose entry in the voter set differs writes a new
	// Voters record at the start of its epoch. Nil keeps what is recorded.
	Endpoints []types.Endpoint

	// StaticVoters is the quorum of a folder that records none (formatted by
	// Apache Kafka with controller.quorum.voters, kraft.version 0).
	StaticVoters []Voter

	// ElectionTimeoutMs is controller.quorum.election.timeout.ms (1000).
	ElectionTimeoutMs int
	// SegmentBytes is metadata.log.segment.bytes (1 GiB), SegmentMs
	// metadata.log.segment.ms (7 days).
	SegmentBytes int64
	SegmentMs    int64
	// RetentionBytes is metadata.max.retention.bytes (100 MiB), RetentionMs
	// metadata.max.retention.ms (7 days); -1 keeps everything.
	RetentionBytes int64
	RetentionMs    int64

	// Transport carries raft messages to the other voters; nil is enough for
	// a quorum of one.
	Transport Transport
	// OnFatal is called once, from the node's goroutine, when the node cannot
	// go on (failed write or fsync, listener error). The node is stopped then.
	OnFatal func(error)
	// NowMs is the wall clock for timestamps in batches; time.Now by default.
	NowMs func() int64
	// Tick sends one raft tick per receive; nil means a ticker of a tenth of
	// the election timeout. Tests drive it by hand.
	Tick <-chan time.Time
	// OnSync, when set, is told the duration of every fsync of the log.
	OnSync func(time.Duration)
	Logger *slog.Logger
}

func (o *Options) fillDefaults() error {
	if o.FS == nil || o.Dir == "" {
		return fmt.Errorf("quorum: FS and Dir are required")
	}
	if o.NodeID < 0 {
		return fmt.Errorf("quorum: node id %d is negative", o.NodeID)
	}
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.SegmentBytes, DefaultSegmentBytes)
	def(&o.SegmentMs, DefaultSegmentMs)
	def(&o.RetentionBytes, DefaultRetentionBytes)
	def(&o.RetentionMs, DefaultRetentionMs)
	if o.ElectionTimeoutMs <= 0 {
		o.ElectionTimeoutMs = DefaultElectionTimeoutMs
	}
	if o.NowMs == nil {
		o.NowMs = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	return nil
}
