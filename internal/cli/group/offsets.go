package group

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

func offsetsCommand(a *app.App) *cobra.Command {
	var remove []string
	var yes bool
	cmd := &cobra.Command{
		Use:   "offsets NAME",
		Short: "Show a group's commits with their metadata, or delete those of a topic",
		Example: "  tidemark group offsets billing\n" +
			"  tidemark group offsets billing --delete old-orders --yes\n  tidemark group offsets billing --delete orders:3,4 --yes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteGroups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(remove) > 0 {
				return deleteOffsets(cmd.Context(), a, args[0], remove, yes)
			}
			return showOffsets(cmd.Context(), a, args[0])
		},
	}
	cmd.Flags().StringArrayVar(&remove, "delete", nil, "delete the commits of `TOPIC[:PARTITION,...]` that no member reads; may be repeated")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func showOffsets(parent context.Context, a *app.App, group string) error {
	adm, err := a.Admin(parent)
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(parent)
	defer cancel()
	v, err := load(ctx, adm, group)
	if err != nil {
		return err
	}
	all, err := positions(ctx, adm, v)
	if err != nil {
		return err
	}
	rows := []position{}
	t := app.NewTable("TOPIC", ">PARTITION", ">COMMITTED", ">EPOCH", ">LOG END", "METADATA")
	for _, r := range all {
		if r.Committed == nil {
			continue
		}
		rows = append(rows, r)
		t.Row(r.Topic, r.Partition, *r.Committed, r.Epoch, number(r.LogEnd), r.Metadata)
	}
	switch {
	case a.JSON():
		if err := a.Emit(map[string]any{"group": group, "offsets": rows}); err != nil {
			return err
		}
	case len(rows) == 0:
		a.Note("group %s has committed nothing", group)
	default:
		a.Print(t)
	}
	return unread(rows)
}

// deleteOffsets deletes commits of topics that nobody in the group reads; the
// coordinator refuses the others (KIP-496).
func deleteOffsets(parent context.Context, a *app.App, group string, specs []string, yes bool) error {
	adm, err := a.Admin(parent)
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(parent)
	defer cancel()
	v, err := load(ctx, adm, group)
	if err != nil {
		return err
	}
	rows, err := positions(ctx, adm, v)
	if err != nil {
		return err
	}
	chosen, err := choose(rows, specs)
	if err != nil {
		return err
	}
	set, deleted := kadm.TopicsSet{}, 0
	for _, r := range chosen {
		if reads(v, r.Topic) {
			return app.Refused("group %s reads %s now: its offsets stay", group, r.Topic).Fix("stop the members first; see \"tidemark group members %s\"", group)
		}
		if r.Committed != nil {
			set.Add(r.Topic, r.Partition)
			deleted++
		}
	}
	if len(set) == 0 {
		return app.Failed("group %s has no commit in %s", group, strings.Join(specs, ", ")).Fix("see \"tidemark group offsets %s\"", group)
	}
	if !yes {
		if err := confirm(a, "Delete the commits of group "+group+" in "+strings.Join(specs, ", ")+"?", "deleting offsets"); err != nil {
			return err
		}
	}
	answers, err := adm.DeleteOffsets(ctx, group, set)
	if err != nil {
		return refusedOr(err, "delete offsets of group %s", group)
	}
	if err := answers.Error(); err != nil {
		return refusedOr(err, "delete offsets of group %s", group)
	}
	if a.JSON() {
		return a.Emit(map[string]any{"group": group, "deleted": chosen})
	}
	a.Printf("deleted %s of group %s\n", app.Plural(int64(deleted), "commit"), group)
	return nil
}

// reads reports whether a member subscribes to topic or has it assigned. A
// regular expression is resolved by its assignment.
func reads(v view, topic string) bool {
	for _, m := range v.Members {
		for _, t := range m.Subscribed {
			if t == topic {
				return true
			}
		}
		for _, o := range m.Assigned {
			if o.Topic == topic {
				return true
			}
		}
	}
	return false
}

// refusedOr turns the coordinator's "the group is in use" into a refusal.
func refusedOr(err error, format string, args ...any) error {
	e := app.Explain(err, "", format, args...)
	for _, busy := range []*kerr.Error{kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic, kerr.UnknownMemberID, kerr.RebalanceInProgress} {
		if errors.Is(err, busy) {
			e.Code, e.Hint = app.ExitRefused, "the group has members: stop them first"
		}
	}
	return e
}
