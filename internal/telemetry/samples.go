package telemetry

import "time"

// RequestSample is one finished request.
type RequestSample struct {
	APIKey, ErrorCode int16
	BytesIn, BytesOut int           // whole frames, size prefix included
	Queue             time.Duration // waited for a slot or for memory
	Handle            time.Duration // the Handler's synchronous part
	Wait              time.Duration // from the Handler's return to the answer
	Send              time.Duration // from the answer to the last byte written
}

// TLSSample is what a TLS listener serves with.
type TLSSample struct {
	Expires           time.Time // the earliest end of a certificate
	Reloaded, Refused int64     // new keys that serve, and that could not
}

// SocketStats are the sizes of one network server at this moment.
type SocketStats struct {
	Connections        int
	RequestsInFlight   int
	RequestMemoryBytes int64 // taken from the global budget
	RequestMemoryLimit int64
	BudgetWaiters      int
}

// PartitionSample is one partition at scrape time.
type PartitionSample struct {
	Topic     string
	Partition int32
	// From the metadata.
	Leader   int32 // -1 none
	Replicas []int32
	InSync   int // how many of them
	// From the log, when this node has one.
	HasLog           bool
	LogStartOffset   int64
	HighWatermark    int64
	LastStableOffset int64
	LogEndOffset     int64
	DurableEndOffset int64
	SizeBytes        int64
	NotDurableBytes  int64 // acknowledged, not fsynced yet; 0 in strict
}

// BrokerSample is one registered broker at scrape time.
type BrokerSample struct {
	ID      int32
	Address string // host:port of its first listener for clients
	Rack    string
	Fenced  bool
}

// MetadataSample is the metadata log and quorum as this node sees them.
type MetadataSample struct {
	AppliedOffset int64
	HighWatermark int64
	LogEndOffset  int64
	Epoch         int32
	LeaderID      int32 // -1 unknown
	Active        bool  // this node leads
}
