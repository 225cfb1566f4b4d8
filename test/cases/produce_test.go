package cases

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

func init() {
	register("C011", caseC011)
	register("C013", caseC013)
	register("C016", caseC016)
	register("C017", caseC017)
}

// C011: the last five batches of a producer are recognised, older ones are out
// of order.
func caseC011(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	pid := producerID(t, c)
	var sent [][]byte
	for seq := range int32(6) {
		sent = append(sent, batch(t, idempotent(pid, 0, seq), rec{value: "v"}))
		wantCode(t, "first time", produce(t, c, 9, topic, bytes.Clone(sent[seq])).ErrorCode, 0)
	}
	again := produce(t, c, 9, topic, bytes.Clone(sent[3]))
	wantCode(t, "sequence 3 again", again.ErrorCode, 0)
	wantEqual(t, "base offset of the duplicate", again.BaseOffset, 3)
	wantEqual(t, "end", endOffset(t, c, topic), 6)
	wantCode(t, "sequence 0 again", produce(t, c, 9, topic, bytes.Clone(sent[0])).ErrorCode, 45)
	wantEqual(t, "end", endOffset(t, c, topic), 6)
}

// C013: epoch and sequence are judged together.
func caseC013(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	pid := producerID(t, c)
	for i, step := range []struct {
		epoch      int16
		seq        int32
		code       int16
		baseOffset int64
	}{{0, 0, 0, 0}, {1, 5, 45, -1}, {1, 0, 0, 1}, {0, 1, 47, -1}} {
		got := produce(t, c, 9, topic, batch(t, idempotent(pid, step.epoch, step.seq), rec{value: "v"}))
		if got.ErrorCode != step.code || got.BaseOffset != step.baseOffset {
			t.Errorf("step %d: error %d at offset %d, want %d at %d", i, got.ErrorCode, got.BaseOffset, step.code, step.baseOffset)
		}
	}
	wantEqual(t, "end", endOffset(t, c, topic), 2)
}

// C016: max.message.bytes limits the batch as stored, not the record.
func caseC016(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1, "max.message.bytes", "2000")
	c := testkit.Dial(t, b.Bootstrap())
	var random, equal []rec
	for range 8 {
		v := make([]byte, 400)
		_, _ = rand.Read(v)
		random = append(random, rec{value: string(v)})
		equal = append(equal, rec{value: strings.Repeat("x", 400)})
	}
	wantCode(t, "8 records in one batch", produce(t, c, 9, topic, batch(t, plain(), random...)).ErrorCode, 10)
	wantEqual(t, "end after the refusal", endOffset(t, c, topic), 0)
	for _, r := range random {
		wantCode(t, "one record a batch", produce(t, c, 9, topic, batch(t, plain(), r)).ErrorCode, 0)
	}
	o := plain()
	o.Codec = record.Gzip
	wantCode(t, "compressed below the limit", produce(t, c, 9, topic, batch(t, o, equal...)).ErrorCode, 0)
	wantEqual(t, "end", endOffset(t, c, topic), 16)
}

// C017: zstd needs Produce v7.
func caseC017(t *testing.T, b broker) {
	topic := unique(t, "t")
	createTopic(t, b, topic, 1)
	c := testkit.Dial(t, b.Bootstrap())
	o := plain()
	o.Codec = record.Zstd
	wantCode(t, "Produce v6", produce(t, c, 6, topic, batch(t, o, rec{value: "v"})).ErrorCode, 76)
	wantEqual(t, "end", endOffset(t, c, topic), 0)
	wantCode(t, "Produce v7", produce(t, c, 7, topic, batch(t, o, rec{value: "v"})).ErrorCode, 0)
	wantEqual(t, "end", endOffset(t, c, topic), 1)
}
