package record

import (
	"bytes"
	"testing"
)

// addGolden seeds a target with segments of Kafka 4.3.1.
func addGolden(f *testing.F, add func([]byte)) {
	f.Helper()
	for _, path := range goldenLogs(f) {
		log := readFile(f, path)
		add(log)
		add(log[:len(log)-1])
	}
	for _, b := range [][]byte{nil, {0}, make([]byte, LogOverhead), make([]byte, HeaderSize)} {
		add(b)
	}
}

// FuzzBatches: any bytes can be stepped over, verified and read without a panic
// or more records than bytes allow.
func FuzzBatches(f *testing.F) {
	addGolden(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, data []byte) {
		total := 0
		for b, err := range Batches(data) {
			if err != nil {
				break
			}
			total += len(b)
			_ = b.Verify()
			_, _ = b.LastSequence(), b.NextOffset()
			n := 0
			for _, err := range b.Records(1 << 16) {
				if n++; err != nil {
					break
				}
			}
			if n > 1<<16 {
				t.Fatalf("%d records from at most 64 KiB", n)
			}
		}
		if total > len(data) {
			t.Fatalf("batches of %d bytes in %d", total, len(data))
		}
	})
}

// FuzzValidate: any records that a producer may send; what is accepted must
// read back whole, with the records that were sent.
func FuzzValidate(f *testing.F) {
	addGolden(f, func(b []byte) {
		for target := CodecProducer; target <= Zstd; target++ {
			f.Add(b, int8(target), true)
		}
	})
	for _, path := range goldenLogs(f) {
		if b, err := Parse(readFile(f, path)); err == nil {
			f.Add([]byte(b), int8(CodecProducer), true)
			f.Add([]byte(b), int8(Gzip), true)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, target int8, repair bool) {
		raw := bytes.Clone(data)
		if b, err := Parse(raw); err == nil && repair { // reach behind the CRC
			b.SetBaseOffset(0)
			b.setCRC()
		}
		sent := bytes.Clone(raw)
		v, err := Validate(raw, ValidateOptions{
			TargetCodec: CodecProducer + Codec(uint8(target-int8(CodecProducer))%6), ProduceVersion: 12, BaseOffset: 1000, LeaderEpoch: 3,
			TimestampBeforeMaxMs: 1<<63 - 1, TimestampAfterMaxMs: 1<<63 - 1, MaxMessageBytes: 1 << 20, DecompressLimitBytes: 1 << 16,
		})
		if err != nil {
			if !bytes.Equal(raw, sent) {
				t.Fatal("a refused batch was changed")
			}
			return
		}
		if err := v.Batch.Verify(); err != nil {
			t.Fatal(err)
		}
		compareAccepted(t, Batch(sent[:Batch(sent).LengthBytes()]), v)
	})
}

func compareAccepted(t *testing.T, sent Batch, v Validated) {
	want := allRecords(t, sent)
	got := allRecords(t, v.Batch)
	if len(want) != len(got) || len(got) != v.RecordCount {
		t.Fatalf("%d records sent, %d stored, %d claimed", len(want), len(got), v.RecordCount)
	}
	for i := range want {
		if got[i].Offset != 1000+int64(i) || want[i].Timestamp != got[i].Timestamp || !bytes.Equal(want[i].Value, got[i].Value) || !bytes.Equal(want[i].Key, got[i].Key) {
			t.Fatalf("record %d changed: %+v, %+v", i, want[i], got[i])
		}
	}
}

// fuzzDecompress: no codec panics or exceeds its limit on any input.
func fuzzDecompress(f *testing.F, c Codec) {
	for _, in := range [][]byte{nil, []byte("a"), bytes.Repeat([]byte("tidemark "), 10_000)} {
		packed, err := Compress(nil, c, 0, in)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	for _, path := range goldenLogs(f) {
		if b, err := Parse(readFile(f, path)); err == nil && b.Codec() == c {
			f.Add(b.RecordBytes())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 20
		out, err := Decompress(nil, c, data, limit)
		if err == nil && len(out) > limit {
			t.Fatalf("%d bytes, the limit is %d", len(out), limit)
		}
	})
}

func FuzzGzip(f *testing.F)   { fuzzDecompress(f, Gzip) }
func FuzzSnappy(f *testing.F) { fuzzDecompress(f, Snappy) }
func FuzzLZ4(f *testing.F)    { fuzzDecompress(f, LZ4) }
func FuzzZstd(f *testing.F)   { fuzzDecompress(f, Zstd) }
