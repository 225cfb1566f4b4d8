package record

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawHeaders and drawRecord make records with every kind of null and empty.
func drawRecord(t *rapid.T) Record {
	field := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 40))
	r := Record{
		Timestamp: rapid.Int64Range(-1, math.MaxInt64/2).Draw(t, "ts"),
		Key:       field.Draw(t, "key"),
		Value:     field.Draw(t, "value"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, Header{Key: rapid.StringN(0, 10, 40).Draw(t, "hkey"), Value: field.Draw(t, "hvalue")})
	}
	return r
}

// TestBuilderRoundTrip: what a builder is given, a reader gets back, in every
// codec, with gaps in the offsets as compaction leaves them.
func TestBuilderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := BuilderOptions{
			Codec:         Codec(rapid.IntRange(0, 4).Draw(t, "codec")),
			BaseOffset:    rapid.Int64Range(0, 1<<40).Draw(t, "base"),
			LeaderEpoch:   rapid.Int32Range(-1, 1<<20).Draw(t, "epoch"),
			HasProducer:   rapid.Bool().Draw(t, "producer"),
			ProducerID:    rapid.Int64Range(0, 1<<40).Draw(t, "pid"),
			ProducerEpoch: rapid.Int16Range(0, 100).Draw(t, "pepoch"),
			BaseSequence:  rapid.Int32Range(0, math.MaxInt32).Draw(t, "seq"),
			Transactional: rapid.Bool().Draw(t, "txn"),
			Control:       rapid.Bool().Draw(t, "control"),
		}
		b := NewBuilder(o)
		var want []Record
		offset := o.BaseOffset
		maxTimestamp := NoTimestamp
		for range rapid.IntRange(1, 30).Draw(t, "count") {
			r := drawRecord(t)
			r.Offset = offset
			offset += rapid.Int64Range(1, 3).Draw(t, "step")
			b.AppendWithOffset(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
			want = append(want, r)
			maxTimestamp = max(maxTimestamp, r.Timestamp)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		checkBuilt(t, batch, o, want, maxTimestamp)
	})
}

func checkBuilt(t *rapid.T, batch Batch, o BuilderOptions, want []Record, maxTimestamp int64) {
	parsed, err := Parse(append(bytes.Clone(batch), 1, 2, 3))
	if err != nil || !bytes.Equal(parsed, batch) {
		t.Fatalf("parse: %v", err)
	}
	if err := parsed.Verify(); err != nil {
		t.Fatal(err)
	}
	last := want[len(want)-1].Offset
	if parsed.BaseOffset() != o.BaseOffset || parsed.LastOffset() != last || parsed.NextOffset() != last+1 || int(parsed.Count()) != len(want) ||
		parsed.Codec() != o.Codec || parsed.MaxTimestamp() != maxTimestamp || parsed.IsControl() != o.Control ||
		parsed.IsTransactional() != o.Transactional || parsed.HasProducerID() != o.HasProducer || parsed.PartitionLeaderEpoch() != o.LeaderEpoch {
		t.Fatalf("header differs from options %+v", o)
	}
	if o.HasProducer && (parsed.ProducerID() != o.ProducerID || parsed.ProducerEpoch() != o.ProducerEpoch || parsed.BaseSequence() != o.BaseSequence) {
		t.Fatalf("producer differs from options %+v", o)
	}
	var got []Record
	for r, err := range parsed.Records(1 << 20) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("records:\n%s", diff)
	}
}

// TestBuilderWritesKafkasBytes: rebuilt from its records, a batch that Kafka's
// producer wrote comes out byte for byte.
func TestBuilderWritesKafkasBytes(t *testing.T) {
	for _, name := range []string{"java-none", "go-txn"} {
		for b, err := range Batches(readFile(t, "testdata/kafka-4.3.1/"+name+".log")) {
			if err != nil {
				t.Fatal(err)
			}
			w := NewBuilder(BuilderOptions{
				BaseOffset: b.BaseOffset(), LeaderEpoch: b.PartitionLeaderEpoch(), HasProducer: true, ProducerID: b.ProducerID(),
				ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), Transactional: b.IsTransactional(), Control: b.IsControl(),
			})
			for _, r := range allRecords(t, b) {
				w.AppendWithOffset(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
			}
			got, err := w.Build()
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("%s at %d: differs (%v)\n% x\n% x", name, b.BaseOffset(), err, b, got)
			}
		}
	}
}

