package load

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
)

// Shape says what is written: the size of each value, of each batch before
// compression, and how it is compressed.
type Shape struct {
	RecordBytes int
	BatchBytes  int
	Codec       record.Codec
}

// Batch is a record batch built in advance.
type Batch struct {
	Bytes   []byte
	Records int
	// PlainBytes is the size before compression: what producers handed over.
	PlainBytes int
}

// words make values that compress about as much as log lines do.
const words = "the quick brown fox jumps over a lazy dog while 0123456789 sensors report degrees and watts "

// overhead is what a record takes at most beside its value: its length,
// attributes, two deltas, no key, the value's length, no headers.
const overhead = 12

// Build makes one batch of the shape. The same seed gives the same bytes.
func Build(s Shape, seed uint64) (Batch, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := record.NewBuilder(record.BuilderOptions{Codec: s.Codec, LeaderEpoch: record.NoLeaderEpoch})
	now := time.Now().UnixMilli()
	n := 0
	value := make([]byte, s.RecordBytes)
	for n == 0 || b.SizeBytes()+s.RecordBytes+overhead <= s.BatchBytes {
		for i := 0; i < len(value); {
			at := rng.IntN(len(words))
			i += copy(value[i:], words[at:min(len(words), at+12)])
		}
		b.Append(now, nil, value)
		n++
	}
	plain := b.SizeBytes()
	raw, err := b.Build()
	if err != nil {
		return Batch{}, fmt.Errorf("build a batch: %w", err)
	}
	return Batch{Bytes: raw, Records: n, PlainBytes: plain}, nil
}

// produceVersion is the newest one that names topics and every peer here has.
const produceVersion = 9

// ProduceFrame encodes a Produce request with one batch for one partition.
func ProduceFrame(topic string, partition int32, batch []byte) []byte {
	return Frame(produceRequest(topic, []int32{partition}, batch))
}

// produceRequest writes the same batch to each of the partitions.
func produceRequest(topic string, partitions []int32, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(produceVersion)
	req.Acks, req.TimeoutMillis = -1, 60_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for _, id := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = id, batch
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// checkProduced refuses an answer with an error in it.
func checkProduced(b []byte) error {
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(produceVersion)
	if err := Decode(b, resp); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return fmt.Errorf("produce to %s-%d: error %d", t.Topic, p.Partition, p.ErrorCode)
			}
		}
	}
	return nil
}
