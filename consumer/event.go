package consumer

import (
	"errors"
	"fmt"
)

// Errors that end a consumer or answer its calls.
var (
	// ErrClosed answers calls after Close.
	ErrClosed = errors.New("consumer is closed")
	// ErrStuck ends a consumer whose handler ignored the end of its context for
	// StuckAfter.
	ErrStuck = errors.New("a handler does not return")
	// ErrProcessingDeadline is the cause of a context that ended at the deadline.
	ErrProcessingDeadline = errors.New("processing deadline passed")
	// ErrPartitionTaken is the cause of a context whose partition was revoked or
	// lost.
	ErrPartitionTaken = errors.New("partition was taken away")
	// ErrPoisonHead is the cause of a context that was ended because its record
	// holds up a nearly finished window.
	ErrPoisonHead = errors.New("record holds up its partition")
)

// StartError says that a partition is held because nobody may decide for the
// user where it begins. The other partitions go on.
type StartError struct {
	Topic     string
	Partition int32
	// Offset is the committed offset, Absent when the group has none.
	Offset int64
	// LogStart and LogEnd are the log's bounds.
	LogStart, LogEnd int64
	Reason           string
}

// Error names topic, partition and offset.
func (e *StartError) Error() string {
	at := "no committed offset"
	if e.Offset != Absent {
		at = fmt.Sprintf("committed offset %d", e.Offset)
	}
	return fmt.Sprintf("partition %s-%d is held: %s: %s (log %d..%d)", e.Topic, e.Partition, at, e.Reason, e.LogStart, e.LogEnd)
}

// EventKind names an event.
type EventKind string

// Kinds of events.
const (
	EventAssigned       EventKind = "assigned"
	EventRevoked        EventKind = "revoked"
	EventLost           EventKind = "lost"
	EventHeld           EventKind = "held"            // StartError
	EventExpired        EventKind = "expired"         // retention removed unread offsets
	EventSourceGone     EventKind = "source-gone"     // retention passed an unfinished record
	EventTruncated      EventKind = "truncated"       // the log lost offsets that we had read
	EventForeign        EventKind = "foreign-beacon"  // commit metadata of somebody else
	EventMoved          EventKind = "offset-moved"    // the committed offset is not our beacon's
	EventCommitLost     EventKind = "commit-lost"     // a commit was refused for good
	EventCommitDeferred EventKind = "commit-deferred" // a commit will be tried again
	EventStale          EventKind = "stale-result"    // a late result of a dropped assignment
	EventQuarantined    EventKind = "quarantined"
	EventQuarantineHeld EventKind = "quarantine-held" // the budget is spent, or no topic; once a record and assignment
	EventPoison         EventKind = "poison-head"
	EventDeadline       EventKind = "processing-deadline"
	EventStuck          EventKind = "stuck"
	EventPanic          EventKind = "handler-panic"
	EventFetchError     EventKind = "fetch-error"
	EventGroupError     EventKind = "group-error"
)

// Event is something that an operator should see.
type Event struct {
	Kind      EventKind
	Topic     string
	Partition int32
	Offset    int64 // Absent when it is about no offset
	Detail    string
	Err       error
}
