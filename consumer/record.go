package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is one delivered record. Its slices belong to the handler until it
// returns.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// LeaderEpoch is the epoch of the leader that wrote the record, -1 unknown.
	LeaderEpoch int32
	Timestamp   time.Time
	// Key is nil when the record has none; an empty key is a key.
	Key, Value []byte
	Headers    []kgo.RecordHeader
	// Attempt is 1 on the first run of the handler for this delivery.
	Attempt int
	// Generation is the assignment under which the record was delivered. It rises
	// with every assignment of the partition to this process: an effect store
	// that keeps the highest one can refuse a late writer.
	Generation int64
	// GroupGeneration is the group's generation (classic) or member epoch
	// (KIP-848) of that time.
	GroupGeneration int32
}

// Header returns the value of the last header with that key, nil without one.
func (r *Record) Header(key string) []byte {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i].Value
		}
	}
	return nil
}

// EventID returns the id that Send put on the record, "" without one.
func (r *Record) EventID() string { return string(r.Header(HeaderEventID)) }

type outcomeKind int8

const (
	outcomeDone outcomeKind = iota
	outcomeRetry
	outcomeQuarantine
)

// Outcome is what a handler decided about a record.
type Outcome struct {
	kind   outcomeKind
	after  time.Duration
	reason string
}

// Done says that the effect of the record is complete.
var Done = Outcome{}

// Retry runs the handler again after at least that long; zero takes the
// configured backoff, which grows with the attempts. The record keeps its place:
// with key or partition order nothing of its key or partition overtakes it.
func Retry(after time.Duration) Outcome { return Outcome{kind: outcomeRetry, after: max(after, 0)} }

// Because adds the cause to an outcome. It is what Line, the beacon and the
// quarantine header show.
func (o Outcome) Because(err error) Outcome {
	if err != nil {
		o.reason = err.Error()
	}
	return o
}

// Quarantine gives the record up: it goes to the quarantine topic, and is closed
// once that append is acknowledged. It is not a success and is counted apart.
// While the quarantine budget is spent the record waits and is tried again.
func Quarantine(reason string) Outcome { return Outcome{kind: outcomeQuarantine, reason: reason} }

// String names the outcome.
func (o Outcome) String() string {
	switch o.kind {
	case outcomeRetry:
		return "retry: " + o.reason
	case outcomeQuarantine:
		return "quarantine: " + o.reason
	}
	return "done"
}
