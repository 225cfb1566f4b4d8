package groups

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestNewPartitionsAreNotSkipped grows a topic under a group that starts new
// partitions at their end (auto.offset.reset=latest) and writes to the new
// partitions before any member can have noticed. On Apache Kafka those records
// are lost to the group; with group.new.partitions.start=earliest, our default,
// they are not (KAFKA-20030).
func TestNewPartitionsAreNotSkipped(t *testing.T) {
	t.Parallel()
	_, p := startTidemark(t)
	for _, protocol := range []string{"eager", "cooperative", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			grow(t, p, protocol)
		})
	}
}

func grow(t *testing.T, p peer, protocol string) {
	const before, after, each = 2, 5, 20
	topic := unique(t)
	createTopic(t, p, topic, before)
	write := func(from, to int32) {
		t.Helper()
		// A new client each time: one that knows the topic refuses partitions that
		// have come since.
		writer, err := kgo.NewClient(kgo.SeedBrokers(p.bootstrap), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		var recs []*kgo.Record
		for part := from; part < to; part++ {
			for range each {
				recs = append(recs, &kgo.Record{Partition: part, Value: []byte("v")})
			}
		}
		if err := writer.ProduceSync(deadline(t), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	reader := client(t, p, append(balance(protocol), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.MetadataMaxAge(2*time.Second), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))...)
	read := map[int32]map[int64]bool{}
	poll := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if read[r.Partition] == nil {
				read[r.Partition] = map[int64]bool{}
			}
			read[r.Partition][r.Offset] = true
		})
	}
	// The group has a commit on the topic once it has read something.
	wait(t, "the group reads and commits", func() bool {
		write(0, before)
		poll()
		return len(read) == before && reader.CommitUncommittedOffsets(deadline(t)) == nil
	})
	adm, ctx := admin(t, p), deadline(t)
	if r, err := adm.CreatePartitions(ctx, after-before, topic); err != nil || r.Error() != nil {
		t.Fatal(err, r.Error())
	}
	wait(t, "the broker has the new partitions", func() bool {
		topics, err := adm.ListTopics(ctx, topic)
		return err == nil && len(topics[topic].Partitions) == after && topics[topic].Partitions[after-1].Leader >= 0
	})
	write(before, after) // the members' metadata is older than this
	wait(t, "the group reads the new partitions from their start", func() bool {
		poll()
		for part := int32(before); part < after; part++ {
			if len(read[part]) < each {
				return false
			}
		}
		return true
	})
}
