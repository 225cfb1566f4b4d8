package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/bench/internal/peer"
)

// Marks of the part of README.md that a run writes.
const (
	readmeBegin = "<!-- bench:begin -->\n"
	readmeEnd   = "<!-- bench:end -->"
)

// highlights are the lines of the README's table: a name, and where it stands.
var highlights = []struct{ label, row, what, metric string }{
	{"produce, 100 B in 16 KiB batches, MB/s", "P1", "100 B in 16 KiB, 16 p, none", "throughput"},
	{"produce, 100 B in 64 KiB batches, MB/s", "P1", "100 B in 64 KiB, 16 p, none", "throughput"},
	{"produce, 1 KiB in 256 KiB batches, MB/s", "P1", "1 KiB in 256 KiB, 16 p, none", "throughput"},
	{"broker CPU for 64 KiB batches, s/GB", "P3", "produce 100 B in 64 KiB, 16 p, none", "CPU"},
	{"fetch, 1 MiB a partition, warm, MB/s", "P2", "warm, 1024 KiB a partition", "throughput"},
	{"fetch, 256 KiB a partition, warm, MB/s", "P2", "warm, 256 KiB a partition", "throughput"},
	{"fetch over TLS, 1 MiB a partition, MB/s", "P2", "TLS, 1024 KiB a partition", "throughput"},
	{"end to end at 1,000 msg/s, p99, ms", "P4", "1000 msg/s of 100 B", "p99"},
	{"end to end at 20,000 msg/s, p50, ms", "P4", "20000 msg/s of 100 B", "p50"},
	{"end to end at 20,000 msg/s, p99.9, ms", "P4", "20000 msg/s of 100 B", "p99.9"},
	{"idle memory, MiB", "P6", "idle, no topic", "memory"},
	{"idle memory with 1,000 partitions, MiB", "P6", "1,000 partitions, idle", "memory"},
	{"idle memory with 10,000 partitions, MiB", "P6", "10,000 partitions, idle", "memory"},
	{"exec to first acknowledgement, s", "P7", "exec to first ack, clean stop", "time"},
	{"the same after kill -9 with 10 GB in 2,000 partitions, s", "P7", "kill -9 with 10 GB, 2000 p, first ack", "time"},
	{"creating 10,000 partitions, s", "P8", "create 10,000 partitions", "time"},
}

// Named is a run and the path of its files without their endings.
type Named struct {
	Name string
	*Results
}

// IntoReadme returns text with the part between the marks made of a run, and of
// later ones that measured some rows again, each with its own date and box.
func IntoReadme(text string, run Named, later ...Named) (string, error) {
	head, rest, ok := strings.Cut(text, readmeBegin)
	_, foot, ok2 := strings.Cut(rest, readmeEnd)
	if !ok || !ok2 {
		return "", errors.New("README.md has no marks for the benchmark")
	}
	return head + readmeBegin + run.summary(later) + readmeEnd + foot, nil
}

func (r *Named) summary(later []Named) string {
	var b strings.Builder
	name := r.Name
	fmt.Fprintf(&b, "## Side by side\n\nTidemark and Apache Kafka %s on one box (%s, %s, kernel %s), %s, measured in turn; medians of n rounds.\n",
		strings.Fields(r.Versions["Apache Kafka"] + " ?")[0], r.Box["CPU"], strings.Fields(r.Box["disk"] + " ?")[0], r.Box["kernel"],
		r.Date.Format("2006-01-02"))
	fmt.Fprintf(&b, "Load average at the start: %s. Only the ratios of one row mean something: × Kafka is Tidemark's figure over Kafka's. The whole\n", r.Box["load average at the start"])
	fmt.Fprintf(&b, "table with the smallest and largest is in [%s.md](%s.md), what was slow and why, and which targets are not met, in\n[bench/NOTES.md](bench/NOTES.md).\n\n", name, name)
	r.table(&b)
	for _, l := range later {
		fmt.Fprintf(&b, "\nRows of a later run on another day or box (%s, kernel %s, %s; load average at the start %s; [whole](%s.md)):\n\n",
			l.Box["CPU"], l.Box["kernel"], l.Date.Format("2006-01-02"), l.Box["load average at the start"], l.Name)
		l.table(&b)
	}
	b.WriteString("\n`strict` waits for the disk on every acknowledgement, which Kafka does not.\n\n")
	for _, plot := range r.plots() {
		fmt.Fprintf(&b, "![%s](%s-%s.svg)\n", plot.title, name, plot.file)
	}
	b.WriteString("\n`make bench-quick` measures your box in eight minutes.\n")
	return b.String()
}

// table has the highlights that the run measured.
func (r *Results) table(b *strings.Builder) {
	b.WriteString("| | Tidemark `replicated` | Tidemark `strict` (fsync) | Apache Kafka | × Kafka | strict × Kafka | n |\n|---|---|---|---|---|---|---|\n")
	for _, h := range highlights {
		find := func(system string) *Series { return r.Find(h.row, h.what, h.metric, system) }
		replicated, strict, kafka := find(peer.Replicated), find(peer.Strict), find(peer.Kafka)
		if replicated == nil {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %d |\n", h.label, median(replicated), median(strict), median(kafka),
			medianRatio(replicated, kafka), medianRatio(strict, kafka), len(replicated.Values))
	}
}

type plot struct{ title, file string }

// plots that a README shows, as far as this run made them.
func (r *Results) plots() []plot {
	var out []plot
	if r.Find("P4", "20000 msg/s of 100 B", "p50", peer.Replicated) != nil {
		out = append(out, plot{"latency at 20,000 messages a second", "latency-20000msgs"})
	}
	for _, p := range []struct {
		row string
		plot
	}{{"P1", plot{"produce throughput", "produce"}}, {"P6", plot{"memory", "memory"}}, {"P7", plot{"start", "start"}}} {
		if slices.ContainsFunc(r.Series, func(s *Series) bool { return s.Row == p.row }) {
			out = append(out, p.plot)
		}
	}
	return out
}

func median(s *Series) string {
	if s == nil {
		return "not measured"
	}
	return Figure(Median(s.Values))
}

func medianRatio(a, b *Series) string {
	s, ok := Ratio(a, b)
	if !ok {
		return ""
	}
	return Figure(s.Median)
}
