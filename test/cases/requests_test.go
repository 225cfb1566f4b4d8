package cases

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// createTopic makes a topic and waits until its leader is known.
func createTopic(t *testing.T, b broker, name string, partitions int, configs ...string) {
	t.Helper()
	c := testkit.Dial(t, b.Bootstrap())
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 5
	req.TimeoutMillis = 10000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), 1
	for i := 0; i < len(configs); i += 2 {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = configs[i], &configs[i+1]
		topic.Configs = append(topic.Configs, cfg)
	}
	req.Topics = append(req.Topics, topic)
	resp := testkit.Do(c, req, kmsg.NewPtrCreateTopicsResponse())
	wantCode(t, "create "+name, resp.Topics[0].ErrorCode, 0)
	waitForLeaders(t, c, name, partitions)
}

func waitForLeaders(t *testing.T, c *testkit.RawConn, name string, partitions int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		req.Topics = append(req.Topics, rt)
		resp := testkit.Do(c, req, kmsg.NewPtrMetadataResponse())
		ready := len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0 && len(resp.Topics[0].Partitions) == partitions
		for _, p := range resp.Topics[0].Partitions {
			ready = ready && p.ErrorCode == 0 && p.Leader >= 0
		}
		if ready && listOffset(t, c, 4, name, 0, -1).ErrorCode == 0 {
			return
		}
	}
	t.Fatalf("topic %s has no leaders after 20 s", name)
}

// produce sends one Produce request with one batch to partition 0 and returns
// the partition's answer.
func produce(t *testing.T, c *testkit.RawConn, version int16, topic string, batch []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	resp := testkit.Do(c, produceRequest(version, -1, topic, batch), kmsg.NewPtrProduceResponse())
	return resp.Topics[0].Partitions[0]
}

func produceRequest(version, acks int16, topic string, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 10000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// rec is one record of a hand-built batch.
type rec struct {
	ts    int64
	value string
}

// batch builds one batch; a zero timestamp means now.
func batch(t *testing.T, o record.BuilderOptions, recs ...rec) []byte {
	t.Helper()
	bld := record.NewBuilder(o)
	for _, r := range recs {
		if r.ts == 0 {
			r.ts = time.Now().UnixMilli()
		}
		bld.Append(r.ts, nil, []byte(r.value))
	}
	b, err := bld.Build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plain returns options of a batch that belongs to no idempotent producer.
func plain() record.BuilderOptions {
	return record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch}
}

// idempotent returns options of a batch of a producer.
func idempotent(id int64, epoch int16, seq int32) record.BuilderOptions {
	return record.BuilderOptions{
		LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq,
	}
}

// produceOne appends n one-record batches.
func produceOne(t *testing.T, c *testkit.RawConn, topic string, n int) {
	t.Helper()
	for range n {
		wantCode(t, "produce to "+topic, produce(t, c, 9, topic, batch(t, plain(), rec{value: "v"})).ErrorCode, 0)
	}
}

func listOffset(t *testing.T, c *testkit.RawConn, version int16, topic string, partition int32, ts int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = version
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = partition, ts
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp := testkit.Do(c, req, kmsg.NewPtrListOffsetsResponse())
	return resp.Topics[0].Partitions[0]
}

func endOffset(t *testing.T, c *testkit.RawConn, topic string) int64 {
	t.Helper()
	p := listOffset(t, c, 4, topic, 0, -1)
	wantCode(t, "end of "+topic, p.ErrorCode, 0)
	return p.Offset
}

func startOffset(t *testing.T, c *testkit.RawConn, topic string) int64 {
	t.Helper()
	p := listOffset(t, c, 4, topic, 0, -2)
	wantCode(t, "start of "+topic, p.ErrorCode, 0)
	return p.Offset
}

// fetchRequest asks for partition 0 of a topic without a session.
func fetchRequest(topic string, offset int64, maxWaitMs int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, maxWaitMs, 1, 10<<20
	req.SessionEpoch = -1
	if topic != "" {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.FetchOffset, rp.PartitionMaxBytes = offset, 10<<20
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func fetch(t *testing.T, c *testkit.RawConn, topic string, offset int64, maxWaitMs int32) kmsg.FetchResponseTopicPartition {
	t.Helper()
	resp := testkit.Do(c, fetchRequest(topic, offset, maxWaitMs), kmsg.NewPtrFetchResponse())
	wantCode(t, "fetch", resp.ErrorCode, 0)
	return resp.Topics[0].Partitions[0]
}

func producerID(t *testing.T, c *testkit.RawConn) int64 {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
	resp := testkit.Do(c, req, kmsg.NewPtrInitProducerIDResponse())
	for deadline := time.Now().Add(time.Minute); resp.ErrorCode == 14 && time.Now().Before(deadline); { // no block of ids yet
		time.Sleep(20 * time.Millisecond)
		resp = testkit.Do(c, req, kmsg.NewPtrInitProducerIDResponse())
	}
	wantCode(t, "InitProducerId", resp.ErrorCode, 0)
	wantCode(t, "epoch of a new producer id", resp.ProducerEpoch, 0)
	return resp.ProducerID
}

// wantCode compares an error code by name.
func wantCode(t *testing.T, what string, got, want int16) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, kerr.TypedErrorForCode(got), kerr.TypedErrorForCode(want))
	}
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
