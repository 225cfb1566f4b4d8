package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/bench/internal/peer"
)

// columns are the systems of the main table, in order. Rows that have others
// (P12, the ceilings) name them in the same places.
var columns = []string{peer.Replicated, peer.Strict, peer.Kafka}

// Markdown returns the table with everything needed to read it.
func (r *Results) Markdown() string {
	var b strings.Builder
	kind := "published run"
	if r.Quick {
		kind = "quick run"
	}
	fmt.Fprintf(&b, "# Side by side, %s, %s\n\n", r.Date.Format("2006-01-02 15:04"), kind)
	for _, k := range slices.Sorted(maps.Keys(r.Box)) {
		fmt.Fprintf(&b, "- %s: %s\n", k, r.Box[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, "- %s: %s\n", k, r.Versions[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Settings)) {
		if len(r.Settings[k]) > 0 {
			fmt.Fprintf(&b, "- %s runs with its defaults and %s\n", k, strings.Join(r.Settings[k], ", "))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(&b, "- %s was not measured: %s\n", k, r.Absent[k])
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "- failed: %s\n", f)
	}
	b.WriteString("\nMedians of n rounds, measured in turn; a ratio is the median of the rounds' ratios with the smallest and the largest. ")
	b.WriteString("× Kafka is Tidemark's figure divided by Apache Kafka's. For the ceiling see `bench/NOTES.md`.\n")
	for _, row := range r.rows() {
		r.markdownRow(&b, row)
	}
	return b.String()
}

func (r *Results) rows() []string {
	var out []string
	for _, s := range r.Series {
		if !slices.Contains(out, s.Row) {
			out = append(out, s.Row)
		}
	}
	return out
}

// line is what one line of the table shows.
type line struct{ what, metric, unit string }

func (r *Results) markdownRow(b *strings.Builder, row string) {
	fmt.Fprintf(b, "\n## %s\n\n", titles[row])
	var lines []line
	var others []string // systems beside the three
	for _, s := range r.Series {
		if s.Row != row {
			continue
		}
		if l := (line{s.Case, s.Metric, s.Unit}); !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
		if !slices.Contains(columns, s.System) && !slices.Contains(others, s.System) {
			others = append(others, s.System)
		}
	}
	systems := append(slices.Clone(columns), others...)
	against := measuringSticks(others)
	fmt.Fprintf(b, "| | %s | replicated × Kafka | strict × Kafka |", strings.Join(systems, " | "))
	for _, name := range against {
		fmt.Fprintf(b, " replicated × %s |", name)
	}
	b.WriteString(" n |\n" + strings.Repeat("|---", len(systems)+4+len(against)) + "|\n")
	for _, l := range lines {
		get := func(system string) *Series { return r.Find(row, l.what, l.metric, system) }
		fmt.Fprintf(b, "| %s: %s, %s |", l.what, l.metric, l.unit)
		n := 0
		for _, name := range systems {
			s := get(name)
			if s == nil {
				b.WriteString(" |")
				continue
			}
			n = max(n, len(s.Values))
			fmt.Fprintf(b, " %s |", Figure(Median(s.Values)))
		}
		fmt.Fprintf(b, " %s | %s |", ratio(get(peer.Replicated), get(peer.Kafka)), ratio(get(peer.Strict), get(peer.Kafka)))
		for _, name := range against {
			fmt.Fprintf(b, " %s |", ratio(get(peer.Replicated), get(name)))
		}
		fmt.Fprintf(b, " %d |\n", n)
	}
}

// measuringSticks are the systems beside Kafka that have a column of ratios.
func measuringSticks(systems []string) []string {
	return slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return s != peer.Ceiling && s != peer.Other })
}

func ratio(a, b *Series) string {
	s, ok := Ratio(a, b)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (%s–%s)", Figure(s.Median), Figure(s.Min), Figure(s.Max))
}

// titles of the rows.
var titles = map[string]string{
	"P1":  "P1 produce, broker-bound, acks=all, batches built in advance",
	"P1b": "P1b produce with other clients",
	"P2":  "P2 fetch",
	"P3":  "P3 CPU of the broker",
	"P4":  "P4 end to end latency at a fixed rate, open loop",
	"P6":  "P6 memory",
	"P7":  "P7 start",
	"P8":  "P8 ten thousand partitions",
	"P9b": "P9b one consumer group (KIP-848) of 1,000 members and 10,000 partitions",
	"P12": "P12 the same work with RabbitMQ",
	"C1":  "C1 consumer libraries: a handler of 1 ms, key order, 64 at once",
}
