package line

import (
	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
)

// Offset is short for an offset that may be absent.
type Offset = boundary.Offset

// Reading is what was found out about a group and a partition. Every offset may
// be absent. Committed must be read before the ends: read the other way round, a
// busy partition shows commits above its end.
type Reading struct {
	Group     string
	Topic     string
	Partition int32

	// State is the group's state in Kafka's words ("Stable", "Empty", ...), empty
	// when the cluster did not tell.
	State string
	// Owner names the member that the partition is assigned to, empty for none.
	Owner string
	// Left says that the group has members and none of them reads the topic.
	Left bool

	LogStart, HighWatermark, LastStable Offset
	// Committed is absent when the read failed and when there is no commit;
	// NoCommit tells the two apart.
	Committed Offset
	NoCommit  bool

	// Beacon is what the commit metadata says, nil without one.
	Beacon *beacon.Beacon
	// Effect is the effect watermark by a source outside the group (--effects). It
	// counts before the beacon's.
	Effect Offset

	// UnreadMs and UncommittedMs are the timestamps of the records at the position
	// and at the committed offset, in Unix ms; absent when there is no such record
	// or it was not read.
	UnreadMs, UncommittedMs Offset

	// Problems are readings that failed, in words.
	Problems []string
}

// Options are the thresholds of a verdict, in ms.
type Options struct {
	NowMs int64
	// BeaconIntervalMs is how often a working consumer sends a beacon; one older
	// than three intervals says nothing about now (10 s when zero).
	BeaconIntervalMs int64
	// WorkingMs is the age up to which a record in flight is just being worked on
	// (10 s when zero).
	WorkingMs int64
	// StalledMs is the age from which the oldest record in flight stalls its
	// partition (60 s when zero).
	StalledMs int64
}

// Defaults of Options.
const (
	DefaultBeaconIntervalMs = 10_000
	DefaultWorkingMs        = 10_000
	DefaultStalledMs        = 60_000
)

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *int64
		value int64
	}{{&o.BeaconIntervalMs, DefaultBeaconIntervalMs}, {&o.WorkingMs, DefaultWorkingMs}, {&o.StalledMs, DefaultStalledMs}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return o
}

