package report

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/bench/internal/peer"
)

// colors of the systems in every plot; they read on white and on dark pages.
var colors = map[string]string{
	peer.Replicated: "#1f8a9e", peer.Strict: "#14505c", peer.Kafka: "#c8553d", peer.Ceiling: "#9a9a9a", peer.CeilingF: "#c4c4c4",
	peer.Other: "#7fb9c4", peer.RabbitQ: "#d8a03c", peer.RabbitS: "#8a6d1f",
}

const (
	plotWidth  = 860
	barHeight  = 13
	leftMargin = 250
	rightSpace = 90
)

// bars is a horizontal bar chart in groups.
type bars struct {
	title, unit string
	groups      []group
}

type group struct {
	label string
	bars  []bar
}

type bar struct {
	system string
	Spread
}

func (c *bars) svg() string {
	largest, height := 0.0, 60
	for _, g := range c.groups {
		height += len(g.bars)*(barHeight+2) + 12
		for _, b := range g.bars {
			largest = max(largest, b.Max)
		}
	}
	var out strings.Builder
	header(&out, height+24, c.title+" ("+c.unit+")")
	scale := (plotWidth - leftMargin - rightSpace) / max(largest, 1e-9)
	y := 52
	var seen []string
	for _, g := range c.groups {
		mid := y + len(g.bars)*(barHeight+2)/2 + 4
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", leftMargin-8, mid, html.EscapeString(g.label))
		for _, b := range g.bars {
			w := b.Median * scale
			fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", leftMargin, y, max(w, 0.5), barHeight, colors[b.system])
			fmt.Fprintf(&out, `<path d="M%.1f %dH%.1f" stroke="#777" stroke-width="1.5"/>`+"\n",
				leftMargin+b.Min*scale, y+barHeight/2, leftMargin+b.Max*scale)
			fmt.Fprintf(&out, `<text x="%.1f" y="%d" font-size="11">%s</text>`+"\n", leftMargin+b.Max*scale+5, y+barHeight-2, Figure(b.Median))
			y += barHeight + 2
			if !slices.Contains(seen, b.system) {
				seen = append(seen, b.system)
			}
		}
		y += 12
	}
	legend(&out, seen, y+8)
	out.WriteString("</svg>\n")
	return out.String()
}

func header(out *strings.Builder, height int, title string) {
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="12" fill="#444">`+"\n",
		plotWidth, height, plotWidth, height)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(out, `<text x="12" y="26" font-size="15" font-weight="600" fill="#222">%s</text>`+"\n", html.EscapeString(title))
}

func legend(out *strings.Builder, systems []string, y int) {
	x := 12
	for _, s := range systems {
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, y-10, colors[s], x+17, y, html.EscapeString(s))
		x += 30 + 7*len(s)
	}
}

// curve is one line of a latency plot: the value at each quantile.
type curve struct {
	system string
	ms     []float64
}

// latencyPlot draws percentiles over a logarithmic axis of milliseconds.
func latencyPlot(title string, quantiles []string, curves []curve) string {
	const height, top, bottom, left, right = 360, 48, 70, 60, 20
	low, high := math.Inf(1), 0.0
	for _, c := range curves {
		for _, v := range c.ms {
			low, high = min(low, v), max(high, v)
		}
	}
	lo, hi := math.Floor(math.Log10(max(low, 1e-3))), math.Ceil(math.Log10(max(high, 1e-2)))
	yOf := func(v float64) float64 {
		return height - bottom - (math.Log10(max(v, 1e-3))-lo)/(max(hi-lo, 1))*(height-top-bottom)
	}
	xOf := func(i int) float64 {
		return left + float64(i)*(plotWidth-left-right-40)/float64(max(len(quantiles)-1, 1)) + 20
	}
	var out strings.Builder
	header(&out, height, title)
	for e := lo; e <= hi; e++ {
		y := yOf(math.Pow(10, e))
		fmt.Fprintf(&out, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g ms</text>`+"\n",
			left, y, plotWidth-right, left-6, y+4, math.Pow(10, e))
	}
	for i, q := range quantiles {
		fmt.Fprintf(&out, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", xOf(i), height-bottom+20, q)
	}
	var names []string
	for _, c := range curves {
		names = append(names, c.system)
		var path []string
		for i, v := range c.ms {
			path = append(path, fmt.Sprintf("%.1f,%.1f", xOf(i), yOf(v)))
			fmt.Fprintf(&out, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", xOf(i), yOf(v), colors[c.system])
		}
		fmt.Fprintf(&out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colors[c.system])
	}
	legend(&out, names, height-16)
	out.WriteString("</svg>\n")
	return out.String()
}

// barsOf makes a chart of one metric of a row, one group a case.
func (r *Results) barsOf(title, row, metric string, keep func(what string) bool) (bars, bool) {
	c := bars{title: title}
	for _, s := range r.Series {
		if s.Row != row || s.Metric != metric || !keep(s.Case) {
			continue
		}
		c.unit = s.Unit
		i := slices.IndexFunc(c.groups, func(g group) bool { return g.label == s.Case })
		if i < 0 {
			i = len(c.groups)
			c.groups = append(c.groups, group{label: s.Case})
		}
		c.groups[i].bars = append(c.groups[i].bars, bar{s.System, SpreadOf(s.Values)})
	}
	return c, len(c.groups) > 0
}

// Quantiles are the metrics of a latency, in the order of the plot.
var Quantiles = []string{"p50", "p90", "p99", "p99.9", "p99.99", "max"}

// WritePlots writes the SVG files to dir, with name in front.
func (r *Results) WritePlots(dir, name string) error {
	all := func(string) bool { return true }
	files := map[string]string{}
	for file, c := range map[string][3]string{
		"produce": {"Produce, acks=all", "P1", "throughput"}, "fetch": {"Fetch, plaintext", "P2", "throughput"},
		"cpu": {"CPU of the broker", "P3", "CPU"}, "memory": {"Resident memory of the broker", "P6", "memory"},
		"start": {"Start", "P7", "time"}, "rabbitmq": {"The same work with RabbitMQ", "P12", "throughput"},
	} {
		if chart, ok := r.barsOf(c[0], c[1], c[2], all); ok {
			files[file] = chart.svg()
		}
	}
	for _, l := range r.latencyCases() {
		files["latency-"+strings.NewReplacer(" ", "", ",", "", "/", "").Replace(strings.Fields(l)[0]+strings.Fields(l)[1])] =
			latencyPlot("End to end latency, "+l, Quantiles, r.curves(l))
	}
	for file, svg := range files {
		if err := os.WriteFile(filepath.Join(dir, name+"-"+file+".svg"), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *Results) latencyCases() []string {
	var out []string
	for _, s := range r.Series {
		if s.Row == "P4" && !slices.Contains(out, s.Case) {
			out = append(out, s.Case)
		}
	}
	return out
}

func (r *Results) curves(what string) []curve {
	var out []curve
	for _, system := range columns {
		c := curve{system: system}
		for _, q := range Quantiles {
			if s := r.Find("P4", what, q, system); s != nil {
				c.ms = append(c.ms, Median(s.Values))
			}
		}
		if len(c.ms) == len(Quantiles) {
			out = append(out, c)
		}
	}
	return out
}
