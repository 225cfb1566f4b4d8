package commitplan

// Absent says that the group has no committed offset.
const Absent int64 = -1

// Intervals are the times between commits of one partition, in milliseconds.
type Intervals struct {
	MovedMs, BeaconMs, IdleMs int64
}

// Member is who commits.
type Member struct {
	ID         string
	Generation int32
}

// State is the commit state of one assignment.
type State struct {
	// Committed is the last acknowledged offset.
	Committed int64
	// AttemptMs is when the last commit was sent, SuccessMs when one was accepted.
	AttemptMs, SuccessMs int64
	// Failures counts deferred answers in a row.
	Failures int
	// lostAs is the member whose commit was refused for good.
	lostAs *Member
}

// backoffMs bounds how fast deferred commits come back.
const backoffMs, backoffMaxMs int64 = 100, 5000

// Due reports whether a commit should be sent now. next is the committable
// offset, active whether records are delivered and not closed.
func (s *State) Due(nowMs, next int64, active bool, m Member, in Intervals) bool {
	if s.lostAs != nil && *s.lostAs == m || nowMs < s.retryAtMs() {
		return false
	}
	if s.Committed == Absent || s.Failures > 0 {
		return true
	}
	since := nowMs - s.AttemptMs
	if next != s.Committed {
		return since >= in.MovedMs
	}
	if active {
		return since >= in.BeaconMs
	}
	return since >= in.IdleMs
}

// NextMs is when Due may change by time alone.
func (s *State) NextMs(next int64, active bool, in Intervals) int64 {
	switch {
	case s.Committed == Absent || s.Failures > 0:
		return s.retryAtMs()
	case next != s.Committed:
		return s.AttemptMs + in.MovedMs
	case active:
		return s.AttemptMs + in.BeaconMs
	}
	return s.AttemptMs + in.IdleMs
}

func (s *State) retryAtMs() int64 {
	if s.Failures == 0 {
		return 0
	}
	return s.AttemptMs + min(backoffMs<<min(s.Failures-1, 10), backoffMaxMs)
}

// Sent notes that a commit left.
func (s *State) Sent(nowMs int64) { s.AttemptMs = nowMs }

// Answered books an answer to a commit of offset by m.
func (s *State) Answered(nowMs, offset int64, r Result, m Member) {
	switch r {
	case OK:
		s.Committed, s.SuccessMs, s.Failures, s.lostAs = offset, nowMs, 0, nil
	case Defer:
		s.Failures++
	case Lost:
		s.Failures, s.lostAs = 0, &m
	}
}

// Result is what an answer to a commit means.
type Result int8

// Results.
const (
	// OK: the coordinator has the offset.
	OK Result = iota
	// Defer: nothing was committed, trying again is right.
	Defer
	// Shrink is Defer with less metadata (OFFSET_METADATA_TOO_LARGE).
	Shrink
	// Lost: this member may not commit this partition any more.
	Lost
)

// Error codes of OffsetCommit that decide (Errors.java in Apache Kafka 4.3).
const (
	offsetMetadataTooLarge = 12
	illegalGeneration      = 22
	unknownMemberID        = 25
	fencedInstanceID       = 82
	unknownTopicOrPart     = 3
	unknownTopicID         = 100
	fencedMemberEpoch      = 110
)

// Classify names the result of an error code. Codes that it does not know are
// deferred: forgetting to commit is a replay, and booking one that did not happen
// would be a loss.
func Classify(code int16) Result {
	switch code {
	case 0:
		return OK
	case offsetMetadataTooLarge:
		return Shrink
	case illegalGeneration, unknownMemberID, fencedInstanceID, fencedMemberEpoch, unknownTopicOrPart, unknownTopicID:
		return Lost
	}
	return Defer
}
