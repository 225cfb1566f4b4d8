package producerstate

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/record"
)

// Batch is what the rules need to know of a v2 batch. Offsets are those it has
// or will have in the log.
type Batch struct {
	ProducerID     int64
	ProducerEpoch  int16
	BaseSequence   int32
	LastSequence   int32
	BaseOffset     int64
	LastOffset     int64
	MaxTimestampMs int64
	Transactional  bool
	// Marker is set on a control batch that ends a transaction. A control
	// batch without one (all its records were compacted away) changes nothing.
	Control bool
	Marker  *Marker
}

// Marker is the record of a control batch that ends a transaction
// (EndTransactionMarker.java).
type Marker struct {
	Commit           bool // false aborts
	CoordinatorEpoch int32
	TimestampMs      int64
	// TransactionVersion is what the coordinator said in WriteTxnMarkers; it
	// is not in the log. VersionUnknown is right only for OriginReplication.
	TransactionVersion int16
}

// VersionUnknown means that nobody said which transaction version a marker
// belongs to (TV_UNKNOWN in Kafka).
const VersionUnknown int16 = -1

// Control record types (ControlRecordType.java).
const (
	controlAbort  = 0
	controlCommit = 1
)

// maxControlBytes bounds what a control batch may inflate to.
const maxControlBytes = 1 << 20

// BatchOf reads the view from a whole batch. It fails only on a control batch
// whose record is not a transaction marker. The marker's TransactionVersion is
// VersionUnknown; a leader that appends for a coordinator sets it.
func BatchOf(b record.Batch) (Batch, error) {
	v := Batch{
		ProducerID:     b.ProducerID(),
		ProducerEpoch:  b.ProducerEpoch(),
		BaseSequence:   b.BaseSequence(),
		LastSequence:   b.LastSequence(),
		BaseOffset:     b.BaseOffset(),
		LastOffset:     b.LastOffset(),
		MaxTimestampMs: b.MaxTimestamp(),
		Transactional:  b.IsTransactional(),
		Control:        b.IsControl(),
	}
	if !v.Control || v.ProducerID < 0 {
		return v, nil
	}
	for r, err := range b.Records(maxControlBytes) {
		if err != nil {
			return v, fmt.Errorf("control batch at offset %d: %w", v.BaseOffset, err)
		}
		m, err := parseMarker(r.Key, r.Value)
		if err != nil {
			return v, fmt.Errorf("control batch at offset %d: %w", v.BaseOffset, err)
		}
		m.TimestampMs = r.Timestamp
		v.Marker = &m
		break // a marker batch holds one record
	}
	return v, nil
}

// parseMarker reads a control record's key (version, type) and value (version,
// coordinator epoch). Newer versions may carry more after that.
func parseMarker(key, value []byte) (Marker, error) {
	m := Marker{TransactionVersion: VersionUnknown}
	if len(key) < 4 {
		return m, fmt.Errorf("key of %d bytes is not a control record's: %w", len(key), record.ErrCorrupt)
	}
	switch t := int16(binary.BigEndian.Uint16(key[2:])); t {
	case controlAbort:
	case controlCommit:
		m.Commit = true
	default:
		return m, fmt.Errorf("control type %d does not end a transaction: %w", t, record.ErrCorrupt)
	}
	if len(value) < 6 {
		return m, fmt.Errorf("value of %d bytes is not a transaction marker's: %w", len(value), record.ErrCorrupt)
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 {
		return m, fmt.Errorf("transaction marker version %d: %w", v, record.ErrCorrupt)
	}
	m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(value[2:]))
	return m, nil
}

// Verdict is the answer of a check that did not refuse.
type Verdict struct {
	// Duplicate says that exactly this batch (epoch, first and last sequence)
	// is in the log already: append nothing and answer with the fields below.
	Duplicate   bool
	FirstOffset int64
	LastOffset  int64
	TimestampMs int64
}

// CompletedTxn is a transaction whose marker arrived.
type CompletedTxn struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // the marker's
	Aborted     bool
}

// AbortedTxn is the entry that a transaction index keeps of an aborted
// transaction (AbortedTxn.java).
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64
	LastStableOffset int64
}
