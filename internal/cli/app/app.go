package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// App carries what the root command parsed and the process's streams.
type App struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// Watched says that a person reads Err (it is a terminal): show progress.
	Watched bool
	// Interactive says that this person also types In: ask.
	Interactive bool

	Bootstrap     []string      // --bootstrap-server
	CommandConfig string        // --command-config: client.properties
	Format        string        // --format: text or json
	Timeout       time.Duration // --timeout, for one request to the cluster

	tls *tls.Config // of --command-config; nil: plaintext
}

// Default values of the shared flags.
const (
	DefaultBootstrap = "127.0.0.1:9092"
	DefaultTimeout   = 10 * time.Second
)

// Bind adds the shared flags to the root command.
func (a *App) Bind(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringSliceVarP(&a.Bootstrap, "bootstrap-server", "b", []string{DefaultBootstrap}, "`HOST:PORT` of any broker of the cluster, comma separated")
	f.StringVar(&a.CommandConfig, "command-config", "", "`FILE` with Kafka's client.properties names: security.protocol=SSL, ssl.truststore.location, ...")
	f.StringVar(&a.Format, "format", "text", "output: text for people, json for scripts")
	f.DurationVar(&a.Timeout, "timeout", DefaultTimeout, "how long to wait for the cluster")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.check() }
}

func (a *App) check() error {
	if a.Format != "text" && a.Format != "json" {
		return Usage("--format is %q; it can be text or json", a.Format)
	}
	if a.Timeout <= 0 {
		return Usage("--timeout is %v; it must be more than 0", a.Timeout)
	}
	return a.loadSecurity()
}

// JSON reports whether results are for scripts.
func (a *App) JSON() bool { return a.Format == "json" }

// Note writes a line for a person to Err.
func (a *App) Note(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }

// Request bounds one exchange with the cluster by --timeout.
func (a *App) Request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Timeout)
}

// Client connects to the cluster and makes sure that somebody answers.
func (a *App) Client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append(append(a.Dial(),
		kgo.RetryTimeout(a.Timeout),
		kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil)),
	), opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, Usage("%v", err)
	}
	pingCtx, cancel := a.Request(ctx)
	defer cancel()
	if err := cl.Ping(pingCtx); err != nil {
		cl.Close()
		return nil, a.unreachable(err)
	}
	return cl, nil
}

// Admin is a client for administrative requests, and the client below it for
// requests that kadm does not know in full.
type Admin struct {
	*kadm.Client
	Raw *kgo.Client
}

// Admin is Client for administrative requests. The caller closes it.
func (a *App) Admin(ctx context.Context) (*Admin, error) {
	cl, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	adm := &Admin{Client: kadm.NewClient(cl), Raw: cl}
	adm.SetTimeoutMillis(int32(min(a.Timeout.Milliseconds(), 1<<30)))
	return adm, nil
}

func (a *App) unreachable(err error) error {
	reason := err.Error()
	var op *net.OpError
	switch why := a.tlsReason(err); {
	case why != "":
		reason = why
	case errors.As(err, &op):
		reason = op.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		reason = fmt.Sprintf("no answer within %v", a.Timeout)
	case errors.Is(err, io.EOF):
		reason = "the connection was closed: is it a Kafka port, and does it speak TLS (security.protocol=SSL in --command-config)?"
	}
	if strings.Contains(reason, "'HTTP' in ascii") { // the client's guess, in words of its own
		reason = "what listens there speaks HTTP: is it the port of the metrics?"
	}
	return Failed("cannot reach a broker at %s: %s", strings.Join(a.Bootstrap, ","), strings.TrimPrefix(reason, "connect: ")).
		Fix("start one with \"tidemark server\", or name another with --bootstrap-server HOST:PORT")
}

// CompleteTopics suggests topic names for shell completion.
func (a *App) CompleteTopics(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, "topics", func(ctx context.Context, adm *Admin) ([]string, error) {
		topics, err := adm.ListTopics(ctx)
		return topics.Names(), err
	})
}

// CompleteGroups suggests group names for shell completion.
func (a *App) CompleteGroups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, "groups", func(ctx context.Context, adm *Admin) ([]string, error) {
		groups, err := adm.ListGroups(ctx)
		return groups.Groups(), err
	})
}

// complete suggests names, for the first argument or, where the command's
// annotation of that kind says "many", for each. It is silent when no cluster
// answers.
func (a *App) complete(cmd *cobra.Command, args []string, kind string, names func(context.Context, *Admin) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Annotations[kind] != "many" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if a.loadSecurity() != nil { // nobody has checked the flags of a completion
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	adm, err := a.Admin(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer adm.Close()
	out, err := names(ctx, adm)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
