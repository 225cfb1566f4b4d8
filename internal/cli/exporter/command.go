package exporter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/cli/lines"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
)

type options struct {
	lines.Flags
	listen  string
	groups  string
	cluster string
	share   time.Duration
}

// Command returns the exporter command.
func Command(a *app.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve the lines of consumer groups as Prometheus metrics",
		Long: "Serves the lines of all consumer groups on /metrics: the offsets, gaps, ages and verdicts of \"tidemark lines\"\n" +
			"as tidemark_line_*, and kafka_exporter's kafka_consumergroup_lag, kafka_consumergroup_current_offset,\n" +
			"kafka_topic_partition_current_offset and kafka_topic_partition_oldest_offset for what was made for those.\n" +
			"Every scrape reads the cluster. A reading that failed has no series.",
		Example: "  tidemark exporter --listen 127.0.0.1:9308\n  tidemark exporter --groups '^billing' --effects postgres://db/app",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), a, o) },
	}
	o.Bind(cmd)
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:9308", "`HOST:PORT` to serve on")
	cmd.Flags().StringVar(&o.groups, "groups", "", "only groups whose name this `REGEXP` matches")
	cmd.Flags().StringVar(&o.cluster, "cluster", "", "put a label cluster with this `NAME` on every series, for one Prometheus that reads several clusters")
	cmd.Flags().DurationVar(&o.share, "share", 2*time.Second, "scrapes within this time share one survey")
	return cmd
}

func run(ctx context.Context, a *app.App, o options) error {
	pattern, err := regexp.Compile(o.groups)
	if err != nil {
		return app.Usage("--groups: %v", err)
	}
	adm, err := a.Admin(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	s, err := o.Surveyor(a, adm)
	if err != nil {
		return err
	}
	c := &collector{ctx: ctx, timeout: a.Timeout, share: o.share, pattern: pattern, surveyor: s, flags: &o.Flags}
	registry := register(c, o.cluster)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics are on /metrics\n")) })
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return app.Failed("listen on %s: %w", o.listen, err).Fix("name another with --listen HOST:PORT")
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16}
	a.Note("metrics are on http://%s/metrics; stop with Ctrl-C", listener.Addr())
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = srv.Shutdown(end)
	}()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return app.Failed("serve: %w", err)
	}
	return nil
}

// register returns a registry of c whose series name the cluster, if it has a name.
func register(c prometheus.Collector, cluster string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	var to prometheus.Registerer = registry
	if cluster != "" {
		to = prometheus.WrapRegistererWith(prometheus.Labels{"cluster": cluster}, registry)
	}
	to.MustRegister(c)
	return registry
}

// collector surveys on scrape.
type collector struct {
	ctx      context.Context
	timeout  time.Duration
	share    time.Duration
	pattern  *regexp.Regexp
	surveyor *survey.Surveyor
	flags    *lines.Flags

	mu    sync.Mutex // held over a survey: scrapes that come meanwhile share it
	at    time.Time
	took  time.Duration
	ok    bool
	views []lines.View
}

// Describe sends nothing: which series there are depends on the cluster.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect answers a scrape.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) > c.share {
		c.survey()
	}
	e := &emitter{out: out, topics: map[string]bool{}}
	ok := 0.0
	if c.ok {
		ok = 1
	}
	e.gauge(surveyOK, ok)
	e.gauge(surveyed, c.took.Seconds())
	e.gauge(surveyAge, time.Since(c.at).Seconds())
	for _, v := range c.views {
		e.view(v)
	}
}

// survey reads all groups. When they cannot be listed there are no views: the
// series go away rather than stand still.
func (c *collector) survey() {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
	defer cancel()
	c.views = nil
	names, err := c.surveyor.Names(ctx)
	c.ok = err == nil
	names = slices.DeleteFunc(names, func(name string) bool { return !c.pattern.MatchString(name) })
	c.views = lines.ReadAll(ctx, c.surveyor, names, c.flags.Options())
	c.at, c.took = time.Now(), time.Since(begin)
}
