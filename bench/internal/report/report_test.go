package report

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/peer"
)

func sample() *Results {
	r := &Results{Date: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Box: map[string]string{"CPU": "2 × X"},
		Versions: map[string]string{"Apache Kafka": "4.3.1 (Maven)"}}
	for i, system := range []string{peer.Replicated, peer.Kafka} {
		for round := range 3 {
			r.Add(Series{Row: "P1", Case: "100 B in 64 KiB, 16 p, none", Metric: "throughput", Unit: "MB/s", System: system}, float64((2-i)*(100+round)))
		}
	}
	return r
}

// TestRatios are made of values of one round.
func TestRatios(t *testing.T) {
	r := &Results{}
	for i, v := range []float64{10, 40, 90} {
		r.Add(Series{Row: "P1", System: "a"}, v)
		r.Add(Series{Row: "P1", System: "b"}, float64(10*(i+1)))
	}
	s, ok := Ratio(r.Find("P1", "", "", "a"), r.Find("P1", "", "", "b"))
	if !ok || s != (Spread{Median: 2, Min: 1, Max: 3}) {
		t.Errorf("%+v %v", s, ok)
	}
	if _, ok := Ratio(nil, nil); ok {
		t.Error("a ratio of nothing")
	}
}

func TestIntoReadme(t *testing.T) {
	later := sample()
	later.Date = later.Date.AddDate(0, 0, 1)
	got, err := IntoReadme("# T\n"+readmeBegin+"old\n"+readmeEnd+"\nrest\n", Named{"bench/results/x", sample()}, Named{"bench/results/y", later})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# T\n" + readmeBegin + "## Side by side", "2026-11-30", "Kafka 4.3.1 on", "| 2.00 |  | 3 |",
		"| produce, 100 B in 64 KiB batches, MB/s | 202 | not measured | 101 | 2.00 |  |", "(bench/results/x-produce.svg)",
		"2026-12-01; load average at the start ; [whole](bench/results/y.md)):\n\n| | Tidemark", readmeEnd + "\nrest\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") || strings.Contains(got, "memory.svg") {
		t.Error("the old text, or a plot that is not there, is in it")
	}
	if strings.Count(got, "| produce, 100 B in 64 KiB") != 2 || strings.Contains(got, "y-produce.svg") {
		t.Errorf("the later run's rows, without plots, are not in\n%s", got)
	}
	if _, err := IntoReadme("no marks", Named{"x", sample()}); err == nil {
		t.Error("a README without marks was taken")
	}
}
