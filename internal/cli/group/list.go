package group

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

type listOptions struct {
	types  []string
	states []string
}

func listCommand(a *app.App) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List groups with their type and state",
		Example: "  tidemark group list\n  tidemark group list --type consumer --state Stable,Reconciling",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return list(cmd, a, o) },
	}
	cmd.Flags().StringSliceVar(&o.types, "type", nil, "only groups of these types: classic, consumer (KIP-848), share, streams")
	cmd.Flags().StringSliceVar(&o.states, "state", nil, "only groups in these states, such as Stable or Empty")
	return cmd
}

// What brokers know; they answer with no groups for anything else.
var (
	groupTypes  = []string{"classic", "consumer", "share", "streams"}
	groupStates = []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "NotReady", "Dead"}
)

func (o listOptions) check() error {
	if err := oneOf("--type", o.types, groupTypes); err != nil {
		return err
	}
	return oneOf("--state", o.states, groupStates)
}

func oneOf(flag string, given, known []string) error {
	for _, g := range given {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, g) }) {
			return app.Usage("%s is %q; it can be %s", flag, g, strings.Join(known, ", "))
		}
	}
	return nil
}

type listed struct {
	Group        string `json:"group"`
	Type         string `json:"type"`
	ProtocolType string `json:"protocol_type"`
	State        string `json:"state"`
	Coordinator  int32  `json:"coordinator"`
}

func list(cmd *cobra.Command, a *app.App, o listOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	groups, err := adm.ListGroupsByType(ctx, o.types, o.states...)
	if err != nil {
		return app.Explain(err, "", "list groups")
	}
	out := []listed{}
	table := app.NewTable("GROUP", "TYPE", "STATE", "PROTOCOL TYPE", ">COORDINATOR")
	for _, g := range groups.Sorted() {
		row := listed{g.Group, strings.ToLower(g.GroupType), g.ProtocolType, g.State, g.Coordinator}
		out = append(out, row)
		table.Row(row.Group, cmp.Or(row.Type, "-"), cmp.Or(row.State, "-"), cmp.Or(row.ProtocolType, "-"), row.Coordinator)
	}
	if a.JSON() {
		return a.Emit(out)
	}
	if table.Len() == 0 {
		a.Note("no groups")
		return nil
	}
	a.Print(table)
	return nil
}
