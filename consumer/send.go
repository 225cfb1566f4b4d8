package consumer

import (
	"time"
)

// HeaderEventID carries the id that Send was given.
const HeaderEventID = "tm-event-id"

// SendOutcome is what the sender knows about a record.
type SendOutcome string

// Outcomes of Send.
const (
	// SendAcked: the broker acknowledged the record.
	SendAcked SendOutcome = "acked"
	// SendRejected: the record is refused and in no log.
	SendRejected SendOutcome = "rejected"
	// SendUnknown: the record may or may not be in the log. Only an id scan of the
	// log decides.
	SendUnknown SendOutcome = "unknown"
)

// AppendState is what is known about the log.
type AppendState string

// States of the append.
const (
	// AppendNo: not in any log.
	AppendNo AppendState = "no"
	// AppendLeader: in the leader's log, not known to be committed
	// (NOT_ENOUGH_REPLICAS_AFTER_APPEND, or acks below all).
	AppendLeader AppendState = "leader"
	// AppendCommitted: acknowledged by all in-sync replicas.
	AppendCommitted AppendState = "committed"
	// AppendUnknown: a request was written and its answer did not come.
	AppendUnknown AppendState = "unknown"
)

// SendResult is one line of the send ledger. An id whose result was unknown gets a
// second line when the answer still comes.
type SendResult struct {
	ID        string
	Topic     string
	Partition int32 // -1 when none was chosen
	Epoch     int32 // leader epoch of the record, -1 unknown
	Offset    int64 // Absent unless acked
	Outcome   SendOutcome
	Append    AppendState
	Err       error
	At        time.Time
}

// SendCounts are the totals of a consumer's send ledger.
type SendCounts struct{ Acked, Rejected, Unknown int64 }
