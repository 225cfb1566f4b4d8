package logbounds

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/types"
)

// requestTimeoutMs is how long a broker may take over one listing.
const requestTimeoutMs = 15_000

// Timestamps and isolation levels of ListOffsets (KIP-79, KIP-98).
const (
	earliest        = -2
	latest          = -1
	readUncommitted = 0
	readCommitted   = 1
)

// Client is what is needed of a *kgo.Client.
type Client interface {
	RequestCachedMetadata(ctx context.Context, req *kmsg.MetadataRequest, limit time.Duration) (*kmsg.MetadataResponse, error)
	RequestSharded(ctx context.Context, req kmsg.Request) []kgo.ResponseShard
}

// Topic is what the cluster says about a topic.
type Topic struct {
	ID         types.UUID
	Partitions []int32
	Err        error
}

// Bounds of the logs of some topics. An error of a whole topic stands at its
// partition -1, as in kadm.
type Bounds struct {
	Topics        map[string]Topic
	LogStart      kadm.ListedOffsets
	HighWatermark kadm.ListedOffsets
	LastStable    kadm.ListedOffsets
}

// Read reads the bounds of topics. The error is about all of them, and then none
// is known; what failed for a topic or a partition is beside it.
func Read(ctx context.Context, cl Client, topics ...string) (*Bounds, error) {
	found, err := describe(ctx, cl, topics)
	if err != nil {
		return &Bounds{}, err
	}
	b := &Bounds{Topics: found}
	b.LogStart = list(ctx, cl, found, earliest, readUncommitted)
	// No request tells both ends. The high watermark comes first, and where the last
	// stable offset has passed it since, the high watermark is there too by now:
	// read the other way round, or as they come, a busy topic without transactions
	// shows one that is open.
	b.HighWatermark = list(ctx, cl, found, latest, readUncommitted)
	b.LastStable = list(ctx, cl, found, latest, readCommitted)
	b.raise()
	return b, nil
}

// raise lifts high watermarks to the last stable offsets that were read after
// them.
func (b *Bounds) raise() {
	for topic, partitions := range b.HighWatermark {
		for partition, hw := range partitions {
			lso, ok := b.LastStable.Lookup(topic, partition)
			if ok && lso.Err == nil && hw.Err == nil && lso.Offset > hw.Offset {
				hw.Offset, hw.LeaderEpoch = lso.Offset, lso.LeaderEpoch
				partitions[partition] = hw
			}
		}
	}
}

// At asks for the first offsets whose records are at or after a time, in Unix ms;
// an offset of -1 without an error says that nothing is that new.
func (b *Bounds) At(ctx context.Context, cl Client, ms int64) kadm.ListedOffsets {
	return list(ctx, cl, b.Topics, ms, readUncommitted)
}

// ErrNoPartition says that a topic has no such partition, ErrNoAnswer that nobody
// said anything about it.
var (
	ErrNoPartition = errors.New("no such partition")
	ErrNoAnswer    = errors.New("no answer")
)

// Find returns what a listing says of a partition, or why it says nothing: the
// partition's error or its topic's.
func (b *Bounds) Find(listed kadm.ListedOffsets, topic string, partition int32) (kadm.ListedOffset, error) {
	if o, ok := listed.Lookup(topic, partition); ok {
		return o, o.Err
	}
	t, asked := b.Topics[topic]
	switch {
	case t.Err != nil:
		return kadm.ListedOffset{}, t.Err
	case asked && !slices.Contains(t.Partitions, partition):
		return kadm.ListedOffset{}, ErrNoPartition
	}
	return kadm.ListedOffset{}, ErrNoAnswer
}

// Err is every error of a topic or a partition.
func (b *Bounds) Err() error {
	var errs []error
	for _, listed := range []kadm.ListedOffsets{b.LogStart, b.HighWatermark, b.LastStable} {
		for _, partitions := range listed {
			for _, o := range partitions {
				errs = append(errs, o.Err)
			}
		}
	}
	return errors.Join(errs...)
}

// describe asks for the partitions of topics.
func describe(ctx context.Context, cl Client, topics []string) (map[string]Topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // nil would be all
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp, err := cl.RequestCachedMetadata(ctx, req, 0)
	if err != nil {
		return nil, err
	}
	found := map[string]Topic{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		d := Topic{ID: t.TopicID, Err: kerr.ErrorForCode(t.ErrorCode)}
		for _, p := range t.Partitions {
			d.Partitions = append(d.Partitions, p.Partition)
		}
		found[*t.Topic] = d
	}
	for _, name := range topics {
		if _, ok := found[name]; !ok {
			found[name] = Topic{Err: kerr.UnknownTopicOrPartition}
		}
	}
	return found, nil
}

// list asks for one kind of offset of all partitions.
func list(ctx context.Context, cl Client, topics map[string]Topic, timestamp int64, isolation int8) kadm.ListedOffsets {
	out := kadm.ListedOffsets{}
	req := kmsg.NewPtrListOffsetsRequest()
	req.TimeoutMillis, req.IsolationLevel = requestTimeoutMs, isolation
	for name, d := range topics {
		if out[name] = map[int32]kadm.ListedOffset{}; d.Err != nil {
			out[name][-1] = kadm.ListedOffset{Topic: name, Partition: -1, Offset: -1, Err: d.Err}
			continue
		}
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for _, partition := range d.Partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = partition, timestamp
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	if len(req.Topics) == 0 {
		return out
	}
	for _, shard := range cl.RequestSharded(ctx, req) {
		take(out, shard)
	}
	return out
}

// take puts in what one broker answered, or why it did not.
func take(out kadm.ListedOffsets, shard kgo.ResponseShard) {
	if shard.Err != nil {
		for _, t := range shard.Req.(*kmsg.ListOffsetsRequest).Topics {
			for _, p := range t.Partitions {
				out[t.Topic][p.Partition] = kadm.ListedOffset{Topic: t.Topic, Partition: p.Partition, Offset: -1, Err: shard.Err}
			}
		}
		return
	}
	for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if out[t.Topic] == nil {
				continue // not asked for
			}
			out[t.Topic][p.Partition] = kadm.ListedOffset{
				Topic: t.Topic, Partition: p.Partition, Timestamp: p.Timestamp, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
				Err: kerr.ErrorForCode(p.ErrorCode),
			}
		}
	}
}
