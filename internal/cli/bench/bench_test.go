package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/record"
)

// TestBatchesAreKafkaBatches: what the benchmark sends passes our own checks.
func TestBatchesAreKafkaBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b, err := buildBatch(rng, 100, 16384, codec)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := record.Parse(b.wire)
		if err != nil {
			t.Fatalf("%s: %v", codec, err)
		}
		if err := parsed.Verify(); err != nil {
			t.Errorf("%s: %v", codec, err)
		}
		n := int64(0)
		for r, err := range parsed.Records(1 << 20) {
			if err != nil || len(r.Value) != 100 || r.Offset != n {
				t.Fatalf("%s: record %d: %v %+v", codec, n, err, r)
			}
			n++
		}
		if n != b.records || parsed.Codec().String() != codec {
			t.Errorf("%s: %d records of %d, codec %v", codec, n, b.records, parsed.Codec())
		}
	}
}

func TestScanCountsWholeBatches(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: 10})
	b.Append(1, nil, []byte("a"))
	b.Append(1, nil, []byte("b"))
	one, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	data := append(append([]byte{}, one...), one[:20]...)
	records, size, after := scan(data, 11)
	if records != 2 || size != int64(len(one)) || after != 12 {
		t.Errorf("scan = %d, %d, %d", records, size, after)
	}
	if records, _, after := scan(data, 12); records != 0 || after != 12 {
		t.Errorf("a batch before the offset counts: %d, %d", records, after)
	}
}

// TestHistogram: a quantile is never below the true one and at most 1/32 above it.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 50).Draw(t, "us")
		var h, o histogram
		largest := int64(0)
		for i, v := range us {
			if i%2 == 0 {
				h.add(time.Duration(v) * time.Microsecond)
			} else {
				o.add(time.Duration(v) * time.Microsecond)
			}
			largest = max(largest, v)
		}
		h.merge(&o)
		if got := h.quantile(1).Microseconds(); got != largest {
			t.Fatalf("max %d, want %d", got, largest)
		}
		for _, v := range us {
			up := int64(upper(bucketOf(uint64(v))))
			if up < v || up > v+v/32+1 {
				t.Fatalf("%d falls in a bucket up to %d", v, up)
			}
		}
	})
}
