package server

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/coordinator/group/consumer"
	"github.com/tidemark-io/tidemark/internal/coordinator/groupservice"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/types"
)

// newOffsets starts the group coordinator.
func (s *Server) newOffsets() *groupservice.Service {
	o, c := s.cfg.Offsets, s.cfg.Groups.Classic
	return groupservice.New(groupservice.Options{
		Log: s.replicas, Group: s.groupConfig(), ExpireEveryMs: o.RetentionCheckIntervalMs, LingerMs: int(o.AppendLingerMs),
		CommitTimeout: time.Duration(o.CommitTimeoutMs) * time.Millisecond, Logger: s.log,
		MinSessionMs: c.MinSessionTimeoutMs, MaxSessionMs: c.MaxSessionTimeoutMs,
		GroupConfig:         s.configOfGroup,
		ConsumerProtocolOff: !s.cfg.Groups.Consumer.Enabled,
		Partitions: func() int {
			if t, ok := s.loader.Image().Topics.ByName(types.ConsumerOffsetsTopic); ok {
				return len(t.Partitions)
			}
			return 0
		},
	})
}

// groupConfig turns the broker's settings into those of the coordinator's core.
func (s *Server) groupConfig() group.Config {
	g := group.DefaultConfig()
	g.MetadataMaxChars, g.OffsetsRetentionMs = s.cfg.Offsets.MetadataMaxBytes, s.cfg.Offsets.RetentionMs
	g.Classic.MaxSize = s.cfg.Groups.Classic.MaxSize
	g.Classic.InitialRebalanceDelayMs = s.cfg.Groups.Classic.InitialRebalanceDelayMs
	c := s.cfg.Groups.Consumer
	g.Consumer.MaxSize, g.Consumer.RegexRefreshMs = c.MaxSize, c.RegexRefreshMs
	if known := s.knownAssignors(c.Assignors); len(known) > 0 {
		g.Consumer.Assignors = known
	}
	g.Migration = group.MigrationOf(c.MigrationPolicy)
	g.NewPartitionsEarliest = s.cfg.Groups.NewPartitionsEarliest
	return g
}

// knownAssignors leaves out what names Java code, which cannot run here.
func (s *Server) knownAssignors(names []string) []string {
	var out []string
	for _, n := range names {
		if _, ok := assignor.ByName(n); ok {
			out = append(out, n)
		} else {
			s.log.Warn("group.consumer.assignors names an assignor that this server does not have; it is left out", "assignor", n)
		}
	}
	return out
}

// configOfGroup resolves the settings of one group on this node.
func (s *Server) configOfGroup(im *image.Image, id string) consumer.GroupConfig {
	r := config.Effective(config.ScopeGroup,
		config.Layer{Source: config.SourceGroup, Values: im.Configs.Get(image.ResourceGroup, id)},
		config.Layer{Source: config.SourceDynamicBroker, Values: im.Configs.Get(image.ResourceBroker, strconv.Itoa(int(s.cfg.NodeID)))},
		config.Layer{Source: config.SourceDynamicDefaultBroker, Values: im.Configs.Get(image.ResourceBroker, "")},
		s.cfg.Static,
	)
	return consumer.GroupConfig{
		SessionMs: r.Long("consumer.session.timeout.ms"), HeartbeatMs: r.Long("consumer.heartbeat.interval.ms"),
		AssignmentIntervalMs: r.Long("consumer.assignment.interval.ms"),
	}
}

// groupSamples are the groups that this node coordinates.
func (s *Server) groupSamples() iter.Seq[telemetry.GroupSample] {
	return func(yield func(telemetry.GroupSample) bool) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		for _, g := range s.offsets.Samples(ctx) {
			sample := telemetry.GroupSample{
				Group: g.Group, Type: g.Type, State: g.State, Epoch: g.Epoch, Members: g.Members, Rebalances: g.Rebalances,
				RebalanceSeconds: seconds(g.RebalanceMs), StoppedSeconds: seconds(g.StoppedMs),
				StaticMemberWaitedSec: seconds(g.StaticWaitMs), StoppedPartitions: g.Stopped,
			}
			if !yield(sample) {
				return
			}
		}
	}
}

// scrapeTimeout bounds how long a scrape waits for the groups' shards.
const scrapeTimeout = 5 * time.Second

func seconds(ms int64) float64 { return float64(ms) / 1000 }
