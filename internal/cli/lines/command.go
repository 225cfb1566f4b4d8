package lines

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/line"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
)

type options struct {
	Flags
	once     bool
	interval time.Duration
	topics   []string
}

// Command returns the lines command.
func Command(a *app.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "lines [GROUP]",
		Short: "Show where consumer groups stand: read, done and committed apart",
		Long: "Shows, for every partition of a consumer group (or of all groups), five offsets: log start, committed,\n" +
			"effect (everything below is done or quarantined), position (the next to fetch) and log end, with high\n" +
			"watermark (HW) and last stable offset (LSO) apart; the gaps between them; and a verdict:\n\n" +
			"  IDLE             everything is read, done and committed\n" +
			"  UNREAD n         n offsets wait to be read\n" +
			"  WORKING n        n records are in hand, all young, none failed\n" +
			"  EFFECT-BEHIND n  n offsets were read and are not done\n" +
			"  COMMIT-BEHIND n  n offsets are done and would be delivered again\n" +
			"  COMMIT-AHEAD n   n offsets are committed and not done: a restart would skip them\n" +
			"  STALLED at x     the first record that is not done is old and holds the rest\n" +
			"  EXPIRED n        retention removed n offsets from the committed one on\n" +
			"  UNKNOWN          a reading is absent; \"tidemark why\" says which\n\n" +
			"Effect and position come from the commit metadata of consumers that use the consumer library; for others\n" +
			"give the source of the effects with --effects.\n\n" +
			"With --once the exit code is 2 when a line is COMMIT-AHEAD, EXPIRED or STALLED, else 3 when one is UNKNOWN.",
		Example: "  tidemark lines\n  tidemark lines billing --once --format json\n  tidemark lines billing --effects sqlite:billing.db\n" +
			"  tidemark lines billing --effects postgres://db/app --effects-query \"SELECT topic, partition, max(done)+1 AS effect FROM progress GROUP BY 1, 2\"",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: CompleteGroups(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			group := ""
			if len(args) > 0 {
				group = args[0]
			}
			return run(cmd.Context(), a, group, o)
		},
	}
	o.Bind(cmd)
	cmd.Flags().BoolVar(&o.once, "once", false, "read once, print and end with an exit code")
	cmd.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "time between two readings of the live table")
	cmd.Flags().StringSliceVar(&o.topics, "topic", nil, "only these topics")
	return cmd
}

// View is one group as it is printed.
type View struct {
	Group   string          `json:"group"`
	State   string          `json:"state,omitempty"`
	Members boundary.Offset `json:"members"`
	AtMs    int64           `json:"at_ms"`
	Error   string          `json:"error,omitempty"`
	Lines   []line.Line     `json:"lines"`

	err error
}

func run(ctx context.Context, a *app.App, group string, o options) error {
	if o.interval < 100*time.Millisecond {
		return app.Usage("--interval is %v; it must be at least 100ms", o.interval)
	}
	adm, err := a.Admin(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	s, err := o.Surveyor(a, adm)
	if err != nil {
		return err
	}
	for {
		views, err := read(ctx, a, s, group, o)
		if err != nil {
			return err
		}
		if err := show(a, views, o); err != nil {
			return err
		}
		if o.once {
			return conclude(views)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.interval):
		}
	}
}

func read(parent context.Context, a *app.App, s *survey.Surveyor, group string, o options) ([]View, error) {
	ctx, cancel := a.Request(parent)
	defer cancel()
	names := []string{group}
	if group == "" {
		var err error
		if names, err = s.Names(ctx); err != nil {
			return nil, app.Explain(err, "", "list groups")
		}
	}
	views := ReadAll(ctx, s, names, o.Options())
	for i := range views {
		views[i].Lines = only(views[i].Lines, o.topics)
	}
	if group != "" && views[0].err != nil {
		return nil, app.Explain(views[0].err, "", "group %s", group)
	}
	if group != "" && len(views[0].Lines) == 0 {
		return nil, app.Failed("group %s has no commits and no members", group).Fix("see \"tidemark lines\" for all groups")
	}
	return views, nil
}

// maxAtOnce bounds how many groups are read at the same time.
const maxAtOnce = 8

// ReadAll surveys groups and judges their lines. A view whose group could not be
// read says so.
func ReadAll(ctx context.Context, s *survey.Surveyor, names []string, o line.Options) []View {
	views := make([]View, len(names))
	var work errgroup.Group
	work.SetLimit(maxAtOnce)
	for i, name := range names {
		work.Go(func() error {
			g, err := s.Read(ctx, name)
			if err != nil {
				views[i] = View{Group: name, Error: err.Error(), AtMs: time.Now().UnixMilli(), err: err}
				return nil
			}
			views[i] = View{Group: name, State: g.State, Members: g.Members, Lines: s.Judge(ctx, &g, o), AtMs: g.At.UnixMilli()}
			return nil
		})
	}
	_ = work.Wait() // the errors are in the views
	return views
}

func only(lines []line.Line, topics []string) []line.Line {
	if len(topics) == 0 {
		return lines
	}
	var out []line.Line
	for _, l := range lines {
		for _, t := range topics {
			if l.Topic == t {
				out = append(out, l)
			}
		}
	}
	return out
}

