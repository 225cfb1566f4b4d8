package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-io/tidemark/internal/metadata/controller"
	"github.com/tidemark-io/tidemark/internal/metadata/loader"
	"github.com/tidemark-io/tidemark/internal/network"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/quorumcontroller"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/types"
)

// openFolders locks the data folders and formats those of a first start.
func (s *Server) openFolders(context.Context) error {
	set, err := logdir.OpenAll(logdir.Options{
		FS: s.fs, Paths: s.folders(), NodeID: s.cfg.NodeID, Format: true, Random: rand.Reader, Now: time.Now(),
		OnOffline: s.folderFailed,
		OnReport:  func(path string, what error) { s.log.Warn("repaired", "path", path, "what", what) },
	})
	if err != nil {
		return err
	}
	s.dirs = set
	for path, err := range set.Failed {
		s.log.Error("a data folder cannot be used; its partitions are offline", "path", path, "error", err)
	}
	if s.metadataDir() == nil {
		return fmt.Errorf("the metadata folder %s is not usable: %w", s.cfg.MetadataDir, set.Failed[s.cfg.MetadataDir])
	}
	return nil
}

// folders are log.dirs, and the metadata folder where it is another one.
func (s *Server) folders() []string {
	for _, d := range s.cfg.DataDirs {
		if filepath.Clean(d) == filepath.Clean(s.cfg.MetadataDir) {
			return s.cfg.DataDirs
		}
	}
	return append(append([]string{}, s.cfg.DataDirs...), s.cfg.MetadataDir)
}

func (s *Server) metadataDir() *logdir.Dir {
	for _, d := range s.dirs.Dirs {
		if filepath.Clean(d.Path) == filepath.Clean(s.cfg.MetadataDir) {
			return d
		}
	}
	return nil
}

// openListeners binds every port, so that a taken one fails the start at once
// before a folder is touched, and port 0 is known before this node tells others
// where it listens.
func (s *Server) openListeners(context.Context) error {
	s.metrics = telemetry.New(s.opts.Version)
	var err error
	if s.clients, err = s.newNetwork(s.cfg.Listeners, &s.brokerAPIs, false); err != nil {
		return err
	}
	if s.controller, err = s.newNetwork(s.cfg.ControllerListeners, &s.controllerAPIs, true); err != nil {
		return err
	}
	if err := s.clients.Listen(); err != nil {
		return err
	}
	if err := s.controller.Listen(); err != nil {
		return err
	}
	if s.cfg.AdminListener == "" {
		return nil
	}
	s.adminListener, err = telemetry.ListenAdmin(s.cfg.AdminListener)
	return err
}

func (s *Server) newNetwork(endpoints []types.Endpoint, h network.Handler, protected bool) (*network.Server, error) {
	n := s.cfg.Network
	o := network.Options{
		Limits: network.Limits{
			MaxConnections: unlimited(n.MaxConnections), MaxConnectionsPerIP: unlimited(n.MaxConnectionsPerIP),
			PerIPOverrides: s.perIPOverrides(),
		},
		MaxRequestBytes:    n.SocketRequestMaxBytes,
		RequestMemoryBytes: max(0, n.QueuedMaxRequestBytes),
		MaxIdle:            time.Duration(n.ConnectionsMaxIdleMs) * time.Millisecond,
		SendBufferBytes:    n.SocketSendBufferBytes, ReceiveBufferBytes: n.SocketReceiveBufferBytes,
		Observer: s.metrics.Network(), Logger: s.log,
	}
	for _, e := range endpoints {
		l := network.Listener{Name: e.Listener, Addr: net.JoinHostPort(e.Host, fmt.Sprint(e.Port)), Protected: protected}
		if t := s.tls[e.Listener]; t != nil {
			l.TLS = t.config()
		}
		o.Listeners = append(o.Listeners, l)
	}
	return network.NewServer(o, h)
}

// unlimited turns Kafka's "2^31-1 connections" into the network's 0.
func unlimited(n int) int {
	if n >= 1<<31-1 {
		return 0
	}
	return n
}

func (s *Server) perIPOverrides() map[netip.Addr]int {
	out := map[netip.Addr]int{}
	for host, limit := range s.cfg.Network.MaxConnectionsPerIPOverrides {
		addrs, err := net.LookupHost(host)
		if err != nil {
			s.log.Warn("max.connections.per.ip.overrides names a host that does not resolve; it is ignored", "host", host, "error", err)
			continue
		}
		for _, a := range addrs {
			if ip, err := netip.ParseAddr(a); err == nil {
				out[ip.Unmap()] = limit
			}
		}
	}
	return out
}

