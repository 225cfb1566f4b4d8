package drill

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/drill"
)

func good() drill.Result {
	return drill.Result{Members: 2, Partitions: 4, Rate: 20, Protocols: []drill.ProtocolResult{{
		Protocol: drill.Consumer, SessionMs: 6000, HeartbeatMs: -1, Produced: 100, Notes: []string{"a setting was refused"},
		Events: []drill.Event{{
			Event: "join", Members: 3, Settled: true, SettledMs: 500, StoppedPartitions: 2, KeptStopped: 0, StoppedMs: 60, LongestMs: 40,
			Commits: drill.CommitResult{Accepted: 7, Refused: map[string]int64{"STALE_MEMBER_EPOCH": 2}},
			Stops: []drill.PartitionStop{
				{Partition: 1, From: "member-1", To: "member-3", Moved: true, StoppedMs: 40, Stops: 1},
				{Partition: 3, From: "member-2", To: "member-2", StoppedMs: 20, Stops: 1},
			},
		}, {Event: "leave", Members: 2, Settled: true}},
	}}}
}

func TestVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*drill.ProtocolResult)
		code   int
		words  string
	}{
		"pass": {func(*drill.ProtocolResult) {}, app.ExitPass, ""},
		"missed": {func(p *drill.ProtocolResult) {
			p.Missed, p.MissedAt = 1, []drill.MissedRecord{{Partition: 2, Offset: 9}}
		}, app.ExitFinding, "1 record missed, the first at partition 2 offset 9"},
		"not settled": {func(p *drill.ProtocolResult) { p.Events[1].Settled = false }, app.ExitFinding, "did not settle after the leave"},
		"kept stops":  {func(p *drill.ProtocolResult) { p.Events[0].KeptStopped = 1 }, app.ExitFinding, "1 partition stopped without moving"},
		"eager stops": {func(p *drill.ProtocolResult) { p.Protocol, p.Events[0].KeptStopped = drill.Eager, 1 }, app.ExitPass, ""},
		"unsupported": {func(p *drill.ProtocolResult) { p.Unsupported, p.Events = true, nil }, app.ExitInconclusive, "not served by this cluster"},
		"not written": {func(p *drill.ProtocolResult) { p.ProduceErrors = 3 }, app.ExitInconclusive, "3 records not acknowledged"},
		"worst first": {func(p *drill.ProtocolResult) { p.ProduceErrors, p.Events[0].Settled = 3, false }, app.ExitFinding, "did not settle"},
	} {
		res := good()
		tc.change(&res.Protocols[0])
		err := verdict(res)
		if app.Code(err) != tc.code || err != nil && !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v, code %d, want %d %q", name, err, app.Code(err), tc.code, tc.words)
		}
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	res := good()
	res.Protocols = append(res.Protocols, drill.ProtocolResult{Protocol: drill.Eager, Unsupported: true})
	printResult(&app.App{Out: &out}, res)
	for _, want := range []string{
		"2 members, 4 partitions, 20 records/s each",
		"consumer  join       2/4          0    0.04s  0.06s    0.50s        7        2",
		"consumer: session timeout 6.00s, heartbeat the broker's, 100 records written",
		"note: a setting was refused",
		"member-1 to member-3: p1 0.04s", "back to member-2: p3 0.02s",
		"commits refused: STALE_MEMBER_EPOCH 2", "leave, then 2 members: nothing stopped", "eager: not served by this cluster",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}
