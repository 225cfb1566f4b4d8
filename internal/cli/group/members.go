package group

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

func membersCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:               "members NAME",
		Short:             "Show who is in a group, in which state, and what each member has",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteGroups,
		RunE:              func(cmd *cobra.Command, args []string) error { return members(cmd, a, args[0]) },
	}
}

func members(cmd *cobra.Command, a *app.App, group string) error {
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	v, err := load(ctx, adm, group)
	if err != nil {
		return err
	}
	if a.JSON() {
		return a.Emit(v)
	}
	printHead(a, v)
	if !v.active() {
		return nil
	}
	t := app.NewTable("MEMBER", "INSTANCE", "CLIENT", "HOST", "PROTOCOL", ">EPOCH", "STATE", ">PARTITIONS", "ASSIGNED")
	for _, m := range v.Members {
		epoch, instance := "-", "-"
		if m.Epoch != nil {
			epoch = strconv.Itoa(int(*m.Epoch))
		}
		if m.Instance != nil {
			instance = *m.Instance
		}
		n := 0
		for _, o := range m.Assigned {
			n += len(o.Partitions)
		}
		t.Row(m.ID, instance, cmp.Or(m.Client, "-"), cmp.Or(m.Host, "-"), m.Protocol, epoch, m.State, n, assigned(m.Assigned))
	}
	a.Print(t)
	return nil
}

// assigned prints topics with their partitions: orders(0,2) stock(1).
func assigned(list []owned) string {
	parts := make([]string, 0, len(list))
	for _, o := range list {
		parts = append(parts, o.Topic+"("+app.Ints(o.Partitions)+")")
	}
	return cmp.Or(strings.Join(parts, " "), "-")
}
