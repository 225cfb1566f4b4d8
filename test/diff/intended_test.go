package diff

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/config"
)

// tidy takes out of an answer what belongs to other runs or to the set-up.
func (s *side) tidy(req kmsg.Request, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		if all := req.(*kmsg.MetadataRequest); len(all.Topics) == 0 {
			r.Topics = keep(r.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.Topic != nil && strings.HasPrefix(*t.Topic, s.run) })
		}
	case *kmsg.ListConfigResourcesResponse:
		r.ConfigResources = keep(r.ConfigResources, func(c kmsg.ListConfigResourcesResponseConfigResource) bool {
			return c.Type != 2 && c.Type != 32 || strings.HasPrefix(c.Name, s.run)
		})
	case *kmsg.DescribeTopicPartitionsResponse:
		if all := req.(*kmsg.DescribeTopicPartitionsRequest); len(all.Topics) == 0 {
			r.Topics, r.NextCursor = nil, nil // topics of other runs come first
		}
	case *kmsg.FetchResponse: // topics that come in pieces come in as many as the order of errors makes
		var out []kmsg.FetchResponseTopic
		for _, t := range r.Topics {
			i := slices.IndexFunc(out, func(o kmsg.FetchResponseTopic) bool { return o.Topic == t.Topic && o.TopicID == t.TopicID })
			if i < 0 {
				out = append(out, t)
			} else {
				out[i].Partitions = append(out[i].Partitions, t.Partitions...)
			}
		}
		r.Topics = out
	case *kmsg.DescribeLogDirsResponse:
		for i := range r.Dirs {
			r.Dirs[i].Topics = keep(r.Dirs[i].Topics, func(t kmsg.DescribeLogDirsResponseDirTopic) bool { return strings.HasPrefix(t.Topic, s.run) })
		}
	case *kmsg.ElectLeadersResponse:
		r.Topics = keep(r.Topics, func(t kmsg.ElectLeadersResponseTopic) bool {
			all := req.(*kmsg.ElectLeadersRequest).Topics == nil
			return !all || strings.HasPrefix(t.Topic, s.run)
		})
	case *kmsg.DescribeQuorumResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				p.HighWatermark, p.LeaderEpoch = 0, 0
				for k := range p.CurrentVoters {
					v := &p.CurrentVoters[k]
					v.LogEndOffset, v.LastFetchTimestamp, v.LastCaughtUpTimestamp, v.ReplicaDirectoryID = 0, 0, 0, [16]byte{}
				}
			}
		}
	case *kmsg.DescribeConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].Configs = keep(r.Resources[i].Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return ownSetting(c.Name) })
		}
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			r.Topics[i].Configs = keep(r.Topics[i].Configs, func(c kmsg.CreateTopicsResponseTopicConfig) bool { return ownSetting(c.Name) })
		}
	}
}

// ownSetting leaves out the settings of which the two set-ups differ, and those
// that only Tidemark has.
func ownSetting(name string) bool {
	switch name {
	case "default.replication.factor", "inter.broker.listener.name", "listeners", "advertised.listeners", "log.dir", "log.dirs", "metadata.log.dir", "controller.quorum.bootstrap.servers", "controller.quorum.voters",
		"listener.security.protocol.map", "controller.listener.names", "process.roles":
		return false
	}
	for _, scope := range []config.Scope{config.ScopeBroker, config.ScopeTopic} {
		if k, ok := config.Lookup(scope, name); ok && k.Ours {
			return false
		}
	}
	return true
}

func keep[T any](in []T, ok func(T) bool) []T {
	if in == nil {
		return nil
	}
	out := make([]T, 0, len(in))
	for _, v := range in {
		if ok(v) {
			out = append(out, v)
		}
	}
	return out
}

// intended are the differences that ARCHITECTURE.md or docs/formats explain.
var intended = []struct {
	why   string
	match func(req kmsg.Request, tidemark, kafka string) bool
}{
	{"transactions are not served yet, so their coordinator is not found", func(req kmsg.Request, ours, _ string) bool {
		f, ok := req.(*kmsg.FindCoordinatorRequest)
		return ok && f.CoordinatorType == 1 && strings.Contains(ours, "ErrorCode=35")
	}},
	{"a batch whose length is impossible is refused alone; Kafka refuses the whole request", func(req kmsg.Request, _, kafka string) bool {
		p, ok := req.(*kmsg.ProduceRequest)
		return ok && strings.Contains(kafka, "ErrorCode=2") && len(p.Topics) == 1
	}},
	{"an election of an unknown type is refused, also of no partition", func(req kmsg.Request, ours, _ string) bool {
		e, ok := req.(*kmsg.ElectLeadersRequest)
		return ok && len(e.Topics) == 0 && (e.ElectionType > 1 || e.ElectionType < 0) && strings.Contains(ours, "ErrorCode=42")
	}},
	{"where Kafka says UNKNOWN_SERVER_ERROR, we say what is wrong", func(_ kmsg.Request, _, kafka string) bool {
		unknown := false
		for line := range strings.Lines(kafka) {
			if line = strings.TrimSpace(line); strings.HasSuffix(line, "ErrorCode=-1") {
				unknown = true
			} else if strings.Contains(line, "ErrorCode=") {
				return false
			}
		}
		return unknown
	}},
}