// Line is one partition's line. Ages are in ms.
type Line struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	State     string `json:"state,omitempty"`
	Owner     string `json:"owner,omitempty"`
	// Left says that the group reads other topics and no longer this one.
	Left bool `json:"left,omitempty"`

	LogStart      Offset `json:"log_start"`
	Committed     Offset `json:"committed"`
	Effect        Offset `json:"effect"`
	Position      Offset `json:"position"`
	HighWatermark Offset `json:"high_watermark"`
	LastStable    Offset `json:"last_stable"`
	// NoCommit says that Committed is absent because there is none, not because the
	// reading failed.
	NoCommit bool `json:"no_commit,omitempty"`

	// The gaps. Uncommitted is from committed to the end: all that can be said of
	// a group whose position is not known.
	Unread       Offset `json:"unread"`
	EffectBehind Offset `json:"effect_behind"`
	CommitBehind Offset `json:"commit_behind"`
	CommitAhead  Offset `json:"commit_ahead"`
	Expired      Offset `json:"expired"`
	Uncommitted  Offset `json:"uncommitted"`
	// Unstable is from the last stable offset to the high watermark: records of
	// open transactions and behind them, which read_committed cannot see.
	Unstable Offset `json:"unstable"`

	// Delivered, Succeeded and Retried count what this assignment did.
	Delivered Offset `json:"delivered"`
	Succeeded Offset `json:"succeeded"`
	Retried   Offset `json:"retried"`
	// StoppedMs is how long the partition had no sign of life before this
	// assignment.
	StoppedMs Offset `json:"stopped_ms"`

	// InFlight is nil when it is not known what the consumer holds.
	InFlight     *InFlight `json:"in_flight,omitempty"`
	Quarantined  Offset    `json:"quarantined"`
	Paused       string    `json:"paused,omitempty"`
	Generation   Offset    `json:"generation"`
	BeaconAgeMs  Offset    `json:"beacon_age_ms"`
	UnreadAgeMs  Offset    `json:"unread_age_ms"`
	CommitAgeMs  Offset    `json:"uncommitted_age_ms"` // age of the record at the committed offset
	EffectSource string    `json:"effect_source,omitempty"`

	Verdict Verdict `json:"verdict"`
	// Unknown says why something is unknown, Problems which readings failed.
	Unknown  []string `json:"unknown,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// CommittedText is the committed offset for a person, who also sees that there is
// none.
func (l Line) CommittedText() string {
	if l.NoCommit {
		return "none"
	}
	return l.Committed.String()
}

// InFlight is what the consumer holds, by stage, at the time of its beacon.
type InFlight struct {
	Running   int `json:"running"`
	Queued    int `json:"queued"`
	RetryWait int `json:"retry_wait"`
	// How long the oldest record of each stage has been in it.
	RunningMs   int64 `json:"running_age_ms"`
	QueuedMs    int64 `json:"queued_age_ms"`
	RetryWaitMs int64 `json:"retry_wait_age_ms"`
	// PollMs is the time since the process came back from a poll.
	PollMs int64 `json:"poll_age_ms"`
	// Oldest is the first record that is not closed, absent for none.
	Oldest    Offset `json:"oldest"`
	OldestMs  int64  `json:"oldest_age_ms"`
	Attempts  int    `json:"attempts"`
	LastError string `json:"last_error,omitempty"`
}

// Total counts the records in flight.
func (f *InFlight) Total() int64 { return int64(f.Running) + int64(f.Queued) + int64(f.RetryWait) }

// Stopped reports whether no member is there that could hold records of the
// partition.
func (l *Line) Stopped() bool { return l.State == "Empty" || l.State == "Dead" || l.Left }

// Judge turns a reading into a line.
func Judge(r Reading, o Options) Line {
	o = o.withDefaults()
	l := Line{
		Group: r.Group, Topic: r.Topic, Partition: r.Partition, State: r.State, Owner: r.Owner, Left: r.Left,
		LogStart: r.LogStart, Committed: r.Committed, HighWatermark: r.HighWatermark, LastStable: r.LastStable,
		NoCommit: r.NoCommit, Problems: r.Problems,
	}
	l.readBeacon(r, o)
	if r.Effect.Present() {
		l.Effect, l.EffectSource = r.Effect, "effects"
	}
	l.measure(r, o)
	l.judge(r, o)
	return l
}

// readBeacon takes from the beacon what still holds now.
func (l *Line) readBeacon(r Reading, o Options) {
	b := r.Beacon
	if l.Stopped() {
		// Nobody holds records: a restart reads from the committed offset.
		l.Position, l.InFlight = r.Committed, &InFlight{}
	}
	if b == nil {
		return
	}
	age := max(0, o.NowMs-b.AtMs) // a clock that is ahead makes a beacon new, not old
	l.BeaconAgeMs = boundary.At(age)
	l.Generation = boundary.At(int64(b.Generation))
	l.Quarantined = boundary.At(b.Quarantined)
	l.Delivered, l.Succeeded, l.Retried = boundary.At(b.Delivered), boundary.At(b.Succeeded), boundary.At(b.Retried)
	if b.StoppedMs > 0 {
		l.StoppedMs = boundary.At(b.StoppedMs)
	}
	if l.Stopped() {
		// Effects stay done; what was in flight will be delivered again.
		l.Effect, l.EffectSource = boundary.At(b.Effect), "beacon"
		return
	}
	if age > 3*o.BeaconIntervalMs && !l.idleAtEnd(b) {
		l.Unknown = append(l.Unknown, "the beacon is "+ageText(age)+" old, so position, effect and what is in flight are not known")
		return
	}
	l.Position = boundary.At(b.Position)
	l.Effect, l.EffectSource = boundary.At(b.Effect), "beacon"
	l.Paused = b.Paused
	l.InFlight = &InFlight{
		Running: b.Running, Queued: b.Queued, RetryWait: b.RetryWait, Attempts: b.Attempts, LastError: b.LastError,
		RunningMs: b.RunningAgeMs, QueuedMs: b.QueuedAgeMs, RetryWaitMs: b.RetryAgeMs, PollMs: b.PollAgeMs,
	}
	if b.OldestOffset >= 0 {
		l.InFlight.Oldest, l.InFlight.OldestMs = boundary.At(b.OldestOffset), b.OldestAgeMs
	}
}

// idleAtEnd: everything delivered was closed and there was nothing to read, and
// there still is not. Such a beacon does not age, because nothing can have
// happened since; an idle consumer need not repeat it.
func (l *Line) idleAtEnd(b *beacon.Beacon) bool {
	end, ok := l.LastStable.Or(l.HighWatermark).Get()
	return ok && b.Position == b.Effect && b.Running+b.Waiting() == 0 && b.Position >= end
}

// end is where the consumer's reading ends. Isolation is the consumer's own
// choice and shows in no protocol: one that stands above the last stable offset
// reads uncommitted records.
func (l *Line) end() Offset {
	if n, ok := l.Position.Minus(l.LastStable); ok && n > 0 {
		return l.HighWatermark
	}
	return l.LastStable.Or(l.HighWatermark)
}

func (l *Line) measure(r Reading, o Options) {
	gap := func(high, low Offset) Offset {
		n, ok := high.Minus(low)
		if !ok {
			return Offset{}
		}
		return boundary.At(max(0, n))
	}
	end := l.end()
	l.Unread = gap(end, l.Position)
	l.EffectBehind = gap(l.Position, l.Effect)
	l.CommitBehind = gap(l.Effect, l.Committed)
	l.CommitAhead = gap(l.Committed, l.Effect)
	l.Expired = gap(l.LogStart, l.Committed)
	l.Uncommitted = gap(end, l.Committed)
	l.Unstable = gap(l.HighWatermark, l.LastStable)
	since := func(at Offset) Offset {
		n, ok := boundary.At(o.NowMs).Minus(at)
		if !ok {
			return Offset{}
		}
		return boundary.At(n) // negative when the producer's clock is ahead: shown as it is
	}
	l.UnreadAgeMs = since(r.UnreadMs)
	l.CommitAgeMs = since(r.UncommittedMs)
}
