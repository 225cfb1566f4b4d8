package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	rand2 "math/rand/v2"
	"net"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/fetchsession"
	"github.com/tidemark-io/tidemark/internal/handlers"
	"github.com/tidemark-io/tidemark/internal/lifecycle"
	"github.com/tidemark-io/tidemark/internal/metadata/controller"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/metadata/loader"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/storage/commit"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
)

// openLogs recovers the partitions' logs.
func (s *Server) openLogs(context.Context) error {
	s.channel = lifecycle.NewChannel(lifecycle.ChannelOptions{
		ClientID: fmt.Sprintf("broker-%d", s.cfg.NodeID), RequestTimeoutMs: int(s.cfg.Lifecycle.ControllerSocketTimeoutMs), Logger: s.log,
	})
	s.replicas = replica.New(replica.Options{
		NodeID: s.cfg.NodeID, Dirs: s.dataDirs(), FailedDirs: slices.Sorted(maps.Keys(s.dirs.Failed)), TopicConfig: s.topicConfig,
		LagTimeMaxMs: s.cfg.Replica.LagTimeMaxMs, CheckpointMs: s.cfg.Replica.HighWatermarkCheckpointIntervalMs,
		Controller: &isrSender{s: s}, Logger: s.log, OnPanic: s.contained("purgatory"),
		OnDirFailed: func(id types.UUID, _ error) {
			if s.broker != nil {
				s.broker.DirOffline(id)
			}
		},
	})
	var err error
	c := s.cfg.Log
	s.logs, err = log.OpenManager(log.ManagerOptions{
		FS: s.fs, Dirs: s.dataDirs(), RecoveryThreadsPerDir: c.RecoveryThreadsPerDataDir,
		TopicConfig:      func(string) config.TopicConfig { return c.Defaults }, // until the first metadata says more
		RetentionCheckMs: c.RetentionCheckIntervalMs, ProducerExpirationMs: c.ProducerIDExpirationMs,
		FileDeleteDelayMs: explicitly(c.Defaults.FileDeleteDelayMs), Commit: commit.Options{Observer: s.metrics.Storage()},
		OnDurable: s.replicas.OnDurable, OnDirOffline: s.replicas.OnDirOffline, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.replicas.Start(s.logs)
	s.offsets = s.newOffsets()
	s.replicas.SetLeadership(s.offsets)
	return nil
}

// explicitly keeps a delay of 0 from being taken for one that is not given.
func explicitly(delayMs int64) int64 {
	if delayMs == 0 {
		return -1
	}
	return delayMs
}

// contained counts and reports a panic that did not end the process.
func (s *Server) contained(where string) func(any) {
	return func(recovered any) {
		s.metrics.Panicked(where)
		s.log.Error("a panic was contained; this is a bug", "where", where, "panic", recovered, "stack", string(debug.Stack()))
	}
}

// dataDirs are the folders that hold partitions; one that failed to open is
// not among them.
func (s *Server) dataDirs() []*logdir.Dir {
	var out []*logdir.Dir
	for _, d := range s.dirs.Dirs {
		if slices.ContainsFunc(s.cfg.DataDirs, func(p string) bool { return filepath.Clean(p) == filepath.Clean(d.Path) }) {
			out = append(out, d)
		}
	}
	return out
}

// folderFailed is told of a data folder that failed while running.
func (s *Server) folderFailed(d *logdir.Dir, reason error) {
	s.log.Error("a data folder went offline: its partitions answer KAFKA_STORAGE_ERROR; replace the disk and restart", "path", d.Path, "error", reason)
	if d == s.metadataDir() {
		s.die(fmt.Errorf("the metadata folder %s failed: %w", d.Path, reason))
	}
}

// topicConfig resolves a topic's configuration on this node.
func (s *Server) topicConfig(im *image.Image, topic string) config.TopicConfig {
	return config.ToTopicConfig(config.Effective(config.ScopeTopic,
		config.Layer{Source: config.SourceTopic, Values: im.Configs.Get(image.ResourceTopic, topic)},
		config.Layer{Source: config.SourceDynamicBroker, Values: im.Configs.Get(image.ResourceBroker, strconv.Itoa(int(s.cfg.NodeID)))},
		config.Layer{Source: config.SourceDynamicDefaultBroker, Values: im.Configs.Get(image.ResourceBroker, "")},
		s.cfg.Static,
	))
}

// followMetadata starts the quorum and everything that follows its log.
func (s *Server) followMetadata(context.Context) error {
	s.snapshots = loader.NewSnapshotGenerator(loader.GeneratorOptions{
		Log: s.node, MaxBytes: s.cfg.Metadata.MaxRecordBytesBetweenSnapshots,
		MaxIntervalMs: s.cfg.Metadata.MaxSnapshotIntervalMs, Logger: s.log,
	})
	s.loader.Start(
		&controllerFinder{s: s},
		publisher{"replicas", func(d *image.Delta, im *image.Image) { s.replicas.ApplyDelta(d, im) }},
		publisher{"notices", s.warnAboutCompaction},
		publisher{"keys", s.followKeys},
		publisher{"metrics", func(d *image.Delta, _ *image.Image) {
			for t := range d.DeletedTopics() {
				s.metrics.Topics().Forget(t.Name)
			}
		}},
		publisher{"groups", s.offsets.OnMetadata},
		s.snapshots,
	)
	s.shell.Start()
	s.node.Start(s.loader, s.shell)
	return nil
}

// publisher adapts a function.
type publisher struct {
	name string
	run  func(*image.Delta, *image.Image)
}

func (p publisher) Name() string                                                  { return p.name }
func (p publisher) OnMetadata(d *image.Delta, im *image.Image, _ loader.Manifest) { p.run(d, im) }

// controllerFinder points the channel at the active controller.
type controllerFinder struct{ s *Server }

func (f *controllerFinder) Name() string { return "controller finder" }

func (f *controllerFinder) OnMetadata(*image.Delta, *image.Image, loader.Manifest) {}

// OnLeadership implements loader.LeaderPublisher: leadership may change, or
// become known after a restart, without any new metadata.
func (f *controllerFinder) OnLeadership(l quorum.Leadership) {
	f.s.channel.SetController(f.s.controllerAddr(l))
}

// controllerAddr is where the leader of the quorum listens, "" when unknown.
func (s *Server) controllerAddr(l quorum.Leadership) string {
	if l.LeaderID < 0 {
		return ""
	}
	if l.LeaderID == s.cfg.NodeID {
		for _, e := range s.cfg.ControllerListeners {
			return s.controller.Addr(e.Listener).String()
		}
	}
	for _, v := range s.node.Status().Voters {
		if v.NodeID == l.LeaderID && len(v.Endpoints) > 0 {
			return net.JoinHostPort(v.Endpoints[0].Host, strconv.Itoa(int(v.Endpoints[0].Port)))
		}
	}
	return ""
}

func (s *Server) serveController(context.Context) error {
	s.controllerAPIs.Handler = handlers.NewController(s.controllerDeps())
	s.controller.Serve()
	return nil
}

// register makes this broker known to the controller and waits until it may serve.
func (s *Server) register(ctx context.Context) error {
	incarnation, err := types.NewUUID(rand.Reader)
	if err != nil {
		return err
	}
	var dirs []types.UUID
	for _, d := range s.dataDirs() {
		dirs = append(dirs, d.ID)
	}
	var features []lifecycle.FeatureRange
	for name, r := range controller.SupportedFeatures() {
		features = append(features, lifecycle.FeatureRange{Name: name, Min: r.Min, Max: r.Max})
	}
	s.broker = lifecycle.NewBroker(lifecycle.BrokerOptions{
		Channel: s.channel, ClusterID: s.dirs.ClusterID, NodeID: s.cfg.NodeID, IncarnationID: incarnation,
		Endpoints: s.brokerEndpoints(), Rack: s.cfg.Rack, LogDirs: dirs, Features: features,
		PreviousBrokerEpoch: s.dirs.PreviousBrokerEpoch(), HeartbeatIntervalMs: int(s.cfg.Lifecycle.HeartbeatIntervalMs),
		MetadataOffset: func() int64 { return s.loader.Image().Offset }, AwaitMetadata: s.loader.AwaitOffset, Logger: s.log,
	})
	s.producers = lifecycle.NewProducerIDs(s.channel, s.cfg.NodeID, s.broker.Epoch)
	s.registerController(incarnation, features)
	s.broker.Start()
	if err := s.awaitOrDie(ctx, "registration with the controller", s.broker.Registered()); err != nil {
		return err
	}
	// With its own registration the image holds everything that happened while
	// this broker was away, so logs of topics that are gone can be told.
	if err := s.loader.AwaitOffset(ctx, s.broker.Epoch()); err != nil {
		return err
	}
	s.replicas.SetStraysAside()
	s.broker.ReadyToUnfence()
	return s.awaitOrDie(ctx, "unfencing by the controller", s.broker.Unfenced())
}

// registerController makes this node's controller known beside the start of the
// broker: nothing waits for it, and it tries again until the process ends.
func (s *Server) registerController(incarnation types.UUID, features []lifecycle.FeatureRange) {
	var ctx context.Context
	ctx, s.stopRegistration = context.WithCancel(context.Background())
	go func() {
		_ = lifecycle.RegisterController(ctx, lifecycle.ControllerOptions{
			Channel: s.channel, NodeID: s.cfg.NodeID, IncarnationID: incarnation, Endpoints: s.controllerEndpoints(), Features: features, Logger: s.log,
		})
	}()
}

func (s *Server) serveClients(ctx context.Context) error {
	// The image that unfenced this broker is published before clients look at it.
	if err := s.awaitOrDie(ctx, "the first metadata", s.unfencedHere(ctx)); err != nil {
		return err
	}
	s.brokerAPIs.Handler = handlers.NewBroker(s.brokerDeps())
	s.clients.Serve()
	return nil
}

// unfencedHere is closed when this node's own image shows the broker unfenced.
func (s *Server) unfencedHere(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			im := s.loader.Image()
			if br, ok := im.Cluster.Broker(s.cfg.NodeID); ok && !br.Fenced {
				close(done)
				return
			}
			if s.loader.AwaitOffset(ctx, im.Offset+1) != nil {
				return
			}
		}
	}()
	return done
}

