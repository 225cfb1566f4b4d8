package exporter

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/cli/lines"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/line"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
)

// scrape gathers all series as "name{labels}" -> value.
func scrape(t *testing.T, c *collector) map[string]float64 {
	t.Helper()
	return gather(t, register(c, ""))
}

func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			series[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue() // one of the two
		}
	}
	return series
}

func TestSeries(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for range 200 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Timestamp: time.Now().Add(-time.Hour)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(group, metadata string) {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: "orders", At: 180, LeaderEpoch: -1, Metadata: metadata})
		if err := adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	commit("foreign", "")
	b := beacon.Beacon{AtMs: time.Now().UnixMilli(), Position: 190, Effect: 180, Running: 3, Queued: 7, OldestOffset: 180, OldestAgeMs: 2000, Generation: 4, Paused: "records",
		Delivered: 100, Succeeded: 88, Retried: 5, Quarantined: 2, QueuedAgeMs: 1500, RunningAgeMs: 20, PollAgeMs: 40, StoppedMs: 61_500}
	commit("ours", beacon.Encode(b, beacon.DefaultLimit))
	c := &collector{
		ctx: t.Context(), timeout: 20 * time.Second, share: time.Hour, pattern: regexp.MustCompile(""), flags: &lines.Flags{},
		surveyor: survey.New(cl, survey.Options{Dial: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}}),
	}
	series := scrape(t, c)
	const ours, foreign = "{group=ours,partition=0,topic=orders}", "{group=foreign,partition=0,topic=orders}"
	for name, want := range map[string]float64{
		// kafka_exporter's four, for any group.
		"kafka_consumergroup_lag{consumergroup=foreign,partition=0,topic=orders}":            20,
		"kafka_consumergroup_current_offset{consumergroup=foreign,partition=0,topic=orders}": 180,
		"kafka_topic_partition_current_offset{partition=0,topic=orders}":                     200,
		"kafka_topic_partition_oldest_offset{partition=0,topic=orders}":                      0,
		"tidemark_line_position" + ours:                                                      190,
		"tidemark_line_effect_watermark" + ours:                                              180,
		"tidemark_line_committed_offset" + ours:                                              180,
		"tidemark_line_unread_records" + ours:                                                10,
		"tidemark_line_effect_behind_records" + ours:                                         10,
		"tidemark_line_commit_ahead_records" + ours:                                          0,
		"tidemark_line_oldest_inflight_age_seconds" + ours:                                   2,
		"tidemark_line_inflight{group=ours,partition=0,stage=queued,topic=orders}":           7,
		"tidemark_line_paused{group=ours,partition=0,reason=records,topic=orders}":           1,
		"tidemark_line_assignment_generation" + ours:                                         4,
		"tidemark_line_verdict{group=ours,partition=0,topic=orders,verdict=WORKING}":         1,
		// What else the beacon carries beside positions: counts and ages.
		"tidemark_line_delivered_total" + ours:                                                 100,
		"tidemark_line_effects_total{group=ours,outcome=done,partition=0,topic=orders}":        88,
		"tidemark_line_effects_total{group=ours,outcome=retry,partition=0,topic=orders}":       5,
		"tidemark_line_effects_total{group=ours,outcome=quarantined,partition=0,topic=orders}": 2,
		"tidemark_line_stage_age_seconds{group=ours,partition=0,stage=queued,topic=orders}":    1.5,
		"tidemark_line_stage_age_seconds{group=ours,partition=0,stage=retry,topic=orders}":     0,
		"tidemark_line_poll_age_seconds" + ours:                                                0.04,
		"tidemark_line_partition_stopped_seconds" + ours:                                       61.5,
		"tidemark_line_verdict{group=ours,partition=0,topic=orders,verdict=UNREAD}":            1,
		"tidemark_line_verdict{group=ours,partition=0,topic=orders,verdict=STALLED}":           0,
		"tidemark_line_verdict{group=foreign,partition=0,topic=orders,verdict=UNKNOWN}":        1,
		"tidemark_survey_ok{}": 1,
	} {
		if got, ok := series[name]; !ok || got != want {
			t.Errorf("%s = %v %v, want %v", name, got, ok, want)
		}
	}
	// What is not known has no series.
	for _, name := range []string{"position", "effect_watermark", "unread_records", "effect_behind_records", "oldest_inflight_age_seconds", "delivered_total", "poll_age_seconds", "partition_stopped_seconds"} {
		if v, ok := series["tidemark_line_"+name+foreign]; ok {
			t.Errorf("%s of a foreign group is %v, want no series", name, v)
		}
	}
	if age := series["tidemark_line_unread_age_seconds"+ours]; age < 3599 || age > 4000 {
		t.Errorf("age of what is unread: %v s, want an hour", age)
	}
	named := gather(t, register(c, "east"))
	for name := range named {
		if !strings.Contains(name, "cluster=east") {
			t.Errorf("%s has no name of its cluster", name)
		}
	}
	if len(named) != len(series) {
		t.Errorf("%d series with a name of the cluster, %d without", len(named), len(series))
	}
	// A cluster that does not answer: the series go, and one says so.
	cluster.Close()
	c.share, c.timeout = 0, 200*time.Millisecond
	series = scrape(t, c)
	if series["tidemark_survey_ok{}"] != 0 || len(series) != 3 {
		t.Errorf("after the cluster went: %v", series)
	}
}

// TestStopped: a topic that the group has left is told apart, and a line that nobody
// works on has nothing in flight and no poll that grows old.
func TestStopped(t *testing.T) {
	at := boundary.At
	r := line.Reading{Group: "g", Topic: "t", State: "Stable", Left: true, LogStart: at(0), HighWatermark: at(9), LastStable: at(9), Committed: at(9)}
	out := make(chan prometheus.Metric, 200)
	l := line.Judge(r, line.Options{})
	(&emitter{out: out, topics: map[string]bool{}}).line(&l)
	close(out)
	seen := map[string]bool{}
	for m := range out {
		for _, name := range []string{"left", "poll_age_seconds", "oldest_inflight_age_seconds"} {
			seen[name] = seen[name] || strings.Contains(m.Desc().String(), `"tidemark_line_`+name+`"`)
		}
	}
	if !seen["left"] || seen["poll_age_seconds"] || !seen["oldest_inflight_age_seconds"] {
		t.Errorf("series: %v", seen)
	}
}
