package record

import (
	"fmt"
	"testing"
)

func benchBatch(tb testing.TB, c Codec, records int) Batch {
	tb.Helper()
	b := NewBuilder(BuilderOptions{Codec: c, LeaderEpoch: NoLeaderEpoch})
	for i := range records {
		b.Append(int64(1000+i), []byte(fmt.Sprintf("key-%06d", i)), []byte(fmt.Sprintf("value %d, ninety bytes or so of text that compresses like ordinary text of a log line does %d", i, i*i)))
	}
	batch, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return batch
}

func benchOptions() ValidateOptions {
	return ValidateOptions{TargetCodec: CodecProducer, ProduceVersion: 11, TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 1 << 40, MaxMessageBytes: 1 << 30}
}

// TestValidateAllocates: the fast path allocates nothing per record, and for
// uncompressed batches nothing at all.
func TestValidateAllocates(t *testing.T) {
	limits := map[Codec]float64{None: 0, Gzip: 4, Snappy: 4, LZ4: 8, Zstd: 4}
	for c, limit := range limits {
		b := benchBatch(t, c, 2000)
		o := benchOptions()
		got := testing.AllocsPerRun(50, func() {
			b.SetBaseOffset(0)
			if _, err := Validate(b, o); err != nil {
				t.Fatal(err)
			}
		})
		if got > limit && !raceEnabled {
			t.Errorf("%v: %v allocations for 2000 records, at most %v expected", c, got, limit)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	for c := None; c <= Zstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			batch := benchBatch(b, c, 10_000)
			plain := benchBatch(b, None, 10_000)
			o := benchOptions()
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				batch.SetBaseOffset(0)
				if _, err := Validate(batch, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecords(b *testing.B) {
	for c := None; c <= Zstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			batch := benchBatch(b, c, 10_000)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range batch.Records(64 << 20) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
