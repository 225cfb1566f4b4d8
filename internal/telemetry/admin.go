package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxScrapes bounds the scrapes that run at once, scrapeTimeout each of them.
	maxScrapes    = 4
	scrapeTimeout = 30 * time.Second
	// probeTimeout bounds a readiness probe; probeReuse is how long its outcome
	// answers for, since each probe writes a record.
	probeTimeout = 5 * time.Second
	probeReuse   = 500 * time.Millisecond
	// closeTimeout is what Close gives requests that run.
	closeTimeout = 2 * time.Second
)

// AdminOptions of ServeAdmin.
type AdminOptions struct {
	// Listener is from ListenAdmin.
	Listener net.Listener
	Registry *Registry
	// Ready is the readiness probe; nil means always ready. It gets 5 s, and its
	// outcome answers every request of the next half second.
	Ready func(ctx context.Context) error
	// RemotePprof serves /debug/pprof to clients that are not on loopback as well.
	RemotePprof bool
	Logger      *slog.Logger // nil: slog.Default()
}

// Admin is the admin HTTP server: /metrics, /healthz, /readyz, /debug/pprof.
type Admin struct {
	ln   net.Listener
	http *http.Server
	done chan struct{}
}

// ListenAdmin binds addr, host:port. Without a host it is loopback; port 0 picks a
// free one. Clients that connect before ServeAdmin wait.
func ListenAdmin(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("admin listener %q: %w", addr, err)
	}
	if host == "" {
		host = "127.0.0.1" // never every interface by accident
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("admin listener %q: %w", addr, err)
	}
	return ln, nil
}

// ServeAdmin serves on o.Listener until Close.
func ServeAdmin(o AdminOptions) *Admin {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	ln := o.Listener
	if !onLoopback(ln.Addr().String()) {
		o.Logger.Warn("the admin listener is reachable from other machines and asks nobody who they are", "addr", ln.Addr())
	}
	a := &Admin{ln: ln, done: make(chan struct{}), http: &http.Server{
		Handler:           adminMux(o),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // a CPU profile takes half of one
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}}
	go func() {
		defer close(a.done)
		if err := a.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("the admin listener stopped", "err", err)
		}
	}()
	return a
}

// Addr is the bound address.
func (a *Admin) Addr() net.Addr { return a.ln.Addr() }

// Close stops serving; requests that run get a moment to end. A nil Admin is fine.
func (a *Admin) Close() error {
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := a.http.Shutdown(ctx)
	if err != nil {
		err = a.http.Close() // a profile may run on for half a minute
	}
	<-a.done
	return err
}

func adminMux(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry.Gatherer(), promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	p := &prober{probe: o.Ready}
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle(path, localOnly(h, o.RemotePprof))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "tidemark admin: /metrics /healthz /readyz /debug/pprof/")
	})
	return mux
}

// localOnly serves h to clients on this machine: a profile shows the command
// line and memory contents.
func localOnly(h http.Handler, remote bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !remote && !onLoopback(r.RemoteAddr) {
			http.Error(w, "profiles are served on loopback only", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func onLoopback(addr string) bool {
	ap, err := netip.ParseAddrPort(addr)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// prober runs one probe at a time; whoever asks meanwhile, or just after, gets
// the same answer.
type prober struct {
	probe func(context.Context) error

	mu      sync.Mutex
	running chan struct{} // closed when the probe under way has ended
	endedAt time.Time
	err     error
}

func (p *prober) ready() error {
	if p.probe == nil {
		return nil
	}
	p.mu.Lock()
	if p.running == nil && !p.endedAt.IsZero() && time.Since(p.endedAt) < probeReuse {
		defer p.mu.Unlock()
		return p.err
	}
	wait := p.running
	if wait == nil {
		wait = make(chan struct{})
		p.running = wait
		go p.run(wait)
	}
	p.mu.Unlock()
	late := time.NewTimer(probeTimeout + time.Second)
	defer late.Stop()
	select {
	case <-wait:
	case <-late.C:
		return errors.New("the readiness probe does not end")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *prober) run(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	err := p.guarded(ctx)
	p.mu.Lock()
	p.err, p.endedAt, p.running = err, time.Now(), nil
	p.mu.Unlock()
	close(done)
}

func (p *prober) guarded(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the probe panicked: %v", r)
		}
	}()
	return p.probe(ctx)
}
