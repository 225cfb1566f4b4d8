package drill

// Result is what a drill found. Times are milliseconds.
type Result struct {
	Members    int              `json:"members"`
	Partitions int              `json:"partitions"`
	Rate       float64          `json:"records_per_second_per_partition"`
	Protocols  []ProtocolResult `json:"protocols"`
}

// ProtocolResult is one protocol's run.
type ProtocolResult struct {
	Protocol    Protocol `json:"protocol"`
	Unsupported bool     `json:"unsupported,omitempty"` // the cluster does not have it; nothing was measured
	SessionMs   int64    `json:"session_timeout_ms"`
	HeartbeatMs int64    `json:"heartbeat_interval_ms"`
	Notes       []string `json:"notes,omitempty"`
	Events      []Event  `json:"events"`
	Produced    int64    `json:"records_produced"`
	Missed      int64    `json:"records_missed"`   // acknowledged to the producer, processed by nobody
	Repeated    int64    `json:"records_repeated"` // processed again, beyond the first time
	// ProduceErrors counts records that the cluster did not acknowledge. They
	// are in no other count, and make the drill inconclusive.
	ProduceErrors int64          `json:"produce_errors"`
	MissedAt      []MissedRecord `json:"missed_at,omitempty"` // the first of them
}

// MissedRecord is where a missed record lies.
type MissedRecord struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Event is one change of the group's members and what it did.
type Event struct {
	Event     string  `json:"event"` // join, leave or kill
	Members   int     `json:"members_after"`
	Settled   bool    `json:"settled"`
	SettledMs float64 `json:"settled_ms"` // until the last partition had moved or come back
	// StoppedPartitions had no owner for a while; KeptStopped of them came back
	// to the member they had before: they stopped for nothing.
	StoppedPartitions int     `json:"stopped_partitions"`
	KeptStopped       int     `json:"stopped_without_moving"`
	StoppedMs         float64 `json:"partition_stopped_ms"` // summed over partitions
	LongestMs         float64 `json:"longest_stop_ms"`
	// QuietMs is the longest time without a record in a partition that was
	// never given up: a stall that no callback tells of.
	QuietMs  float64         `json:"longest_quiet_ms"`
	Commits  CommitResult    `json:"commits"`
	Repeated int64           `json:"records_repeated"`
	Stops    []PartitionStop `json:"stops"`
}

// CommitResult is what became of the members' commits during an event.
type CommitResult struct {
	Accepted  int64            `json:"accepted"`
	Refused   map[string]int64 `json:"refused"` // by Kafka's name of the error
	LongestMs float64          `json:"longest_ms"`
}

// PartitionStop is one partition that stopped, all its stops of one event taken
// together.
type PartitionStop struct {
	Partition int32   `json:"partition"`
	From      string  `json:"from"` // member that had it before
	To        string  `json:"to"`   // member that has it after; "" for nobody
	Moved     bool    `json:"moved"`
	StoppedMs float64 `json:"stopped_ms"`
	Stops     int     `json:"stops"`
}
