package quarantine

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	format "github.com/tidemark-io/tidemark/consumer/quarantine"
	"github.com/tidemark-io/tidemark/internal/cli/app"
)

type changeOptions struct {
	selection
	apply       bool
	rate        float64
	maxRedrives int
	redrive     bool
}

func redriveCommand(a *app.App) *cobra.Command {
	o := changeOptions{redrive: true}
	cmd := &cobra.Command{
		Use: "redrive TOPIC [PARTITION:OFFSET...]", Short: "Send quarantined records back to the topics they came from",
		Long: "Appends a copy of each record to its origin topic, with its key, value and own headers, and a count of how often\n" +
			"it went back. Consumers tell it from a new event by its event id, which stays. Records that are handled already\n" +
			"are left out, so the command can be run again after an interruption.\n\nWithout --apply it prints what it would do.",
		Example: "  tidemark quarantine redrive orders.quarantine 0:17 --apply\n  tidemark quarantine redrive orders.quarantine --all --reason 503 --rate 20 --apply",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: a.CompleteTopics,
		RunE: func(cmd *cobra.Command, args []string) error { return change(cmd.Context(), a, args[0], args[1:], o) },
	}
	o.bind(cmd, "every record that waits, in order")
	cmd.Flags().BoolVar(&o.apply, "apply", false, "do it; without this the command only says what it would do")
	cmd.Flags().Float64Var(&o.rate, "rate", 100, "records a second")
	cmd.Flags().IntVar(&o.maxRedrives, "max-redrives", 3, "refuse a record that went back this often already: it goes round in a loop")
	return cmd
}

func dropCommand(a *app.App) *cobra.Command {
	o := changeOptions{rate: 1000}
	cmd := &cobra.Command{
		Use: "drop TOPIC [PARTITION:OFFSET...]", Short: "Give quarantined records up: mark them as handled",
		Example: "  tidemark quarantine drop orders.quarantine 0:17 --apply",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: a.CompleteTopics,
		RunE: func(cmd *cobra.Command, args []string) error { return change(cmd.Context(), a, args[0], args[1:], o) },
	}
	o.bind(cmd, "every record that waits")
	cmd.Flags().BoolVar(&o.apply, "apply", false, "do it; without this the command only says what it would do")
	return cmd
}

// step is what was done, or would be, with one record.
type step struct {
	entry
	Action string `json:"action"` // "redriven", "dropped", "would be redriven", "refused: ...", ...
	// To is where the copy went.
	To string `json:"to,omitempty"`

	record *kgo.Record
}

func change(ctx context.Context, a *app.App, topic string, at []string, o changeOptions) error {
	if len(at) == 0 && !o.all {
		return app.Usage("name records as PARTITION:OFFSET, or take --all").Fix("see \"tidemark quarantine list %s\"", topic)
	}
	if len(at) > 0 && o.all {
		return app.Usage("take records or --all, not both")
	}
	if o.rate <= 0 {
		return app.Usage("--rate is %v; it must be more than 0", o.rate)
	}
	cl, err := a.Client(ctx, kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm, err := a.Admin(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	c, err := load(ctx, a, adm, topic)
	if err != nil {
		return err
	}
	steps, err := c.plan(at, o)
	if err != nil {
		return err
	}
	for i := range steps {
		if !o.apply || steps[i].refused() {
			continue
		}
		if i > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(float64(time.Second) / o.rate)):
			}
		}
		if err := c.do(ctx, a, adm, cl, &steps[i], o); err != nil {
			_ = report(a, topic, steps[:i], o)
			return err
		}
	}
	return report(a, topic, steps, o)
}

func (s *step) refused() bool { return len(s.Action) > 7 && s.Action[:7] == "refused" }

// plan says for each chosen record what will become of it.
func (c *contents) plan(at []string, o changeOptions) ([]step, error) {
	records := c.records
	if len(at) > 0 {
		var err error
		if records, err = c.pick(at); err != nil {
			return nil, err
		}
	}
	var steps []step
	for _, r := range records {
		s := step{entry: c.entry(r), record: r, Action: "would be dropped"}
		if o.all && s.Handled || !o.matches(s.entry) {
			continue
		}
		if o.redrive {
			s.Action = "would be redriven"
		}
		switch {
		case s.Handled:
			s.Action = "refused: it is handled already"
		case !o.redrive:
		case s.Origin == nil:
			s.Action = "refused: " + s.Error
		case s.Origin.Topic == c.topic:
			s.Action = "refused: its origin is the quarantine topic itself"
		case s.Origin.Redrives >= o.maxRedrives:
			s.Action = fmt.Sprintf("refused: it went back %d times already", s.Origin.Redrives)
		default:
			s.To = s.Origin.Topic
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// do redrives or drops one record, and marks it after the copy is acknowledged.
func (c *contents) do(ctx context.Context, a *app.App, adm *app.Admin, cl *kgo.Client, s *step, o changeOptions) error {
	s.Action = "dropped"
	if o.redrive {
		request, cancel := a.Request(ctx)
		defer cancel()
		// Without a partition the partitioner chooses by key, as the producer's did.
		sent := cl.ProduceSync(request, &kgo.Record{Topic: s.To, Key: s.record.Key, Value: s.record.Value, Headers: format.ForRedrive(s.record.Headers)})
		r, err := sent.First()
		if err != nil {
			return app.Explain(err, "", "redrive %s %d:%d to %s", c.topic, s.Partition, s.Offset, s.To)
		}
		s.Action, s.To = "redriven", fmt.Sprintf("%s/%d:%d", r.Topic, r.Partition, r.Offset)
	}
	return c.handle(ctx, a, adm, s.record)
}

func report(a *app.App, topic string, steps []step, o changeOptions) error {
	refused := 0
	for i := range steps {
		if steps[i].refused() {
			refused++
		}
	}
	if a.JSON() {
		if steps == nil {
			steps = []step{}
		}
		if err := a.Emit(map[string]any{"topic": topic, "applied": o.apply, "records": steps, "refused": refused}); err != nil {
			return err
		}
	} else {
		t := app.NewTable("RECORD", "ACTION", "TO", "KEY", "REASON")
		for _, s := range steps {
			reason := s.Error
			if s.Origin != nil {
				reason = s.Origin.Reason
			}
			t.Row(fmt.Sprintf("%d:%d", s.Partition, s.Offset), s.Action, s.To, printable(s.Key), clip(reason, 80))
		}
		if len(steps) == 0 {
			a.Note("no record matches; see \"tidemark quarantine list %s\"", topic)
			return nil
		}
		a.Print(t)
		if !o.apply && len(steps) > refused {
			a.Note("nothing was changed; run it again with --apply")
		}
	}
	if refused > 0 {
		return app.Refused("%s refused", app.Plural(int64(refused), "record"))
	}
	return nil
}
