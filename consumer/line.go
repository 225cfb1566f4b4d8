package consumer

import "time"

// Absent marks an offset that could not be read. It is never 0: a reading that
// failed says nothing.
const Absent int64 = -1

// Line is where one assigned partition stands. The healthy order is LogStart <=
// Committed <= Effect <= Position <= LogEnd.
type Line struct {
	Topic     string
	Partition int32
	// LogStart, LogEnd (the high watermark) and LastStable are of the last fetch
	// or listing of the partition, Absent before the first.
	LogStart, LogEnd, LastStable int64
	// Committed is the last offset that the coordinator acknowledged to us or
	// gave us at the start; Absent when the group has none.
	Committed int64
	// Effect is the first delivered offset that is not closed, else Position.
	Effect int64
	// Position is the next offset to fetch.
	Position int64
	// Queued, Running, RetryWait and Quarantining (append under way) count
	// delivered records that are not closed, by stage; Bytes is their size.
	Queued, Running, RetryWait, Quarantining int
	Bytes                                    int64
	// CompletedAhead counts completed records above Effect.
	CompletedAhead int
	// Oldest is the first delivered record that is not closed.
	Oldest Oldest
	// OldestQueued, OldestRunning, OldestRetry are the ages of the oldest record
	// of each stage, counted from when it entered the stage; zero without one.
	OldestQueued, OldestRunning, OldestRetry time.Duration
	// OverDeadline counts running records beyond the processing deadline.
	OverDeadline int
	// Paused says why fetching is held, "" when it is not: "records", "bytes",
	// "window", "total", "drain", "held".
	Paused string
	// Held is why the partition is not consumed at all (StartError), nil when it is.
	Held error
	// Generation counts assignments of the partition; GroupGeneration is the
	// group's.
	Generation      int64
	GroupGeneration int32
	// Quarantined counts records of this assignment that closed by quarantine.
	Quarantined int64
	// Expired counts offsets that retention removed before they were read.
	Expired int64
	// SourceGone says that the log start has passed Oldest: after a restart that
	// record could not be read again.
	SourceGone bool
	// AssignedAt is when this assignment began. Stopped is how long nobody had
	// reported progress before it (from the previous owner's beacon), zero when
	// unknown.
	AssignedAt time.Time
	Stopped    time.Duration
}

// Oldest describes the record that holds the effect watermark.
type Oldest struct {
	// Offset is Absent when everything delivered is closed.
	Offset int64
	// Age is the time since the record was delivered.
	Age time.Duration
	Key []byte
	// Stage is "queued", "running", "retry" or "quarantining".
	Stage     string
	Attempts  int
	LastError string
}
