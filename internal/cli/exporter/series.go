package exporter

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/internal/cli/lines"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/line"
)

var (
	partitionLabels = []string{"group", "topic", "partition"}
	compatLabels    = []string{"consumergroup", "topic", "partition"}
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// gauges are the series with one value a line.
var gauges = []struct {
	desc  *prometheus.Desc
	value func(l *line.Line) boundary.Offset
	scale float64
}{
	{ours("log_start_offset", "First offset of the log."), func(l *line.Line) boundary.Offset { return l.LogStart }, 1},
	{ours("log_end_offset", "High watermark: what a consumer with read_uncommitted can reach."), func(l *line.Line) boundary.Offset { return l.HighWatermark }, 1},
	{ours("stable_offset", "Last stable offset: what a consumer with read_committed can reach."), func(l *line.Line) boundary.Offset { return l.LastStable }, 1},
	{ours("position", "Next offset that the consumer will fetch."), func(l *line.Line) boundary.Offset { return l.Position }, 1},
	{ours("committed_offset", "Where a restart begins."), func(l *line.Line) boundary.Offset { return l.Committed }, 1},
	{ours("effect_watermark", "Everything below is done or quarantined."), func(l *line.Line) boundary.Offset { return l.Effect }, 1},
	{ours("unread_records", "Offsets from the position to the end."), func(l *line.Line) boundary.Offset { return l.Unread }, 1},
	{ours("effect_behind_records", "Offsets that are read and not done."), func(l *line.Line) boundary.Offset { return l.EffectBehind }, 1},
	{ours("commit_behind_records", "Offsets that are done and not committed: they would be delivered again."), func(l *line.Line) boundary.Offset { return l.CommitBehind }, 1},
	{ours("commit_ahead_records", "Offsets that are committed and not done: a restart would skip them."), func(l *line.Line) boundary.Offset { return l.CommitAhead }, 1},
	{ours("expired_records", "Offsets from the committed one on that retention removed."), func(l *line.Line) boundary.Offset { return l.Expired }, 1},
	{ours("quarantined_records", "Records that this assignment closed by quarantine."), func(l *line.Line) boundary.Offset { return l.Quarantined }, 1},
	{ours("assignment_generation", "Group generation, or member epoch, of the last beacon."), func(l *line.Line) boundary.Offset { return l.Generation }, 1},
	{ours("partition_stopped_seconds", "Time without a sign of life before this assignment."), func(l *line.Line) boundary.Offset { return l.StoppedMs }, 1e-3},
	{ours("beacon_age_seconds", "Age of the last beacon, which is that of the last commit."), func(l *line.Line) boundary.Offset { return l.BeaconAgeMs }, 1e-3},
	{ours("unread_age_seconds", "Time since the record at the position was written, by its timestamp; no series when there is none to read."), func(l *line.Line) boundary.Offset { return l.UnreadAgeMs }, 1e-3},
	{ours("uncommitted_age_seconds", "Time since the record at the committed offset was written, by its timestamp."), func(l *line.Line) boundary.Offset { return l.CommitAgeMs }, 1e-3},
}

func ours(name, help string) *prometheus.Desc {
	return desc("tidemark_line_"+name, help, partitionLabels...)
}

var (
	delivered = ours("delivered_total", "Records delivered to the consumer by this assignment.")
	effects   = desc("tidemark_line_effects_total", "Handler results of this assignment by outcome; quarantined is not done.", append(partitionLabels, "outcome")...)
	stageAge  = desc("tidemark_line_stage_age_seconds", "Time that the oldest record of a stage has been in it.", append(partitionLabels, "stage")...)
	pollAge   = ours("poll_age_seconds", "Time from the consumer's last poll to its last beacon.")
	inFlight  = desc("tidemark_line_inflight", "Records in the consumer's hands, by stage: running, queued, retry.", append(partitionLabels, "stage")...)
	oldestAge = ours("oldest_inflight_age_seconds", "Time since the oldest record that is not done was delivered.")
	paused    = desc("tidemark_line_paused", "1 while fetching is held, with the bound that holds it.", append(partitionLabels, "reason")...)
	left      = ours("left", "1 when the group reads other topics and no longer this one; no series otherwise.")
	verdict   = desc("tidemark_line_verdict", "1 for each word of the line's verdict, 0 for the others.", append(partitionLabels, "verdict")...)
	members   = desc("tidemark_group_members", "Members of the group.", "group")
	unread    = desc("tidemark_group_read_failed", "1 when the group could not be read in this survey.", "group")
	problems  = ours("readings_failed", "Readings of the line that failed in this survey.")
	surveyed  = desc("tidemark_survey_seconds", "How long the survey behind this scrape took.")
	surveyAge = desc("tidemark_survey_age_seconds", "How old the survey behind this scrape is.")
	surveyOK  = desc("tidemark_survey_ok", "1 when the groups could be listed.")

	// The four of kafka_exporter, with its names and labels.
	compatBehind  = desc("kafka_consumergroup_lag", "Compatible with kafka_exporter: high watermark minus committed offset, not below 0. It mixes unread, unfinished and uncommitted records: prefer tidemark_line_*.", compatLabels...)
	compatCurrent = desc("kafka_consumergroup_current_offset", "Compatible with kafka_exporter: committed offset.", compatLabels...)
	compatEnd     = desc("kafka_topic_partition_current_offset", "Compatible with kafka_exporter: high watermark.", "topic", "partition")
	compatStart   = desc("kafka_topic_partition_oldest_offset", "Compatible with kafka_exporter: log start.", "topic", "partition")
)

// emitter sends series of one survey; a series that two groups share is sent
// once.
type emitter struct {
	out    chan<- prometheus.Metric
	topics map[string]bool
}

func (e *emitter) gauge(d *prometheus.Desc, v float64, labels ...string) {
	e.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// counter sends what only grows while an assignment lasts; the next one begins at
// 0, which Prometheus takes for a reset.
func (e *emitter) counter(d *prometheus.Desc, v boundary.Offset, labels ...string) {
	if n, ok := v.Get(); ok {
		e.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
}

func (e *emitter) view(v lines.View) {
	failed := 0.0
	if v.Error != "" {
		failed = 1
	}
	e.gauge(unread, failed, v.Group)
	if n, ok := v.Members.Get(); ok {
		e.gauge(members, float64(n), v.Group)
	}
	for i := range v.Lines {
		e.line(&v.Lines[i])
	}
}

func (e *emitter) line(l *line.Line) {
	partition := boundary.At(int64(l.Partition)).String()
	labels := []string{l.Group, l.Topic, partition}
	for _, g := range gauges {
		if v, ok := g.value(l).Get(); ok {
			e.gauge(g.desc, float64(v)*g.scale, labels...)
		}
	}
	e.gauge(problems, float64(len(l.Problems)), labels...)
	if l.Left {
		e.gauge(left, 1, labels...)
	}
	for _, w := range line.Words() {
		on := 0.0
		if l.Verdict.Has(w) {
			on = 1
		}
		e.gauge(verdict, on, append(labels[:3:3], string(w))...)
	}
	e.counter(delivered, l.Delivered, labels...)
	e.counter(effects, l.Succeeded, append(labels[:3:3], "done")...)
	e.counter(effects, l.Retried, append(labels[:3:3], "retry")...)
	e.counter(effects, l.Quarantined, append(labels[:3:3], "quarantined")...)
	if l.InFlight != nil {
		e.inFlight(l, labels)
	}
	e.compat(l, partition)
}

// inFlight sends what the consumer said of the records in its hands.
func (e *emitter) inFlight(l *line.Line, labels []string) {
	f := l.InFlight
	for _, stage := range []struct {
		name  string
		n     int
		ageMs int64
	}{{"running", f.Running, f.RunningMs}, {"queued", f.Queued, f.QueuedMs}, {"retry", f.RetryWait, f.RetryWaitMs}} {
		e.gauge(inFlight, float64(stage.n), append(labels[:3:3], stage.name)...)
		e.gauge(stageAge, float64(stage.ageMs)/1000, append(labels[:3:3], stage.name)...)
	}
	age := 0.0 // known, and nothing in flight
	if f.Oldest.Present() {
		age = float64(f.OldestMs) / 1000
	}
	e.gauge(oldestAge, age, labels...)
	if !l.Stopped() { // else nobody polls
		e.gauge(pollAge, float64(f.PollMs)/1000, labels...)
	}
	if l.Paused != "" {
		e.gauge(paused, 1, append(labels[:3:3], l.Paused)...)
	}
}

func (e *emitter) compat(l *line.Line, partition string) {
	committed, hasCommitted := l.Committed.Get()
	if hasCommitted {
		e.gauge(compatCurrent, float64(committed), l.Group, l.Topic, partition)
	}
	if n, ok := l.HighWatermark.Minus(l.Committed); ok {
		// Clamped by the log start too: records that expired are not there to be
		// consumed, and have a series of their own.
		if inLog, ok := l.HighWatermark.Minus(l.LogStart); ok {
			n = min(n, inLog)
		}
		e.gauge(compatBehind, float64(max(0, n)), l.Group, l.Topic, partition)
	}
	key := l.Topic + "/" + partition
	if e.topics[key] {
		return
	}
	e.topics[key] = true
	if v, ok := l.HighWatermark.Get(); ok {
		e.gauge(compatEnd, float64(v), l.Topic, partition)
	}
	if v, ok := l.LogStart.Get(); ok {
		e.gauge(compatStart, float64(v), l.Topic, partition)
	}
}
