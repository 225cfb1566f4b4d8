package group

import (
	"bufio"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

func deleteCommand(a *app.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:               "delete NAME...",
		Short:             "Delete groups without members and all their offsets",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteGroups,
		Annotations:       map[string]string{"groups": "many"},
		RunE:              func(cmd *cobra.Command, args []string) error { return remove(cmd, a, args, yes) },
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func remove(cmd *cobra.Command, a *app.App, names []string, yes bool) error {
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	for _, n := range names { // all or none: look before the first is gone
		v, err := load(ctx, adm, n)
		if err != nil {
			return err
		}
		if v.active() {
			return active(v)
		}
	}
	if !yes {
		if err := confirm(a, "Delete "+strings.Join(names, ", ")+" with all offsets?", "deleting "+strings.Join(names, ", ")); err != nil {
			return err
		}
	}
	answers, err := adm.DeleteGroups(ctx, names...)
	if err != nil {
		return refusedOr(err, "delete groups")
	}
	deleted := []string{}
	var failed error
	for _, r := range answers.Sorted() {
		if r.Err == nil {
			deleted = append(deleted, r.Group)
		} else if failed == nil {
			failed = refusedOr(r.Err, "delete group %s", r.Group)
		}
	}
	if a.JSON() {
		if err := a.Emit(map[string]any{"deleted": deleted}); err != nil {
			return err
		}
	} else if len(deleted) > 0 {
		a.Printf("deleted %s\n", strings.Join(deleted, ", "))
	}
	return failed
}

// active refuses to touch offsets that members are using.
func active(v view) error {
	return app.Refused("group %s is in use: %s, state %s", v.Group, app.Plural(int64(len(v.Members)), "member"), v.State).
		Fix("stop its members first; see \"tidemark group members %s\"", v.Group)
}

func confirm(a *app.App, question, what string) error {
	if !a.Interactive {
		return app.Refused("%s needs a yes", what).Fix("add --yes")
	}
	a.Note("%s Type yes to go on.", question)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && line == "" || strings.TrimSpace(line) != "yes" {
		return app.Refused("nothing was deleted")
	}
	return nil
}
