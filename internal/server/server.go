package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/coordinator/groupservice"
	"github.com/tidemark-io/tidemark/internal/lifecycle"
	"github.com/tidemark-io/tidemark/internal/metadata/loader"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/quorumcontroller"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// Bounds of the stop: longer than any request should take, shorter than what
// process managers wait before they kill.
const (
	finishProducesTimeout     = time.Second // other replicas may be slow: they are the next leader's matter
	controlledShutdownTimeout = 5 * time.Second
	drainTimeout              = 5 * time.Second
)

// Options of Run beside the configuration.
type Options struct {
	// Out gets the start-up screen.
	Out io.Writer
	// Logger gets everything else.
	Logger *slog.Logger
	// Program is how the person at the keyboard calls this program.
	Program string
	// Version is what the screen and the metrics call this build.
	Version string

	fs vfs.FS // of tests; else the operating system's
}

// Server is one running node.
type Server struct {
	cfg  *config.ServerConfig
	opts Options
	log  *slog.Logger
	fs   vfs.FS

	dirs       *logdir.Set
	metrics    *telemetry.Registry
	node       *quorum.Node
	loader     *loader.Loader
	snapshots  *loader.SnapshotGenerator
	shell      *quorumcontroller.Shell
	logs       *log.Manager
	replicas   *replica.Manager
	channel    *lifecycle.Channel
	broker     *lifecycle.Broker
	producers  *lifecycle.ProducerIDs
	offsets    *groupservice.Service
	clients    *network.Server
	controller *network.Server
	// The listeners are bound before the parts that answer on them exist; the
	// handlers are set before Serve.
	brokerAPIs, controllerAPIs lateHandler
	tls                        map[string]*listenerTLS // by listener
	adminListener              net.Listener            // nil without one
	admin                      *telemetry.Admin

	stopRegistration context.CancelFunc

	fatal chan error // the first failure that this node cannot survive
}

// Run starts a node, serves until ctx ends, and stops it cleanly. It returns nil
// after a clean stop.
func Run(ctx context.Context, cfg config.ServerConfig, o Options) error {
	s := &Server{cfg: &cfg, opts: o, log: o.Logger, fs: o.fs, fatal: make(chan error, 1)}
	if s.fs == nil {
		s.fs = vfs.OS()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.Out == nil {
		s.opts.Out = io.Discard
	}
	for _, w := range cfg.Warnings {
		s.log.Warn(w)
	}
	if err := s.start(ctx); err != nil {
		s.abandon()
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
		return s.stop()
	case err := <-s.fatal:
		s.abandon()
		return fmt.Errorf("the node cannot go on: %w", err)
	}
}

// lateHandler is a handler that is set after its listener is bound and before
// the first connection is accepted.
type lateHandler struct{ network.Handler }

// die reports a failure that this node cannot survive; only the first counts.
func (s *Server) die(err error) {
	select {
	case s.fatal <- err:
	default:
	}
}

// step is one part of the start, named for errors.
type step struct {
	name string
	run  func(context.Context) error
}

func (s *Server) start(ctx context.Context) error {
	for _, st := range []step{
		{"open the keys of the listeners", func(context.Context) error { return s.openTLS() }},
		{"open the listeners", s.openListeners},
		{"open the data folders", s.openFolders},
		{"open the metadata log", s.openQuorum},
		{"open the logs", s.openLogs},
		{"follow the metadata", s.followMetadata},
		{"serve the controller listener", s.serveController},
		{"register with the controller", s.register},
		{"serve clients", s.serveClients},
		{"serve the admin listener", s.serveAdmin},
	} {
		if err := st.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
	}
	s.banner()
	return nil
}

// stop ends the node in the order that loses nothing: what is appended is
// acknowledged, leaderships move away, requests in flight are answered, logs are
// flushed, the markers are written.
func (s *Server) stop() error {
	s.log.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), finishProducesTimeout)
	s.replicas.FinishProduces(ctx)
	cancel()
	ctx, cancel = context.WithTimeout(context.Background(), controlledShutdownTimeout)
	if err := s.broker.Shutdown(ctx); err != nil {
		s.log.Warn("the controller did not let go in time; stopping all the same", "error", err)
	}
	cancel()
	ctx, cancel = context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.clients.Drain(ctx); err != nil {
		s.log.Warn("some connections had to be cut", "error", err)
	}
	epoch := s.broker.Epoch()
	s.broker.Close()
	s.offsets.Close()
	s.replicas.Close()
	s.stopRegistration()
	s.channel.Close()
	err := s.controller.Close()
	s.shell.Close()
	s.loader.Close()
	s.snapshots.Wait()
	clean, closed := s.logs.Close(true)
	err = errors.Join(err, s.admin.Close(), s.node.Close(), closed, s.markClean(clean, epoch))
	if err == nil {
		s.log.Info("stopped cleanly")
	}
	return err
}

// markClean writes the clean-shutdown marker of every folder whose logs were
// closed whole, as the very last thing, and gives the folders back.
func (s *Server) markClean(clean []*logdir.Dir, brokerEpoch int64) error {
	var errs []error
	for _, d := range s.dirs.Dirs {
		if slices.Contains(clean, d) {
			errs = append(errs, d.CloseClean(brokerEpoch))
		} else {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

// abandon releases what a failed start or a fatal error leaves; nothing is
// marked clean, so the next start recovers.
func (s *Server) abandon() {
	if s.clients != nil {
		s.clients.Close()
	}
	if s.controller != nil {
		s.controller.Close()
	}
	if s.admin != nil {
		s.admin.Close()
	} else if s.adminListener != nil {
		s.adminListener.Close()
	}
	if s.dirs != nil {
		for _, d := range s.dirs.Dirs {
			d.Close()
		}
	}
}

// awaitOrDie waits for a step of the start that depends on others.
func (s *Server) awaitOrDie(ctx context.Context, what string, done <-chan struct{}) error {
	timeout := time.NewTimer(time.Duration(s.cfg.Lifecycle.RegistrationTimeoutMs) * time.Millisecond)
	defer timeout.Stop()
	select {
	case <-done:
		return nil
	case err := <-s.fatal:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return fmt.Errorf("%s took longer than initial.broker.registration.timeout.ms (%d ms)", what, s.cfg.Lifecycle.RegistrationTimeoutMs)
	}
}
