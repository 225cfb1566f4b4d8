package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// suggestionDistance is how many letters a name may be off to be suggested.
const suggestionDistance = 2

// usageErrors are how errors begin that cobra makes of a wrong command line.
var usageErrors = []string{
	"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "required flag", "invalid argument", "flag needs",
}

// longFlag finds the names in a list of flags.
var longFlag = regexp.MustCompile(`(?m)^ +(?:-\w, +)?--([\w-]+)`)

// explainUsage gives cobra's errors about the command line a way out.
func explainUsage(cmd *cobra.Command, err error) error {
	var known *app.Error
	if errors.As(err, &known) {
		return err
	}
	text := err.Error()
	for _, prefix := range usageErrors {
		if !strings.HasPrefix(text, prefix) {
			continue
		}
		text, _, _ = strings.Cut(text, "\n")
		switch {
		case prefix == "unknown flag":
			text += didYouMean("--", flagsLike(cmd, strings.TrimPrefix(text, "unknown flag: --")))
		case prefix == "unknown command" && !cmd.HasSubCommands():
			text = fmt.Sprintf("%s takes no arguments, but there is %q", cmd.CommandPath(), cmd.Flags().Arg(0))
		case prefix == "unknown command":
			return unknownCommand(cmd, cmd.Flags().Arg(0), text)
		case prefix == "accepts " || prefix == "requires ":
			return app.Usage("%s", text).Fix("write %s; see \"%s --help\"", cmd.UseLine(), cmd.CommandPath())
		}
		return app.Usage("%s", text).Fix("see \"%s --help\"", cmd.CommandPath())
	}
	return err
}

// unknownCommand names the commands that may have been meant.
func unknownCommand(cmd *cobra.Command, name, text string) error {
	if quoted := strings.Split(text, `"`); name == "" && len(quoted) > 1 { // the root refuses before it parses
		name = quoted[1]
	}
	cmd.SuggestionsMinimumDistance = suggestionDistance
	return app.Usage("unknown command %q for %q%s", name, cmd.CommandPath(), didYouMean("", cmd.SuggestionsFor(name))).Fix("see \"%s --help\"", cmd.CommandPath())
}

func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}

// flagsLike lets cobra, which compares names of commands only, compare flags.
func flagsLike(cmd *cobra.Command, name string) []string {
	name, _, _ = strings.Cut(name, "=")
	flags := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	seen := map[string]bool{}
	for _, m := range longFlag.FindAllStringSubmatch(cmd.Flags().FlagUsages()+cmd.InheritedFlags().FlagUsages(), -1) {
		if !seen[m[1]] {
			seen[m[1]] = true
			flags.AddCommand(&cobra.Command{Use: m[1], Run: func(*cobra.Command, []string) {}})
		}
	}
	return flags.SuggestionsFor(name)
}

// refuseUnknown makes a wrong name below a command that only groups others an
// error. Cobra shows the help then and calls it a success, which a script with a
// typo believes.
func refuseUnknown(root *cobra.Command, refused *error) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		asked, _ := cmd.Flags().GetBool("help")
		if name := cmd.Flags().Arg(0); name != "" && !asked && cmd.HasSubCommands() && !cmd.Runnable() {
			*refused = unknownCommand(cmd, name, "")
			return
		}
		help(cmd, args)
	})
}
