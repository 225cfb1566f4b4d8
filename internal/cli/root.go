package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/cli/bench"
	"github.com/tidemark-io/tidemark/internal/cli/cluster"
	"github.com/tidemark-io/tidemark/internal/cli/configs"
	"github.com/tidemark-io/tidemark/internal/cli/consume"
	"github.com/tidemark-io/tidemark/internal/cli/drill"
	"github.com/tidemark-io/tidemark/internal/cli/exporter"
	"github.com/tidemark-io/tidemark/internal/cli/group"
	"github.com/tidemark-io/tidemark/internal/cli/lines"
	"github.com/tidemark-io/tidemark/internal/cli/logdump"
	"github.com/tidemark-io/tidemark/internal/cli/offsets"
	"github.com/tidemark-io/tidemark/internal/cli/produce"
	"github.com/tidemark-io/tidemark/internal/cli/quarantine"
	"github.com/tidemark-io/tidemark/internal/cli/serve"
	"github.com/tidemark-io/tidemark/internal/cli/topic"
	"github.com/tidemark-io/tidemark/internal/cli/why"
)

// Streams are the process's standard streams.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Main runs the command line and returns the exit code of the process. run
// starts a server; it is handed in so that commands which speak only the Kafka
// protocol do not pull the server into their tests.
func Main(ctx context.Context, args []string, s Streams, run serve.Run) int {
	a := &app.App{In: s.In, Out: s.Out, Err: s.Err, Watched: isTerminal(s.Err), Interactive: isTerminal(s.Err) && isTerminal(s.In)}
	root := newRoot(a, run)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	var refused error
	refuseUnknown(root, &refused)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = refused
	}
	if err == nil {
		return app.ExitPass
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return app.ExitError
	}
	a.Report(explainUsage(cmd, err))
	return app.Code(err)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func newRoot(a *app.App, run serve.Run) *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "An event-streaming platform that speaks the Kafka protocol",
		Long: "Tidemark is an event-streaming platform that speaks the Kafka protocol: a broker in one binary,\n" +
			"and commands that work on it and on Apache Kafka alike.\n\n" +
			"Exit codes: 0 pass, 1 tool error, 2 finding, 3 inconclusive, 4 refused.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	a.Bind(root)
	log := &cobra.Command{Use: "log", Short: "Look into log folders"}
	log.AddCommand(logdump.Command(a))
	root.AddCommand(
		serve.Command(a, run), topic.Command(a), produce.Command(a), consume.Command(a), offsets.Command(a),
		configs.Command(a), log, cluster.Command(a), group.Command(a), bench.Command(a), drill.Command(a), versionCommand(a),
	)
	root.AddCommand(lines.Command(a), why.Command(a), quarantine.Command(a), exporter.Command(a))
	root.InitDefaultCompletionCmd()
	return root
}
