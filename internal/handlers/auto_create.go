package handlers

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// autoCreateWait bounds how long a request waits for a topic it caused to be
// made. Kafka answers UNKNOWN_TOPIC_OR_PARTITION at once and lets the client ask
// again; waiting a moment spares every new topic that round of backoff.
const autoCreateWait = time.Second

// maxCreations bounds the automatic creations under way at once.
const maxCreations = 100

// topicCreations joins callers that want the same topic made.
type topicCreations struct {
	mu       sync.Mutex
	inFlight map[string]chan struct{} // closed when the attempt is over
}

// createMissing makes the topics that a Metadata request names and that do not
// exist, where request and broker allow it, and waits a moment for them.
func (b *Broker) createMissing(ctx context.Context, version int16, req *kmsg.MetadataRequest) {
	if !b.d.Config.Topics.AutoCreate || version >= 4 && !req.AllowAutoTopicCreation {
		return
	}
	im := b.d.Image()
	var missing []string
	for _, t := range req.Topics {
		if t.Topic == nil || !types.ValidTopicName(*t.Topic) || *t.Topic == types.ClusterMetadataTopic {
			continue
		}
		if _, ok := im.Topics.ByName(*t.Topic); !ok {
			missing = append(missing, *t.Topic)
		}
	}
	b.ensureTopics(ctx, missing)
}

// ensureTopics asks the controller to make topics and waits until they are
// visible here, for a bounded time. Several callers share one attempt.
func (b *Broker) ensureTopics(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, autoCreateWait)
	defer cancel()
	for _, name := range names {
		done := b.startCreation(name)
		if done == nil {
			return
		}
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// startCreation returns a channel that closes when the attempt to make a topic
// is over; nil when too many are under way.
func (b *Broker) startCreation(name string) <-chan struct{} {
	b.topics.mu.Lock()
	defer b.topics.mu.Unlock()
	if done, ok := b.topics.inFlight[name]; ok {
		return done
	}
	if len(b.topics.inFlight) >= maxCreations {
		return nil
	}
	done := make(chan struct{})
	b.topics.inFlight[name] = done
	go func() {
		defer func() {
			b.topics.mu.Lock()
			delete(b.topics.inFlight, name)
			b.topics.mu.Unlock()
			close(done)
		}()
		b.createTopic(name)
	}()
	return done
}

// createTopic sends one CreateTopics for one topic; internal topics get their
// own settings (DefaultAutoTopicCreationManager in Apache Kafka 4.3).
func (b *Broker) createTopic(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	if name == types.ConsumerOffsetsTopic {
		t.NumPartitions = int32(b.d.Config.Offsets.TopicPartitions)
		t.ReplicationFactor = int16(b.d.Config.Offsets.TopicReplicationFactor)
		for _, kv := range [][2]string{
			{"compression.type", "producer"},
			{"cleanup.policy", "compact"},
			{"segment.bytes", strconv.Itoa(b.d.Config.Offsets.TopicSegmentBytes)},
		} {
			cfg := kmsg.NewCreateTopicsRequestTopicConfig()
			cfg.Name, cfg.Value = kv[0], ptr(kv[1])
			t.Configs = append(t.Configs, cfg)
		}
	}
	req.Topics = append(req.Topics, t)
	resp, err := b.d.Controller.Send(ctx, req)
	if err != nil {
		b.d.Logger.Warn("a topic could not be created on demand", "topic", name, "error", err)
		return
	}
	for _, rt := range resp.(*kmsg.CreateTopicsResponse).Topics {
		c := kerrors.Code(rt.ErrorCode)
		if c != kerrors.None && c != kerrors.TopicAlreadyExists {
			b.d.Logger.Warn("a topic could not be created on demand", "topic", name, "error", c.Name(), "reason", deref(rt.ErrorMessage))
			return
		}
	}
	b.awaitTopic(ctx, name)
}

// awaitTopic waits until the newest image here has the topic.
func (b *Broker) awaitTopic(ctx context.Context, name string) {
	for ctx.Err() == nil {
		im := b.d.Image()
		if _, ok := im.Topics.ByName(name); ok {
			return
		}
		if b.d.AwaitMetadata(ctx, im.Offset+1) != nil {
			return
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
