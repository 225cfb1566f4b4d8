package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

func describeCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME...",
		Short: "Show state, epochs and where groups stand in each partition",
		Long: "Show state, epochs and where groups stand in each partition.\n\n" +
			"COMMITTED is the group's checkpoint, UNCOMMITTED what lies between it and LOG END: read or not, done or not.\n" +
			"POSITION is what a consumer will fetch next; only consumers that report it with their commits have one. What\n" +
			"is unread and what is unfinished is apart in \"tidemark lines\".",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteGroups,
		Annotations:       map[string]string{"groups": "many"},
		RunE:              func(cmd *cobra.Command, args []string) error { return describe(cmd, a, args) },
	}
}

type description struct {
	view
	Partitions []position `json:"partitions"`
}

func describe(cmd *cobra.Command, a *app.App, names []string) error {
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	out := []description{}
	var failed error // of the first group that cannot be shown; the others are
	var rows []position
	for _, name := range names {
		d, err := read(ctx, adm, name)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		out, rows = append(out, d), append(rows, d.Partitions...)
	}
	if len(out) > 0 {
		if err := showDescriptions(a, out); err != nil {
			return err
		}
	}
	return cmp.Or(failed, unread(rows))
}

func read(ctx context.Context, adm *app.Admin, name string) (description, error) {
	v, err := load(ctx, adm, name)
	if err != nil {
		return description{}, err
	}
	rows, err := positions(ctx, adm, v)
	return description{v, rows}, err
}

func showDescriptions(a *app.App, out []description) error {
	if a.JSON() {
		return a.Emit(out)
	}
	for i, d := range out {
		if i > 0 {
			a.Printf("\n")
		}
		printHead(a, d.view)
		printPositions(a, d.Partitions)
	}
	return nil
}

// printHead writes the line about the group itself.
func printHead(a *app.App, v view) {
	parts := []string{"group " + v.Group, v.Type, v.State}
	if v.Epoch != nil {
		parts = append(parts, fmt.Sprintf("epoch %d", *v.Epoch), fmt.Sprintf("assignment epoch %d", *v.AssignmentEpoch))
	}
	if v.Assignor != "" {
		parts = append(parts, "assignor "+v.Assignor)
	}
	if v.ProtocolType != "" && v.ProtocolType != "consumer" {
		parts = append(parts, "protocol type "+v.ProtocolType)
	}
	parts = append(parts, app.Plural(int64(len(v.Members)), "member"), fmt.Sprintf("coordinator %d", v.Coordinator))
	a.Printf("%s\n", strings.Join(parts, "  "))
	if n := classicMembers(v); n > 0 && v.Type == typeConsumer {
		a.Printf("note: %s still speak the classic protocol: the group is in migration\n", app.Plural(int64(n), "member"))
	}
}

func classicMembers(v view) int {
	n := 0
	for _, m := range v.Members {
		if m.Protocol == typeClassic {
			n++
		}
	}
	return n
}

func printPositions(a *app.App, rows []position) {
	if len(rows) == 0 {
		a.Printf("no commits and nothing assigned\n")
		return
	}
	effects := slices.ContainsFunc(rows, func(r position) bool { return r.Effect != nil })
	titles := []string{"TOPIC", ">PARTITION", ">LOG START", ">COMMITTED"}
	if effects {
		titles = append(titles, ">EFFECT")
	}
	t := app.NewTable(append(titles, ">POSITION", ">LOG END", ">UNCOMMITTED", "MEMBER", "NOTE")...)
	for _, r := range rows {
		cells := []any{r.Topic, r.Partition, number(r.LogStart), number(r.Committed)}
		if effects {
			cells = append(cells, number(r.Effect))
		}
		t.Row(append(cells, number(r.Position), number(r.LogEnd), number(r.Uncommitted), cmp.Or(name(r.Member, r.Instance), "-"), r.Problem)...)
	}
	a.Print(t)
}

// name is how a person knows a member: by its instance id if it has one.
func name(id string, instance *string) string {
	if instance != nil && *instance != "" {
		return *instance
	}
	return id
}
