package drill

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/drill"
)

func printResult(a *app.App, res drill.Result) {
	a.Printf("%s, %s, %g records/s each, one member joins, one leaves, one is killed\n\n",
		app.Plural(int64(res.Members), "member"), app.Plural(int64(res.Partitions), "partition"), res.Rate)
	t := app.NewTable("PROTOCOL", "EVENT", ">STOPPED", ">NOT MOVED", ">LONGEST", ">SUM", ">SETTLED", ">COMMITS", ">REFUSED", ">MISSED", ">REPEATED")
	for _, p := range res.Protocols {
		for _, e := range p.Events {
			refused := int64(0)
			for _, n := range e.Commits.Refused {
				refused += n
			}
			t.Row(p.Protocol, e.Event, fmt.Sprintf("%d/%d", e.StoppedPartitions, res.Partitions), e.KeptStopped, seconds(e.LongestMs),
				seconds(e.StoppedMs), settled(e), e.Commits.Accepted, refused, "", e.Repeated)
		}
		if !p.Unsupported {
			t.Row(p.Protocol, "all", "", "", "", "", "", "", "", p.Missed, p.Repeated)
		}
	}
	a.Print(t)
	for _, p := range res.Protocols {
		printProtocol(a, p)
	}
}

func settled(e drill.Event) string {
	if !e.Settled {
		return "never"
	}
	return seconds(e.SettledMs)
}

func seconds(ms float64) string { return fmt.Sprintf("%.2fs", ms/1000) }

// printProtocol lists what the table sums up.
func printProtocol(a *app.App, p drill.ProtocolResult) {
	if p.Unsupported {
		a.Printf("\n%s: not served by this cluster\n", p.Protocol)
		return
	}
	a.Printf("\n%s: session timeout %s, heartbeat %s, %s written\n", p.Protocol, timeout(p.SessionMs), timeout(p.HeartbeatMs), app.Plural(p.Produced, "record"))
	for _, n := range p.Notes {
		a.Printf("  note: %s\n", n)
	}
	for _, e := range p.Events {
		a.Printf("  %s, then %s:%s\n", e.Event, app.Plural(int64(e.Members), "member"), stops(e))
		if len(e.Commits.Refused) > 0 {
			a.Printf("    commits refused: %s\n", refused(e.Commits.Refused))
		}
	}
	for _, m := range p.MissedAt {
		a.Printf("  MISSED partition %d offset %d\n", m.Partition, m.Offset)
	}
}

func timeout(ms int64) string {
	if ms < 0 {
		return "the broker's"
	}
	return seconds(float64(ms))
}

// stops names every partition that stopped, by the members that it went from
// and to: "1-2: p3 0.41s" moved, "1: p4 0.40s" came back.
func stops(e drill.Event) string {
	if len(e.Stops) == 0 {
		return " nothing stopped"
	}
	byWay := map[string][]string{}
	for _, s := range e.Stops {
		way := "back to " + cmp.Or(s.To, "nobody")
		if s.Moved {
			way = cmp.Or(s.From, "nobody") + " to " + cmp.Or(s.To, "nobody")
		}
		byWay[way] = append(byWay[way], fmt.Sprintf("p%d %s", s.Partition, seconds(s.StoppedMs)))
	}
	var lines []string
	for _, way := range slices.Sorted(maps.Keys(byWay)) {
		lines = append(lines, "\n    "+way+": "+strings.Join(byWay[way], " "))
	}
	return strings.Join(lines, "")
}

func refused(m map[string]int64) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", code, m[code]))
	}
	return strings.Join(parts, ", ")
}
