package producerstate

import (
	"math"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
)

// checkEpoch refuses a producer that a newer incarnation has fenced. Markers
// of transaction version 2 carry a bumped epoch and so must be strictly newer
// (KIP-890), except that the same epoch with no open transaction is the retry
// of a marker that is already there (KAFKA-19999); at the largest epoch it is
// accepted even then, since no larger one exists. What the leader accepted a
// follower never refuses.
func checkEpoch(e *Entry, epoch int16, txnVersion int16, offset int64, origin record.Origin) error {
	if origin == record.OriginReplication {
		return nil
	}
	if txnVersion < 2 {
		if epoch < e.Epoch {
			return epochError(e, epoch, offset, "lower than")
		}
		return nil
	}
	retry := epoch == e.Epoch && (!e.InTransaction() || epoch == math.MaxInt16)
	if epoch <= e.Epoch && !retry {
		return epochError(e, epoch, offset, "not above")
	}
	return nil
}

func epochError(e *Entry, epoch int16, offset int64, how string) error {
	return kerrors.New(kerrors.InvalidProducerEpoch,
		"producer %d at offset %d sends epoch %d, %s the last seen epoch %d", e.ProducerID, offset, epoch, how, e.Epoch)
}

// checkSequence demands that a client's batch continues the last one. A new
// epoch starts at 0; a producer that is not known here may start anywhere
// (its records may have been deleted), unless it uses transaction version 2,
// where the coordinator's epoch bump makes 0 the only start.
func checkSequence(e *Entry, b *Batch, v *Verification) error {
	known := e.Epoch != NoEpoch
	if v != nil {
		if v.SupportsEpochBump && b.BaseSequence != 0 && !known {
			return sequenceError(b, "a transaction version 2 producer without state here must start at 0")
		}
		if b.BaseSequence > v.LowestSequence {
			return kerrors.New(kerrors.OutOfOrderSequenceNumber,
				"producer %d at offset %d sends sequence %d, but %d is still waiting to be verified",
				b.ProducerID, b.BaseOffset, b.BaseSequence, v.LowestSequence)
		}
	}
	switch {
	case !known:
		return nil
	case b.ProducerEpoch != e.Epoch:
		if b.BaseSequence != 0 {
			return kerrors.New(kerrors.OutOfOrderSequenceNumber,
				"producer %d at offset %d starts epoch %d (last seen: %d) with sequence %d instead of 0",
				b.ProducerID, b.BaseOffset, b.ProducerEpoch, e.Epoch, b.BaseSequence)
		}
		return nil
	case !inSequence(e.LastSequence(), b.BaseSequence):
		return kerrors.New(kerrors.OutOfOrderSequenceNumber,
			"producer %d at offset %d sends sequence %d after %d", b.ProducerID, b.BaseOffset, b.BaseSequence, e.LastSequence())
	}
	return nil
}

func sequenceError(b *Batch, why string) error {
	return kerrors.New(kerrors.OutOfOrderSequenceNumber,
		"producer %d at offset %d sends sequence %d: %s", b.ProducerID, b.BaseOffset, b.BaseSequence, why)
}

// applyData checks a data batch against e and, when it is accepted, makes it
// the newest. started reports that it opened a transaction.
func applyData(e *Entry, b *Batch, origin record.Origin, v *Verification) (started bool, err error) {
	if err := checkEpoch(e, b.ProducerEpoch, VersionUnknown, b.BaseOffset, origin); err != nil {
		return false, err
	}
	if origin == record.OriginClient {
		if err := checkSequence(e, b, v); err != nil {
			return false, err
		}
	}
	if e.InTransaction() && !b.Transactional {
		return false, kerrors.New(kerrors.InvalidTxnState,
			"producer %d at offset %d writes outside its open transaction", b.ProducerID, b.BaseOffset)
	}
	e.addBatch(b.ProducerEpoch, BatchMeta{
		LastSequence: b.LastSequence,
		OffsetDelta:  int32(b.LastOffset - b.BaseOffset),
		LastOffset:   b.LastOffset,
		TimestampMs:  b.MaxTimestampMs,
	})
	if b.Transactional && !e.InTransaction() {
		e.CurrentTxnFirstOffset = b.BaseOffset
		return true, nil
	}
	return false, nil
}

// applyMarker ends e's open transaction, if there is one: a marker for an
// empty transaction leaves no trace in the transaction index.
func applyMarker(e *Entry, b *Batch, origin record.Origin) (done CompletedTxn, ok bool, err error) {
	m := b.Marker
	if m.TransactionVersion == VersionUnknown && origin != record.OriginReplication {
		return done, false, kerrors.New(kerrors.InvalidRequest,
			"marker of producer %d at offset %d names no transaction version", b.ProducerID, b.BaseOffset)
	}
	if err := checkEpoch(e, b.ProducerEpoch, m.TransactionVersion, b.BaseOffset, origin); err != nil {
		return done, false, err
	}
	if m.CoordinatorEpoch < e.CoordinatorEpoch && origin != record.OriginReplication {
		return done, false, kerrors.New(kerrors.TransactionCoordinatorFenced,
			"marker of producer %d at offset %d comes from coordinator epoch %d, %d is known",
			b.ProducerID, b.BaseOffset, m.CoordinatorEpoch, e.CoordinatorEpoch)
	}
	if e.InTransaction() {
		ok = true
		done = CompletedTxn{ProducerID: b.ProducerID, FirstOffset: e.CurrentTxnFirstOffset, LastOffset: b.BaseOffset, Aborted: !m.Commit}
	}
	e.setEpoch(b.ProducerEpoch)
	e.CoordinatorEpoch = m.CoordinatorEpoch
	e.CurrentTxnFirstOffset = NoOffset
	e.LastTimestampMs = m.TimestampMs
	return done, ok, nil
}