func show(a *app.App, views []View, o options) error {
	if a.JSON() {
		if o.once {
			return a.Emit(map[string]any{"groups": views})
		}
		return json.NewEncoder(a.Out).Encode(map[string]any{"groups": views}) // one line a reading
	}
	if !o.once {
		if f, ok := a.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			a.Printf("\x1b[H\x1b[2J") // home and clear
		}
		a.Printf("%s\n", time.Now().Format(time.TimeOnly))
	}
	for i, v := range views {
		if i > 0 {
			a.Printf("\n")
		}
		showView(a, v)
	}
	if len(views) == 0 {
		a.Note("no group has committed an offset")
	}
	return nil
}

func showView(a *app.App, v View) {
	state := v.State
	if state == "" {
		state = "state not known"
	}
	if n, ok := v.Members.Get(); ok {
		state += ", " + app.Plural(n, "member")
	}
	a.Printf("group %s: %s\n", v.Group, state)
	if v.Error != "" {
		a.Printf("  not read: %s\n", v.Error)
		return
	}
	t := app.NewTable("PARTITION", ">START", ">COMMITTED", ">EFFECT", ">POSITION", ">LSO", ">HW", ">UNREAD", ">EFFECT-BEHIND", ">COMMIT-BEHIND",
		">OLDEST", ">RETRY", ">QUARANTINED", "PAUSED", ">GEN", "VERDICT")
	for _, l := range v.Lines {
		t.Row(fmt.Sprintf("%s/%d", l.Topic, l.Partition), l.LogStart, l.CommittedText(), l.Effect, l.Position, l.LastStable, l.HighWatermark,
			aged(l.Unread, l.UnreadAgeMs), l.EffectBehind, l.CommitBehind, oldest(l), retry(l), l.Quarantined, paused(l), l.Generation, l.Verdict)
	}
	a.Print(t)
	for _, topic := range leftTopics(v.Lines) {
		a.Printf("  no member reads %s any more\n", topic)
	}
	for _, p := range problems(v.Lines) {
		a.Printf("  a reading failed: %s\n", p)
	}
}

// leftTopics are the topics that the group has commits in and no longer reads.
func leftTopics(lines []line.Line) []string {
	var out []string
	for _, l := range lines {
		if l.Left && !slices.Contains(out, l.Topic) {
			out = append(out, l.Topic)
		}
	}
	return out
}

// maxProblems bounds what is said below a table; "why" has all of a partition.
const maxProblems = 5

// problems are the readings that failed, each once.
func problems(lines []line.Line) []string {
	var out []string
	for _, l := range lines {
		for _, p := range l.Problems {
			if !slices.Contains(out, p) && len(out) < maxProblems {
				out = append(out, p)
			}
		}
	}
	return out
}

// aged prints a gap and how old the first record in it is.
func aged(n, ageMs boundary.Offset) string {
	if v, _ := n.Get(); v > 0 && ageMs.Present() {
		return fmt.Sprintf("%v (%s)", n, line.Age(ageMs))
	}
	return n.String()
}

func oldest(l line.Line) string {
	switch {
	case l.InFlight == nil:
		return "?"
	case !l.InFlight.Oldest.Present():
		return "-"
	}
	return line.Age(boundary.At(l.InFlight.OldestMs))
}

func retry(l line.Line) any {
	if l.InFlight == nil {
		return "?"
	}
	return l.InFlight.RetryWait
}

func paused(l line.Line) string {
	switch {
	case l.InFlight == nil:
		return "?"
	case l.Paused == "":
		return "no"
	}
	return l.Paused
}

// conclude turns the lines into an exit code: what needs attention before what
// is not known, and neither is a pass.
func conclude(views []View) error {
	var attention, unknown findings
	for _, v := range views {
		if v.Error != "" {
			unknown.add(v.Group+" was not read", "group describe "+v.Group)
		}
		for _, l := range v.Lines {
			name := fmt.Sprintf("%s %s/%d", l.Group, l.Topic, l.Partition)
			switch {
			case l.Verdict.NeedsAttention():
				attention.add(name+" "+l.Verdict.String(), "why "+name)
			case l.Verdict.Has(line.Unknown):
				unknown.add(name+" "+l.Verdict.String(), "why "+name)
			}
		}
	}
	switch {
	case attention.count > 0:
		return attention.fix(app.Finding("%v", attention))
	case unknown.count > 0:
		return unknown.fix(app.Inconclusive("%v", unknown))
	}
	return nil
}

// findings are told by the first of them, with the command that says more of it.
type findings struct {
	count       int
	first, more string
}

func (f *findings) add(text, more string) {
	if f.count++; f.count == 1 {
		f.first, f.more = text, more
	}
}

func (f findings) String() string {
	if f.count == 1 {
		return f.first
	}
	return fmt.Sprintf("%s, and %d more", f.first, f.count-1)
}

func (f findings) fix(e *app.Error) *app.Error { return e.Fix("see \"tidemark %s\"", f.more) }
