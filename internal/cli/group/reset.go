package group

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

type resetOptions struct {
	topics    []string
	allTopics bool
	to        string
	execute   bool
	dryRun    bool
}

func resetCommand(a *app.App) *cobra.Command {
	var o resetOptions
	cmd := &cobra.Command{
		Use:   "reset NAME --to WHERE (--topic TOPIC[:PARTITIONS] | --all-topics)",
		Short: "Move the commits of a group without members; shows the plan unless --execute is given",
		Example: "  tidemark group reset billing --topic orders --to start\n" +
			"  tidemark group reset billing --topic orders:0,3 --to 2026-11-30T12:00:00Z --execute\n" +
			"  tidemark group reset billing --all-topics --to -100 --execute",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteGroups,
		RunE:              func(cmd *cobra.Command, args []string) error { return reset(cmd.Context(), a, args[0], o) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.topics, "topic", nil, "`TOPIC[:PARTITION,...]` to move in; may be repeated")
	f.BoolVar(&o.allTopics, "all-topics", false, "move in all topics that the group has commits in")
	f.StringVar(&o.to, "to", "", "`WHERE`: start, end, an offset, +N or -N from the commit, or a time (RFC 3339, @MILLISECONDS, an age such as 90m)")
	f.BoolVar(&o.execute, "execute", false, "do it")
	f.BoolVar(&o.dryRun, "dry-run", false, "only show what would be done (the default)")
	_ = cmd.MarkFlagRequired("to")
	cmd.MarkFlagsMutuallyExclusive("execute", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("topic", "all-topics")
	return cmd
}

func reset(parent context.Context, a *app.App, group string, o resetOptions) error {
	to, err := parseTarget(o.to)
	if err != nil {
		return app.Usage("--to is %q: %v", o.to, err)
	}
	if len(o.topics) == 0 && !o.allTopics {
		return app.Usage("say which topics").Fix("add --topic TOPIC or --all-topics")
	}
	adm, err := a.Admin(parent)
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(parent)
	defer cancel()
	v, err := load(ctx, adm, group)
	isNew := startsNew(err)
	if err != nil && !isNew {
		return err
	}
	v.Group = group
	if v.active() && o.execute {
		return active(v)
	}
	moves, err := plan(ctx, adm, v, o, to)
	if err != nil {
		return err
	}
	if o.execute {
		if err := move(ctx, adm, group, moves); err != nil {
			return err
		}
	}
	if err := showMoves(a, group, moves, o.execute); err != nil {
		return err
	}
	switch {
	case v.active(): // a plan for a group in use is not one that can be carried out
		return active(v)
	case a.JSON():
	case o.execute:
		a.Note("moved %s of group %s", app.Plural(int64(len(moves)), "commit"), group)
	case isNew:
		a.Note("there is no group %s yet (see \"tidemark group list\"); nothing was changed: add --execute to make it", group)
	default:
		a.Note("nothing was changed: add --execute to move")
	}
	return nil
}

// plan reads where the group stands and where it would be.
func plan(ctx context.Context, adm *app.Admin, v view, o resetOptions, to target) ([]moved, error) {
	rows, err := positions(ctx, adm, v)
	if err != nil {
		return nil, err
	}
	if !o.allTopics {
		if rows, err = withTopics(ctx, adm, rows, o.topics); err != nil {
			return nil, err
		}
	}
	at := func(position) (int64, error) { return -1, nil }
	if to.kind == toTime {
		if at, err = timeIn(ctx, adm, rows, to.n); err != nil {
			return nil, err
		}
	}
	moves := []moved{}
	for _, r := range rows {
		m, err := to.move(r, at)
		if err != nil {
			return nil, err
		}
		moves = append(moves, m)
	}
	if len(moves) == 0 {
		return nil, app.Failed("group %s has no commit to move", v.Group).Fix("name topics with --topic")
	}
	return moves, nil
}

// timeIn asks the topics of rows for a time, in Unix ms. The answer for a partition
// is the first offset at or after it, -1 when nothing is that new.
func timeIn(ctx context.Context, adm *app.Admin, rows []position, ms int64) (func(position) (int64, error), error) {
	names := []string{}
	for _, r := range rows {
		if !slices.Contains(names, r.Topic) {
			names = append(names, r.Topic)
		}
	}
	logs, err := logbounds.Read(ctx, adm.Raw, names...)
	if err != nil {
		return nil, app.Explain(err, "", "offsets at the time")
	}
	listed := logs.At(ctx, adm.Raw, ms)
	return func(r position) (int64, error) {
		o, err := logs.Find(listed, r.Topic, r.Partition)
		return o.Offset, err
	}, nil
}

// move commits the new offsets as an administrator: no member id, generation
// -1, which coordinators accept only for a group without members.
func move(ctx context.Context, adm *app.Admin, group string, moves []moved) error {
	offsets := kadm.Offsets{}
	for _, m := range moves {
		offsets.Add(kadm.Offset{Topic: m.Topic, Partition: m.Partition, At: m.After, LeaderEpoch: -1})
	}
	answers, err := adm.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return refusedOr(err, "move offsets of group %s", group)
	}
	return nil
}

func showMoves(a *app.App, group string, moves []moved, done bool) error {
	if a.JSON() {
		return a.Emit(map[string]any{"group": group, "executed": done, "partitions": moves})
	}
	t := app.NewTable("TOPIC", ">PARTITION", ">BEFORE", ">AFTER", "EFFECT")
	for _, m := range moves {
		t.Row(m.Topic, m.Partition, number(m.Before), m.After, m.effect())
	}
	a.Print(t)
	return nil
}