func (s *Server) brokerDeps() handlers.BrokerDeps {
	return handlers.BrokerDeps{
		NodeID: s.cfg.NodeID, ClusterID: s.dirs.ClusterID, Config: s.cfg,
		Image:         func() *image.Image { return s.loader.Image() },
		Replicas:      s.replicas,
		Sessions:      fetchsession.NewCache(fetchsession.Options{MaxSessions: s.cfg.Network.FetchSessionCacheSlots, Random: rand2.Uint32}),
		Controller:    s.channel,
		ProducerIDs:   s.producers,
		Offsets:       s.offsets,
		Groups:        s.offsets,
		NowMs:         func() int64 { return time.Now().UnixMilli() },
		AwaitMetadata: func(ctx context.Context, offset int64) error { return s.loader.AwaitOffset(ctx, offset) },
		KRaftVersion:  s.kraftVersion,
		Topics:        s.metrics.Topics(),
		Logger:        s.log,
	}
}

func (s *Server) controllerDeps() handlers.ControllerDeps {
	return handlers.ControllerDeps{
		NodeID: s.cfg.NodeID, ClusterID: s.dirs.ClusterID, Config: s.cfg,
		Image: func() *image.Image { return s.loader.Image() },
		Shell: s.shell, Quorum: s.node, KRaftVersion: s.kraftVersion, Logger: s.log,
	}
}

// kraftVersion is 1 when the voters carry directory ids (KIP-853).
func (s *Server) kraftVersion() int16 {
	for _, v := range s.node.Status().Voters {
		if !v.DirectoryID.IsZero() {
			return 1
		}
	}
	return 0
}
