package server

import (
	"iter"
	"net"
	"strconv"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/telemetry"
	"github.com/tidemark-io/tidemark/internal/types"
)

// collectMetrics registers what is read when somebody scrapes, and only then:
// partitions, budgets and the metadata log cost nothing in between.
func (s *Server) collectMetrics() {
	s.metrics.CollectSockets("broker", s.clients.Stats)
	s.metrics.CollectSockets("controller", s.controller.Stats)
	for name, l := range s.tls {
		s.metrics.CollectTLS(name, l.sample)
	}
	for kind, waiting := range s.replicas.Waiting() {
		s.metrics.CollectPurgatory(kind, waiting)
	}
	s.metrics.CollectMetadata(s.metadataSample)
	s.metrics.CollectCluster(s.brokerSamples)
	s.metrics.CollectPartitions(s.partitionSamples)
	s.metrics.CollectGroups(s.groupSamples)
}

func (s *Server) metadataSample() telemetry.MetadataSample {
	st := s.node.Status()
	return telemetry.MetadataSample{
		AppliedOffset: s.loader.Image().Offset, HighWatermark: st.HighWatermark, LogEndOffset: st.LogEndOffset,
		Epoch: st.LeaderEpoch, LeaderID: st.LeaderID, Active: st.IsLeader,
	}
}

func (s *Server) brokerSamples() []telemetry.BrokerSample {
	var out []telemetry.BrokerSample
	for br := range s.loader.Image().Cluster.All() {
		b := telemetry.BrokerSample{ID: br.ID, Fenced: br.Fenced}
		if len(br.Endpoints) > 0 {
			b.Address = net.JoinHostPort(br.Endpoints[0].Host, strconv.Itoa(int(br.Endpoints[0].Port)))
		}
		if br.Rack != nil {
			b.Rack = *br.Rack
		}
		out = append(out, b)
	}
	return out
}

func (s *Server) partitionSamples() iter.Seq[telemetry.PartitionSample] {
	return func(yield func(telemetry.PartitionSample) bool) {
		for t := range s.loader.Image().Topics.All() {
			for i, p := range t.Partitions {
				if !yield(s.partitionSample(types.TopicPartition{Topic: t.Name, Partition: int32(i)}, p)) {
					return
				}
			}
		}
	}
}

func (s *Server) partitionSample(tp types.TopicPartition, p *image.Partition) telemetry.PartitionSample {
	out := telemetry.PartitionSample{Topic: tp.Topic, Partition: tp.Partition, Leader: p.Leader, Replicas: p.Replicas, InSync: len(p.ISR)}
	l, ok := s.logs.Get(tp)
	if !ok {
		return out
	}
	out.HasLog = true
	out.LogStartOffset, out.HighWatermark, out.LastStableOffset = l.LogStartOffset(), l.HighWatermark(), l.LastStableOffset()
	out.LogEndOffset, out.DurableEndOffset, out.SizeBytes = l.LogEndOffset(), l.DurableEndOffset(), l.SizeBytes()
	out.NotDurableBytes = l.AckedNotDurableBytes()
	return out
}