// boundEndpoints are listeners as others should dial them: the advertised host,
// and the real port where 0 was asked for.
func boundEndpoints(advertised, bind []types.Endpoint, srv *network.Server) []types.Endpoint {
	out := make([]types.Endpoint, 0, len(advertised))
	for _, e := range advertised {
		if e.Port == 0 {
			if a, ok := srv.Addr(e.Listener).(*net.TCPAddr); ok {
				e.Port = int32(a.Port)
			}
		}
		if e.Host == "" || e.Host == "0.0.0.0" || e.Host == "::" {
			e.Host = hostFor(e.Listener, bind)
		}
		out = append(out, e)
	}
	return out
}

// hostFor is the host to tell others for a listener: what it is bound to, or
// this machine's name when it is bound to every interface.
func hostFor(listener string, bind []types.Endpoint) string {
	for _, b := range bind {
		if b.Listener == listener && b.Host != "" && b.Host != "0.0.0.0" && b.Host != "::" {
			return b.Host
		}
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "localhost"
}

func (s *Server) brokerEndpoints() []types.Endpoint {
	return boundEndpoints(s.cfg.Advertised, s.cfg.Listeners, s.clients)
}

func (s *Server) controllerEndpoints() []types.Endpoint {
	return boundEndpoints(s.cfg.ControllerAdvertised, s.cfg.ControllerListeners, s.controller)
}

// openQuorum formats the metadata log of a first start and opens it.
func (s *Server) openQuorum(context.Context) error {
	dir := s.metadataDir()
	voter := quorum.Voter{NodeID: s.cfg.NodeID, DirectoryID: dir.ID, Endpoints: s.controllerEndpoints()}
	err := quorum.Format(s.fs, dir.Path, quorum.FormatOptions{
		Voters:    []quorum.Voter{voter},
		Bootstrap: controller.BootstrapSnapshotRecords(controller.BootstrapInput{MinISR: s.cfg.Log.Defaults.MinInsyncReplicas}),
		NowMs:     time.Now().UnixMilli(),
	})
	if err != nil {
		return err
	}
	m := s.cfg.Metadata
	s.node, err = quorum.Open(quorum.Options{
		FS: s.fs, Dir: dir.Path, NodeID: s.cfg.NodeID, DirectoryID: dir.ID, ClusterID: s.dirs.ClusterID,
		Endpoints: s.controllerEndpoints(), ElectionTimeoutMs: int(s.cfg.Quorum.ElectionTimeoutMs),
		SegmentBytes: int64(m.SegmentBytes), SegmentMs: m.SegmentMs, RetentionBytes: m.RetentionBytes, RetentionMs: m.RetentionMs,
		OnFatal: s.die, OnSync: s.metrics.Storage().MetadataSync, Logger: s.log,
	})
	if err != nil {
		return err
	}
	bootstrap, err := quorum.ReadBootstrap(s.fs, dir.Path)
	if err != nil {
		return err
	}
	s.loader = loader.New(loader.Options{Logger: s.log, OnError: s.die})
	s.shell = quorumcontroller.New(quorumcontroller.Options{
		Log: s.node, AwaitImage: s.loader.AwaitApplied, Core: s.coreOptions(), Bootstrap: bootstrap,
		MaxIdleIntervalMs: m.MaxIdleIntervalMs, NowMs: monotonicMs(), OnFatal: s.die, Logger: s.log,
	})
	return nil
}

func (s *Server) coreOptions() controller.Options {
	return controller.Options{
		NodeID: s.cfg.NodeID, ClusterID: s.dirs.ClusterID, SessionTimeoutMs: s.cfg.Lifecycle.SessionTimeoutMs,
		DefaultReplicationFactor: int16(s.cfg.Topics.DefaultReplicationFactor), DefaultNumPartitions: int32(s.cfg.Topics.NumPartitions),
		Configs: configSchema{static: s.cfg.Static},
	}
}

// monotonicMs returns a clock that no adjustment of the wall clock moves:
// sessions and timeouts depend on it.
func monotonicMs() func() int64 {
	start := time.Now()
	return func() int64 { return time.Since(start).Milliseconds() }
}
