package group

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// Command returns the group command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "group", Short: "Look at consumer groups, move and delete their offsets"}
	cmd.AddCommand(listCommand(a), describeCommand(a), membersCommand(a), offsetsCommand(a), resetCommand(a), deleteCommand(a))
	return cmd
}