func TestBuilderRefusals(t *testing.T) {
	if _, err := NewBuilder(BuilderOptions{}).Build(); err == nil {
		t.Error("an empty batch was built")
	}
	for _, offset := range []int64{5, 4, 10 + math.MaxInt32 + 1} {
		b := NewBuilder(BuilderOptions{BaseOffset: 5})
		b.AppendWithOffset(5, 1, nil, nil)
		b.AppendWithOffset(offset, 1, nil, nil)
		if _, err := b.Build(); err == nil {
			t.Errorf("offset %d was accepted behind 5", offset)
		}
	}
}

// TestCutAnywhere (reliability D13): a batch cut at any byte is short, never
// corrupt and never whole.
func TestCutAnywhere(t *testing.T) {
	log := readFile(t, "testdata/kafka-4.3.1/java-zstd.log")
	first, err := Parse(log)
	if err != nil {
		t.Fatal(err)
	}
	for n := range first {
		if _, err := Parse(log[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for n := len(first); n < len(log); n++ {
		whole := 0
		for b, err := range Batches(log[:n]) {
			if err == nil {
				whole += len(b)
			} else if !errors.Is(err, ErrShort) {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
		if whole != len(first) {
			t.Fatalf("cut at %d: %d whole bytes, want %d", n, whole, len(first))
		}
	}
}

// TestFlipAnywhere: one wrong bit anywhere in a batch is seen, except in the
// base offset and leader epoch, which the CRC leaves to the leader.
func TestFlipAnywhere(t *testing.T) {
	first, err := Parse(readFile(t, "testdata/kafka-4.3.1/java-none.log"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		if i < lengthPos || (i >= leaderEpochPos && i < magicPos) {
			continue
		}
		for bit := range 8 {
			b := bytes.Clone(first)
			b[i] ^= 1 << bit
			parsed, err := Parse(b)
			if err == nil {
				err = parsed.Verify()
			}
			if err == nil {
				t.Fatalf("bit %d of byte %d can be wrong unseen", bit, i)
			}
		}
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 0, 0}, {0, 4, 4}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1},
	} {
		if got := IncrementSequence(c.seq, c.n); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
}

func TestSetters(t *testing.T) {
	b := append(Batch(nil), readFile(t, "testdata/kafka-4.3.1/java-none.log")[:153]...)
	crc := b.CRC()
	b.SetBaseOffset(1 << 40)
	b.SetPartitionLeaderEpoch(77)
	if b.CRC() != crc || b.Verify() != nil || b.BaseOffset() != 1<<40 || b.PartitionLeaderEpoch() != 77 {
		t.Error("offset and epoch must not touch the CRC")
	}
	b.SetLastOffset(99)
	if b.LastOffset() != 99 || b.BaseOffset() != 98 {
		t.Errorf("SetLastOffset: [%d, %d]", b.BaseOffset(), b.LastOffset())
	}
	b.SetMaxTimestamp(b.MaxTimestamp(), CreateTime)
	if b.CRC() != crc {
		t.Error("an unchanged timestamp must not touch the CRC")
	}
	b.SetMaxTimestamp(5, LogAppendTime)
	if b.Verify() != nil || b.TimestampType() != LogAppendTime || b.MaxTimestamp() != 5 {
		t.Error("LogAppendTime is not stamped")
	}
	for _, r := range allRecords(t, b) {
		if r.Timestamp != 5 {
			t.Errorf("record %d is at %d, want the append time", r.Offset, r.Timestamp)
		}
	}
	b.SetMaxTimestamp(6, CreateTime)
	if b.Verify() != nil || b.TimestampType() != CreateTime {
		t.Error("the type is not put back")
	}
}
