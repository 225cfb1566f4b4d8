package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// TestCodecRoundTrip: what any level of any codec writes, Decompress reads,
// with the limit exactly at the size and not one byte below.
func TestCodecRoundTrip(t *testing.T) {
	noise := make([]byte, 300_000)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	words := bytes.Repeat([]byte("tidemark keeps what it acknowledged "), 70_000) // 2.5 MB: beyond what zstd decodes whole
	inputs := map[string][]byte{"one": {7}, "words": words, "noise": noise, "block": make([]byte, xerialBlockBytes), "none": {}}
	levels := map[Codec][]int{None: {0}, Gzip: {-1, 0, 1, 6, 9}, Snappy: {0}, LZ4: {0, 1, 5, 9, 12, 17}, Zstd: {-7, 0, 1, 3, 9, 22}}
	for codec, ls := range levels {
		for _, level := range ls {
			for name, in := range inputs {
				if level != 0 && name == "words" {
					in = in[:200_000]
				}
				t.Run(fmt.Sprintf("%v/%d/%s", codec, level, name), func(t *testing.T) {
					packed, err := Compress(nil, codec, level, in)
					if err != nil {
						t.Fatal(err)
					}
					out, err := Decompress([]byte("prefix"), codec, packed, len(in))
					if err != nil || !bytes.Equal(out, append([]byte("prefix"), in...)) {
						t.Fatalf("%d bytes came back as %d: %v", len(in), len(out)-6, err)
					}
					if _, err := Decompress(nil, codec, packed, len(in)-1); len(in) > 0 && !errors.Is(err, ErrTooLarge) {
						t.Errorf("one byte below the size: %v, want ErrTooLarge", err)
					}
				})
			}
		}
	}
}

// TestSnappyForms: snappy-java's framing, concatenated framing, and the bare
// block that librdkafka and franz-go send.
func TestSnappyForms(t *testing.T) {
	in := bytes.Repeat([]byte("abcdefgh"), 10_000)
	framed, err := Compress(nil, Snappy, 0, in)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(framed, xerialMagic) {
		t.Fatal("Compress does not write snappy-java's framing, which Java clients need")
	}
	for name, c := range map[string]struct{ packed, want []byte }{
		"framed":       {framed, in},
		"concatenated": {append(bytes.Clone(framed), framed...), append(bytes.Clone(in), in...)},
		"bare":         {snappy.Encode(nil, in), in},
		"header only":  {framed[:xerialHeaderBytes], nil},
		"empty":        {nil, nil},
	} {
		out, err := Decompress(nil, Snappy, c.packed, 1<<20)
		if err != nil || !bytes.Equal(out, c.want) {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
}

// bomb is a small input that asks for a lot.
type bomb struct {
	name  string
	codec Codec
	data  []byte
}

func bombs(t testing.TB) []bomb {
	t.Helper()
	zeros := make([]byte, 80<<20)
	out := []bomb{
		// reliability.md "seen while probing": klauspost/compress v1.20.4 defaults
		// allocate 524 MiB for this frame and 2 GiB for the block below.
		{"zstd nine-byte window", Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98, 0x01, 0x00, 0x00}},
		{"zstd declared content", Zstd, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, 0, 0, 0, 0x40, 0, 0, 0, 0, 1, 0, 0)},
		{"snappy length lie", Snappy, []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0}},
		{"xerial length lie", Snappy, append(append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8), 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0)},
		{"xerial block lie", Snappy, append(append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff), 1, 2, 3)},
		{"lz4 large block size", LZ4, []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 0xff, 0xff, 0xff, 0x7f}},
	}
	for _, c := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		packed, err := Compress(nil, c, 0, zeros)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, bomb{fmt.Sprintf("%v zeros 80 MiB in %d", c, len(packed)), c, packed})
	}
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return append(out, bomb{"zstd wide window", Zstd, enc.EncodeAll(zeros, nil)})
}

// allocatedBytes is what f allocates in all, freed or not.
func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBombs (reliability B3; CVE-2023-34455, CVE-2026-111073): whatever the
// input claims, decoding allocates a small multiple of the limit, and the
// leader's scan allocates no more than its windows.
func TestBombs(t *testing.T) {
	const limit = 2 << 20
	for _, b := range bombs(t) {
		t.Run(b.name, func(t *testing.T) {
			var err error
			got := allocatedBytes(func() { _, err = Decompress(nil, b.codec, b.data, limit) })
			harmless := err == nil && b.name == "zstd nine-byte window" // it is valid, and empty
			if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCorrupt) && !harmless {
				t.Errorf("Decompress: %v, want a refusal", err)
			}
			if got > 48<<20 {
				t.Errorf("Decompress allocated %d MiB for a limit of 2 MiB", got>>20)
			}
			raw := bombBatch(b)
			got = allocatedBytes(func() {
				_, err = Validate(raw, ValidateOptions{TargetCodec: CodecProducer, ProduceVersion: 9, TimestampAfterMaxMs: 1, NowMs: 1, DecompressLimitBytes: limit})
			})
			var refused *InvalidError
			if !errors.As(err, &refused) {
				t.Errorf("Validate: %v, want a refusal", err)
			}
			if got > 48<<20 {
				t.Errorf("Validate allocated %d MiB for a limit of 2 MiB", got>>20)
			}
		})
	}
}

// bombBatch puts the bomb into a batch that claims one record.
func bombBatch(b bomb) Batch {
	out := make(Batch, HeaderSize, HeaderSize+len(b.data))
	out = append(out, b.data...)
	binary.BigEndian.PutUint32(out[lengthPos:], uint32(len(out)-LogOverhead))
	out[magicPos] = 2
	binary.BigEndian.PutUint16(out[attributesPos:], uint16(b.codec))
	binary.BigEndian.PutUint32(out[countPos:], 1)
	out.setCRC()
	return out
}

// TestLargeHonestBatch: a batch that really inflates to 40 MiB passes, through
// fixed windows.
func TestLargeHonestBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("inflates 160 MiB")
	}
	for _, c := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		b := NewBuilder(BuilderOptions{Codec: c, LeaderEpoch: NoLeaderEpoch})
		value := make([]byte, 1<<20)
		for range 40 {
			b.Append(5, nil, value)
		}
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		o := ValidateOptions{TargetCodec: CodecProducer, ProduceVersion: 9, TimestampBeforeMaxMs: 10, NowMs: 5}
		got := allocatedBytes(func() { _, err = Validate(batch, o) })
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if got > 20<<20 && !raceEnabled {
			t.Errorf("%v: scanning allocated %d MiB", c, got>>20)
		}
	}
}

func TestDecompressRapid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Codec(rapid.IntRange(0, 4).Draw(t, "codec"))
		in := rapid.SliceOfN(rapid.Byte(), 0, 70_000).Draw(t, "in")
		packed, err := Compress(nil, c, rapid.IntRange(-1, 9).Draw(t, "level"), in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Decompress(nil, c, packed, 1<<20)
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%v: %d bytes came back as %d: %v", c, len(in), len(out), err)
		}
	})
}
