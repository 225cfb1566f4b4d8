package serve

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/tlsconf"
)

// Run starts a server and returns when it has stopped: nil after a clean stop.
// It stops when ctx ends.
type Run func(ctx context.Context, cfg config.ServerConfig) error

// envConfig names the file when --config does not.
const envConfig = config.EnvPrefix + "CONFIG"

// Command returns the server command.
func Command(_ *app.App, run Run) *cobra.Command {
	var file string
	var check bool
	var src config.ServerSources
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a broker",
		Long: "Run a broker. Without any configuration it is a cluster of one on 127.0.0.1:9092 with its data in ./data.\n\n" +
			"Settings have the names of Kafka's server.properties. They come from --config, then the environment\n" +
			"(TIDEMARK_NUM_PARTITIONS is num.partitions), then --set, then the other flags; later ones win.",
		Example: `  tidemark server
  tidemark server --data-dir /var/lib/tidemark --listen 0.0.0.0:9092 --set advertised.listeners=PLAINTEXT://kafka.example:9092
  tidemark server --config server.properties --check`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(file, src)
			if err != nil {
				return err
			}
			if check {
				cmd.Printf("the configuration is good\n")
				for _, w := range cfg.Warnings {
					cmd.Printf("note: %s\n", w)
				}
				return nil
			}
			if err := run(cmd.Context(), cfg); err != nil {
				return explain(err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "configuration `FILE` with Kafka's server.properties names")
	f.StringVar(&src.Flags.DataDir, "data-dir", "", "`DIR` for all data (log.dirs); ./data when nothing says otherwise")
	f.StringVar(&src.Flags.Listen, "listen", "", "`HOST:PORT` for clients, who are told the same address; port 0 picks a free one, without HOST it is every interface and clients are told this machine's name (default 127.0.0.1:9092)")
	f.StringVar(&src.Flags.Admin, "admin", "", "`HOST:PORT` for /metrics, /healthz, /readyz and pprof, or none (default 127.0.0.1:9644)")
	f.StringVar(&src.Flags.NodeID, "node-id", "", "`NUMBER` of this node in the cluster (default 1)")
	f.StringArrayVar(&src.Set, "set", nil, "setting as `KEY=VALUE`; may be repeated")
	f.BoolVar(&check, "check", false, "check the configuration and stop")
	_ = cmd.MarkFlagFilename("config", "properties")
	_ = cmd.MarkFlagDirname("data-dir")
	return cmd
}

// explain gives what keeps a server from starting a way out.
func explain(err error) error {
	var refused *config.Error
	if errors.As(err, &refused) {
		return refusedBy(refused)
	}
	e := app.Failed("%w", err)
	var listen *net.OpError
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK): // a locked folder
		return e.Fix("stop the server that has the folder open, or give this one a folder of its own: --data-dir DIR, and --listen and --admin with other ports")
	case errors.Is(err, syscall.EADDRINUSE):
		return e.Fix("stop what listens there, or take another port: --listen HOST:PORT for clients, --admin HOST:PORT (or none) for metrics")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return e.Fix("listen on an address of this machine, or on every one with --listen :PORT; where clients are told another, set advertised.listeners")
	case errors.Is(err, fs.ErrPermission) && errors.As(err, &listen):
		return e.Fix("take a port above 1023: --listen HOST:PORT for clients, --admin HOST:PORT (or none) for metrics")
	case errors.Is(err, fs.ErrPermission):
		return e.Fix("name a folder that this user may write to with --data-dir DIR")
	}
	return e
}

// checkStores reads the key and trust stores, so that --check finds what is wrong in
// them; their warnings come with those of the settings. The server reads them again.
func checkStores(cfg *config.ServerConfig) error {
	for _, e := range cfg.Listeners {
		s, ok := cfg.TLS[e.Listener]
		if !ok {
			continue
		}
		_, err := tlsconf.Server(s, os.ReadFile, time.Now())
		var refused *config.Error
		if errors.As(config.TLSError(err), &refused) {
			return refusedBy(refused)
		}
	}
	return nil
}

func refusedBy(err *config.Error) error {
	return app.Failed("the configuration is refused: %w", err).Fix("change it, or look the setting up in docs/configuration.md")
}

// load reads the file and the environment and checks everything.
func load(file string, src config.ServerSources) (config.ServerConfig, error) {
	src.Env = os.Environ()
	if file == "" {
		file = os.Getenv(envConfig)
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return config.ServerConfig{}, app.Failed("the configuration cannot be read: %w", err).
				Fix("name a file with --config FILE, or leave it out: every setting has a default")
		}
		src.FileName, src.File = file, data
	}
	cfg, err := config.LoadServer(src)
	var ce *config.Error
	if errors.As(err, &ce) {
		return cfg, refusedBy(ce)
	}
	if err != nil {
		return cfg, app.Failed("%w", err)
	}
	return cfg, checkStores(&cfg)
}
