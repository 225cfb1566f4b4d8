package producerstate

// Verification is the pending question to the transaction coordinator whether
// a producer's transaction includes this partition (KIP-890,
// VerificationStateEntry.java). It also holds back higher sequences while a
// lower one is being retried. Whoever asks compares Guard before the append:
// a marker written meanwhile clears the entry, so an old answer matches none.
type Verification struct {
	Guard             uint64
	TimestampMs       int64
	LowestSequence    int32
	Epoch             int16
	SupportsEpochBump bool // the client uses transaction version 2
}

// BeginVerification returns the pending verification of a producer, making one
// if there is none, and lowers its sequence or raises its epoch to what b says.
func (s *State) BeginVerification(pid int64, sequence int32, epoch int16, supportsEpochBump bool, nowMs int64) Verification {
	v, ok := s.verifications[pid]
	if !ok {
		s.lastGuard++
		v = &Verification{Guard: s.lastGuard, TimestampMs: nowMs, LowestSequence: sequence, Epoch: epoch, SupportsEpochBump: supportsEpochBump}
		s.verifications[pid] = v
	}
	switch {
	case epoch == v.Epoch && sequence < v.LowestSequence:
		v.LowestSequence = sequence
	case epoch > v.Epoch:
		v.Epoch, v.LowestSequence = epoch, sequence
	}
	return *v
}

// VerificationOf returns the pending verification of a producer.
func (s *State) VerificationOf(pid int64) (Verification, bool) {
	if v, ok := s.verifications[pid]; ok {
		return *v, true
	}
	return Verification{}, false
}

// ClearVerification forgets the pending verification of a producer: after its
// first append in a transaction and when a marker for it is written.
func (s *State) ClearVerification(pid int64) { delete(s.verifications, pid) }
