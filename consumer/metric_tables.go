package consumer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// metric is one series family over values of T.
type metric[T any] struct {
	name, kind, help string
	write            func(b *strings.Builder, labels string, v T)
}

func sample(b *strings.Builder, name, labels, extra string, v float64) {
	if extra != "" {
		labels += "," + extra
	}
	fmt.Fprintf(b, "tidemark_%s{%s} %g\n", name, labels, v)
}

// offsetMetric leaves out what is Absent.
func offsetMetric(name, help string, of func(Line) int64) metric[Line] {
	return metric[Line]{name, "gauge", help, func(b *strings.Builder, labels string, ln Line) {
		if v := of(ln); v != Absent {
			fmt.Fprintf(b, "tidemark_%s{%s} %d\n", name, labels, v)
		}
	}}
}

func staged(name, help string, of func(Line) [4]float64) metric[Line] {
	return metric[Line]{name, "gauge", help, func(b *strings.Builder, labels string, ln Line) {
		v := of(ln)
		for i, stage := range [...]string{"queued", "running", "retry", "quarantining"} {
			if v[i] >= 0 {
				sample(b, name, labels, fmt.Sprintf("stage=%q", stage), v[i])
			}
		}
	}}
}

var lineMetrics = []metric[Line]{
	offsetMetric("log_start_offset", "First offset of the log.", func(l Line) int64 { return l.LogStart }),
	offsetMetric("committed_offset", "Offset that the group has committed.", func(l Line) int64 { return l.Committed }),
	offsetMetric("effect_watermark", "First delivered offset that is not closed.", func(l Line) int64 { return l.Effect }),
	offsetMetric("position", "Next offset to fetch.", func(l Line) int64 { return l.Position }),
	offsetMetric("stable_offset", "Last stable offset.", func(l Line) int64 { return l.LastStable }),
	offsetMetric("log_end_offset", "High watermark.", func(l Line) int64 { return l.LogEnd }),
	offsetMetric("inflight_bytes", "Bytes of delivered records that are not closed.", func(l Line) int64 { return l.Bytes }),
	offsetMetric("completed_ahead", "Completed records above the effect watermark.", func(l Line) int64 { return int64(l.CompletedAhead) }),
	offsetMetric("expired_records", "Offsets that retention removed before they were read.", func(l Line) int64 { return l.Expired }),
	offsetMetric("assignment_generation", "Number of this assignment of the partition.", func(l Line) int64 { return l.Generation }),
	staged("inflight", "Delivered records that are not closed, by stage.", func(l Line) [4]float64 {
		return [4]float64{float64(l.Queued), float64(l.Running), float64(l.RetryWait), float64(l.Quarantining)}
	}),
	staged("stage_age_seconds", "Time that the oldest record of a stage has been in it.", func(l Line) [4]float64 {
		return [4]float64{l.OldestQueued.Seconds(), l.OldestRunning.Seconds(), l.OldestRetry.Seconds(), -1}
	}),
	{"oldest_inflight_age_seconds", "gauge", "Time since the first unfinished record was delivered.", func(b *strings.Builder, labels string, l Line) {
		if l.Oldest.Offset != Absent {
			sample(b, "oldest_inflight_age_seconds", labels, "", l.Oldest.Age.Seconds())
		}
	}},
	{"paused", "gauge", "1 while fetching is held, by reason.", func(b *strings.Builder, labels string, l Line) {
		if l.Paused != "" {
			sample(b, "paused", labels, fmt.Sprintf("reason=%q", l.Paused), 1)
		}
	}},
	{"partition_stopped_seconds", "gauge", "Time without a sign of life before this assignment.", func(b *strings.Builder, labels string, l Line) {
		if l.Stopped > 0 {
			sample(b, "partition_stopped_seconds", labels, "", l.Stopped.Seconds())
		}
	}},
}

func total(name, kind, help string, of func(Stats) map[string]float64) metric[Stats] {
	return metric[Stats]{name, kind, help, func(b *strings.Builder, labels string, s Stats) {
		values := of(s)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			sample(b, name, labels, key, values[key])
		}
	}}
}

var totalMetrics = []metric[Stats]{
	total("membership", "gauge", "1 for what the member is: waiting for an assignment, idle (a member without partitions), or assigned.", func(s Stats) map[string]float64 {
		out := map[string]float64{}
		for _, m := range memberships {
			out[`state="`+string(m)+`"`] = 0
		}
		out[`state="`+string(s.Membership)+`"`] = 1
		return out
	}),
	total("delivered_total", "counter", "Records delivered to the runtime.", func(s Stats) map[string]float64 { return one(float64(s.Delivered)) }),
	total("restored_total", "counter", "Records that an earlier owner had completed.", func(s Stats) map[string]float64 { return one(float64(s.Restored)) }),
	total("effects_total", "counter", "Handler results by outcome; quarantined is not done.", func(s Stats) map[string]float64 {
		return by("outcome", "done", s.Done, "retry", s.Retried, "quarantined", s.Quarantined, "stale", s.Stale)
	}),
	total("quarantine_held_total", "counter", "Quarantines put off for want of budget or topic.", func(s Stats) map[string]float64 { return one(float64(s.QuarantineHeld)) }),
	total("processing_deadline_total", "counter", "Handlers that ran beyond the processing deadline.", func(s Stats) map[string]float64 { return one(float64(s.DeadlinePassed)) }),
	total("over_deadline", "gauge", "Handlers beyond the processing deadline now.", func(s Stats) map[string]float64 { return one(float64(s.OverDeadline)) }),
	total("oldest_inflight_age_max_seconds", "gauge", "Age of the oldest unfinished record of this member.", func(s Stats) map[string]float64 { return one(s.OldestInFlight.Seconds()) }),
	total("static_wait_seconds", "gauge", "Longest time that a partition of this static member had no sign of life before it came back.", func(s Stats) map[string]float64 { return one(s.StaticWait.Seconds()) }),
	total("commits_total", "counter", "Commits of a partition by result.", func(s Stats) map[string]float64 {
		return by("result", "ok", s.CommitsOK, "deferred", s.CommitsDeferred, "lost", s.CommitsLost)
	}),
	total("rebalance_partitions_total", "counter", "Partitions by what a rebalance did.", func(s Stats) map[string]float64 {
		return by("kind", "assign", s.Assigns, "revoke", s.Revokes, "lost", s.Losts)
	}),
	total("rebalance_seconds", "counter", "Time in rebalance callbacks.", func(s Stats) map[string]float64 {
		return map[string]float64{`kind="assign"`: s.AssignTime.Seconds(), `kind="revoke"`: s.RevokeTime.Seconds(), `kind="lost"`: s.LostTime.Seconds()}
	}),
	total("poll_age_seconds", "gauge", "Time since the last poll came back.", func(s Stats) map[string]float64 { return age(s.SincePoll) }),
	total("commit_age_seconds", "gauge", "Time since the last accepted commit.", func(s Stats) map[string]float64 { return age(s.SinceCommit) }),
	total("sends_total", "counter", "Results of Send.", func(s Stats) map[string]float64 {
		return by("outcome", "acked", s.Sends.Acked, "rejected", s.Sends.Rejected, "unknown", s.Sends.Unknown)
	}),
}

func one(v float64) map[string]float64 { return map[string]float64{"": v} }

func age(d time.Duration) map[string]float64 {
	if d < 0 {
		return nil
	}
	return one(d.Seconds())
}

func by(label string, pairs ...any) map[string]float64 {
	m := map[string]float64{}
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprintf("%s=%q", label, pairs[i])] = float64(pairs[i+1].(int64))
	}
	return m
}
