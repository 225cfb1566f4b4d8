package config

import (
	"github.com/tidemark-io/tidemark/internal/tlsconf"
	"github.com/tidemark-io/tidemark/internal/types"
)

// ServerConfig is everything the server reads at start, validated and typed.
// Times are milliseconds and sizes bytes unless a name says otherwise; the
// comment on a field names its key where the name alone does not.
type ServerConfig struct {
	// Static holds every broker setting that was given (file, environment,
	// flags) or that a cluster of one implies: the STATIC layer of Effective.
	Static Layer
	// Warnings are lines for the log: settings that are known but not in force.
	Warnings []string

	NodeID      int32
	Broker      bool // process.roles contains broker
	Controller  bool // process.roles contains controller
	Rack        *string
	DataDirs    []string // log.dirs, in order; the first one holds the metadata log unless MetadataDir says otherwise
	MetadataDir string   // metadata.log.dir, never empty
	Durability  Durability

	Listeners               []types.Endpoint // broker listeners to bind; host "" is every interface, port 0 a free one
	Advertised              []types.Endpoint // what clients are told; host "" means the machine's own name, port 0 the bound port
	InterBrokerListener     string
	ControllerListeners     []types.Endpoint // bind addresses; empty when this node is no controller
	ControllerAdvertised    []types.Endpoint
	ControllerListenerNames []string
	AdminListener           string           // HOST:PORT, "" for none
	ListenerProtocols       map[string]int16 // listener name -> security protocol id
	// TLS are the settings of the listeners whose protocol is SSL, by name.
	TLS map[string]tlsconf.Settings

	Topics    TopicDefaults
	Network   NetworkConfig
	Log       LogManagerConfig
	Quorum    QuorumConfig
	Metadata  MetadataLogConfig
	Replica   ReplicaConfig
	Offsets   OffsetsConfig
	Groups    GroupsConfig
	Lifecycle LifecycleConfig
}

// TopicDefaults is what a new topic gets when its creator does not say.
type TopicDefaults struct {
	NumPartitions            int
	DefaultReplicationFactor int
	AutoCreate               bool // auto.create.topics.enable
	DeleteEnabled            bool // delete.topic.enable
}

// NetworkConfig bounds connections, requests and memory.
type NetworkConfig struct {
	SocketSendBufferBytes        int // -1: the system's choice
	SocketReceiveBufferBytes     int
	SocketRequestMaxBytes        int
	ConnectionsMaxIdleMs         int64 // below 0: never
	MaxConnections               int
	MaxConnectionsPerIP          int
	MaxConnectionsPerIPOverrides map[string]int
	QueuedMaxRequests            int
	QueuedMaxRequestBytes        int64 // -1: the server chooses
	FetchMaxBytes                int
	FetchSessionCacheSlots       int // max.incremental.fetch.session.cache.slots
	MaxRequestPartitionSizeLimit int
	RequestTimeoutMs             int64
	ConnectionSetupTimeoutMs     int64
	ConnectionSetupTimeoutMaxMs  int64
}

// LogManagerConfig is what the log manager reads beside the topics' own settings.
type LogManagerConfig struct {
	RetentionCheckIntervalMs             int64
	FlushSchedulerIntervalMs             int64
	FlushOffsetCheckpointIntervalMs      int64
	FlushStartOffsetCheckpointIntervalMs int64
	InitialTaskDelayMs                   int64
	RecoveryThreadsPerDataDir            int
	ProducerIDExpirationMs               int64
	// Defaults is the configuration of a topic that overrides nothing.
	Defaults TopicConfig
}

// QuorumConfig is the controller quorum.
type QuorumConfig struct {
	Voters                []Voter // empty: this node is the only voter
	ElectionTimeoutMs     int64
	FetchTimeoutMs        int64
	RequestTimeoutMs      int64
	RetryBackoffMs        int64
	FetchMaxBytes         int
	FetchSnapshotMaxBytes int
}

// Voter is one element of controller.quorum.voters.
type Voter struct {
	ID   int32
	Host string
	Port int32
}

// MetadataLogConfig is the metadata log's segments and snapshots.
type MetadataLogConfig struct {
	SegmentBytes                   int
	SegmentMs                      int64
	MaxIdleIntervalMs              int64 // 0: write no no-ops
	RetentionBytes                 int64
	RetentionMs                    int64
	MaxRecordBytesBetweenSnapshots int64
	MaxSnapshotIntervalMs          int64 // 0: no limit
}

// ReplicaConfig is what leaders and followers read.
type ReplicaConfig struct {
	LagTimeMaxMs                      int64
	FetchWaitMaxMs                    int64
	FetchMinBytes                     int
	FetchMaxBytes                     int
	FetchResponseMaxBytes             int
	FetchBackoffMs                    int64
	HighWatermarkCheckpointIntervalMs int64
}

// OffsetsConfig is the offsets topic and its coordinator.
type OffsetsConfig struct {
	TopicPartitions          int
	TopicReplicationFactor   int
	TopicSegmentBytes        int
	TopicCompressionCodec    int
	MetadataMaxBytes         int // offset.metadata.max.bytes
	CommitTimeoutMs          int64
	LoadBufferSize           int
	RetentionMs              int64 // offsets.retention.minutes
	RetentionCheckIntervalMs int64
	AppendLingerMs           int64 // group.coordinator.append.linger.ms; -1: no waiting
}

// LifecycleConfig is how a broker lives with its controller.
type LifecycleConfig struct {
	HeartbeatIntervalMs       int64
	SessionTimeoutMs          int64
	RegistrationTimeoutMs     int64 // initial.broker.registration.timeout.ms
	ControlledShutdown        bool
	ControllerSocketTimeoutMs int64
}
