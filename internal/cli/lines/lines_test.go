package lines

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/line"
)

const now = 1_796_055_153_123

func view() View {
	at := boundary.At
	base := line.Reading{
		Group: "billing", Topic: "orders", State: "Stable", LogStart: at(0), HighWatermark: at(200), LastStable: at(200), Committed: at(180),
		Beacon: &beacon.Beacon{AtMs: now - 500, Position: 200, Effect: 180, Running: 2, Queued: 17, RetryWait: 1, OldestOffset: 180, OldestAgeMs: 75_000, Attempts: 3, Generation: 4, Quarantined: 1, Paused: "records"},
	}
	unread := base
	unread.Partition, unread.UnreadMs = 1, at(now-90_000)
	unread.Beacon = &beacon.Beacon{AtMs: now - 500, Position: 180, Effect: 180, OldestOffset: -1, Generation: 4}
	foreign := base
	foreign.Partition, foreign.Beacon, foreign.LastStable = 2, nil, at(190)
	failed := line.Reading{Group: "billing", Topic: "orders", Partition: 3, State: "Stable", Problems: []string{"log end: not leader"}}
	none := line.Reading{Group: "billing", Topic: "orders", Partition: 4, State: "Stable", NoCommit: true, LogStart: at(0), HighWatermark: at(3), LastStable: at(3)}
	v := View{Group: "billing", State: "Stable", Members: at(2)}
	gone := unread
	gone.Topic, gone.Partition, gone.Left = "retired", 0, true
	for _, r := range []line.Reading{base, unread, foreign, failed, none, gone} {
		v.Lines = append(v.Lines, line.Judge(r, line.Options{NowMs: now}))
	}
	return v
}

// TestTable: what is absent is a question mark and never a number.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	showView(&app.App{Out: &out}, view())
	want := `group billing: Stable, 2 members
PARTITION  START  COMMITTED  EFFECT  POSITION  LSO   HW      UNREAD  EFFECT-BEHIND  COMMIT-BEHIND  OLDEST  RETRY  QUARANTINED  PAUSED   GEN  VERDICT
orders/0       0        180     180       200  200  200           0             20              0   1m15s      1            1  records    4  STALLED at 180 (1m15s), EFFECT-BEHIND 20
orders/1       0        180     180       180  200  200  20 (1m30s)              0              0       -      0            0  no         4  UNREAD 20
orders/2       0        180       ?         ?  190  200           ?              ?              ?       ?      ?            ?  ?          ?  UNKNOWN
orders/3       ?          ?       ?         ?    ?    ?           ?              ?              ?       ?      ?            ?  ?          ?  UNKNOWN
orders/4       0       none       ?         ?    3    3           ?              ?              ?       ?      ?            ?  ?          ?  UNKNOWN
retired/0      0        180     180       180  200  200  20 (1m30s)              0              0       -      0            0  no         4  UNREAD 20
  no member reads retired any more
  a reading failed: log end: not leader
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestConclude: what needs attention comes before what is unknown, and neither
// is a pass.
func TestConclude(t *testing.T) {
	v := view()
	of := func(lines ...int) []View {
		w := View{Group: "billing"}
		for _, i := range lines {
			w.Lines = append(w.Lines, v.Lines[i])
		}
		return []View{w}
	}
	for _, c := range []struct {
		views []View
		want  int
		fix   string // names the line that the message names
	}{
		{of(1), app.ExitPass, ""}, {of(1, 2), app.ExitInconclusive, `see "tidemark why billing orders/2"`},
		{of(2, 0, 1), app.ExitFinding, `see "tidemark why billing orders/0"`},
		{[]View{{Group: "gone", Error: "no coordinator"}}, app.ExitInconclusive, `see "tidemark group describe gone"`}, {nil, app.ExitPass, ""},
	} {
		err := conclude(c.views)
		if got := app.Code(err); got != c.want {
			t.Errorf("%+v: code %d, want %d", c.views, got, c.want)
		}
		var e *app.Error
		if errors.As(err, &e); e != nil && e.Hint != c.fix {
			t.Errorf("fix %q, want %q", e.Hint, c.fix)
		}
	}
}
