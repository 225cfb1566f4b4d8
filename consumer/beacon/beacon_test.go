package beacon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// at is 2026-11-30T16:12:33.123Z.
const at = 1796055153123

// golden strings are the format: other programs read and write them too.
var golden = []struct {
	name string
	b    Beacon
	text string
}{
	{
		"idle",
		Beacon{AtMs: at, Position: 180, Effect: 180, OldestOffset: -1, Generation: 3, Since: 4},
		"tm1 at=2026-11-30T16:12:33.123Z pos=180 eff=180 run=0 wait=0 gen=3 since=4",
	},
	{
		"the seed's P0: 200 polled, effect 175",
		Beacon{AtMs: at, Position: 200, Effect: 175, Running: 20, Queued: 5, OldestOffset: 175, OldestAgeMs: 12000, Generation: 42, Quarantined: 1},
		"tm1 at=2026-11-30T16:12:33.123Z pos=200 eff=175 run=20 wait=5 old=12s@175 gen=42 q=1",
	},
	{
		"bits: 11 and 12 done, 10 is not",
		Beacon{AtMs: at, Position: 13, Effect: 10, Running: 1, OldestOffset: 10, OldestAgeMs: 61500, Generation: 1, Done: Set{{11, 12}}},
		"tm1 at=2026-11-30T16:12:33.123Z pos=13 eff=10 run=1 wait=0 old=1m1.5s@10 gen=1 | done=b:Bg",
	},
	{
		"runs: one long range far above",
		Beacon{AtMs: at, Position: 401, Effect: 10, Running: 1, OldestOffset: 10, Generation: 1, Done: Set{{111, 400}}},
		"tm1 at=2026-11-30T16:12:33.123Z pos=401 eff=10 run=1 wait=0 old=0s@10 gen=1 | done=r:ZaIC",
	},
	{
		"bits: every other record",
		Beacon{AtMs: at, Position: 30, Effect: 10, OldestOffset: -1, Generation: 1, Done: Set{{11, 11}, {13, 13}, {15, 15}, {17, 17}, {19, 19}}},
		"tm1 at=2026-11-30T16:12:33.123Z pos=30 eff=10 run=0 wait=0 gen=1 | done=b:qgI",
	},
	{
		"what this assignment has done",
		Beacon{AtMs: at, Position: 200, Effect: 180, Running: 3, Queued: 7, RetryWait: 2, OldestOffset: 180, OldestAgeMs: 2000, Generation: 4, Quarantined: 1,
			Delivered: 100, Succeeded: 87, Retried: 5, QueuedAgeMs: 1500, RunningAgeMs: 20, RetryAgeMs: 2000, PollAgeMs: 40, StoppedMs: 61500},
		"tm1 at=2026-11-30T16:12:33.123Z pos=200 eff=180 run=3 wait=9 retry=2 old=2s@180 gen=4 q=1 n=100 ok=87 again=5 ages=1.5s/20ms/2s poll=40ms stop=1m1.5s",
	},
	{
		"retries, pause and the last error",
		Beacon{AtMs: at, Position: 9, Effect: 3, Queued: 2, RetryWait: 4, OldestOffset: 3, OldestAgeMs: 1, Attempts: 7, LastError: `dial "db": refused é`, Generation: 9, Paused: "records"},
		`tm1 at=2026-11-30T16:12:33.123Z pos=9 eff=3 run=0 wait=6 retry=4 old=1ms@3 try=7 gen=9 paused=records err="dial \"db\": refused \u00e9"`,
	},
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			if got := Encode(g.b, DefaultLimit); got != g.text {
				t.Errorf("Encode:\n got %s\nwant %s", got, g.text)
			}
			got, err := Decode(g.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.b, got); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodePacked pins the two zstd encodings by strings made once: what an
// encoder of another version writes may differ, what we can read may not.
func TestDecodePacked(t *testing.T) {
	for _, text := range packedGolden {
		b, err := Decode("tm1 at=2026-11-30T16:12:33.123Z pos=9000 eff=100 run=0 wait=0 gen=1 | done=" + text)
		if err != nil {
			t.Fatalf("%.20s: %v", text, err)
		}
		if diff := cmp.Diff(packedSet(), b.Done); diff != "" {
			t.Errorf("%.20s (-want +got):\n%s", text, diff)
		}
	}
}

// packedSet has 600 runs of a regular shape: runs of 3 records, gaps of 5.
func packedSet() (s Set) {
	for i := range int64(600) {
		s = append(s, Run{103 + 8*i, 105 + 8*i})
	}
	return s
}

func TestForeignAndDamaged(t *testing.T) {
	for _, c := range []struct {
		text string
		want error
	}{
		{"", ErrForeign},
		{"kgo-1f0c6a9e-0f44-4f5f-8d53-1", ErrForeign}, // franz-go's own metadata
		{"bAAA=", ErrForeign},                         // parallel-consumer's offset map
		{"tm2 at=2026-11-30T16:12:33.123Z pos=1 eff=1", ErrForeign},
		{"tm1", ErrForeign},
		{"tm1 pos=1", ErrCorrupt},
		{"tm1 at=yesterday pos=1 eff=1", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=-1 eff=1", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 run=99999999999", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 old=5", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 ages=1s/2s", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 ages=1s/2s/-3s", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 poll=soon", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 err=\"open", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 stray", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 | done=r:!!", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 | done=r:AQEAAQ", ErrCorrupt}, // runs that touch
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 | done=r:AQ", ErrCorrupt},     // a run without length
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 | done=q:AQE", ErrCorrupt},
		{"tm1 at=2026-11-30T16:12:33.123Z pos=1 eff=1 | done=z:AQE", ErrCorrupt},
	} {
		if _, err := Decode(c.text); !errors.Is(err, c.want) {
			t.Errorf("Decode(%q) = %v, want %v", c.text, err, c.want)
		}
	}
	// A newer writer's fields are skipped.
	if b, err := Decode("tm1 at=2026-11-30T16:12:33.123Z pos=7 eff=5 zone=b run=1 wait=1 gen=2 | done=r:AQE colour=red"); err != nil || !b.Done.Contains(6) {
		t.Errorf("unknown fields: %+v, %v", b, err)
	}
}

// TestBomb: a small frame that unpacks to much is refused, not allocated.
func TestBomb(t *testing.T) {
	text := encodeText(encBitsPacked, pack(make([]byte, 16<<20)))
	if len(text) > BrokerLimit {
		t.Fatalf("the bomb has %d characters", len(text))
	}
	if _, err := decodeSet(text, 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}

// TestTruncatedFromTheTop: a limit holds what is lowest; what is left out is
// counted.
func TestTruncatedFromTheTop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := Beacon{AtMs: at, Effect: 1000, Position: 200_000, OldestOffset: 1000, OldestAgeMs: 5}
	for o := b.Effect + 1; o < b.Position; o++ {
		if rng.IntN(2) == 0 {
			b.Done = b.Done.Add(o)
		}
	}
	text := Encode(b, BrokerLimit)
	if len(text) > BrokerLimit || len(text) < BrokerLimit-400 {
		t.Errorf("%d characters for a limit of %d", len(text), BrokerLimit)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Done) == 0 || !cmp.Equal(got.Done, b.Done[:len(got.Done)]) {
		t.Fatalf("the kept runs are not the lowest ones (%d kept)", len(got.Done))
	}
	if got.Cut != b.Done.Len()-got.Done.Len() || got.Cut == 0 {
		t.Errorf("cut=%d, kept %d of %d", got.Cut, got.Done.Len(), b.Done.Len())
	}
	if small := Encode(b, 20); small != "" {
		t.Errorf("20 characters gave %q", small)
	}
}

func TestRoundTripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Beacon{AtMs: at, Effect: rapid.Int64Range(0, 1<<50).Draw(t, "effect"), OldestOffset: -1}
		o := b.Effect
		runs := rapid.IntRange(0, 400).Draw(t, "runs")
		wide := rapid.SampledFrom([]int64{1, 3, 50, 1 << 20}).Draw(t, "wide")
		for range runs {
			o += rapid.Int64Range(1, wide).Draw(t, "gap")
			if len(b.Done) > 0 {
				o++
			} else {
				o-- // the record at Effect itself may be one that an earlier owner completed
			}
			length := rapid.Int64Range(1, 20).Draw(t, "length")
			b.Done = append(b.Done, Run{o, o + length - 1})
			o += length - 1
		}
		b.Position = o + 1
		limit := rapid.SampledFrom([]int{100, 300, DefaultLimit, BrokerLimit}).Draw(t, "limit")
		text := Encode(b, limit)
		if len(text) > limit || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("limit %d: %d characters: %q", limit, len(text), text)
		}
		if text == "" {
			return
		}
		got, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got.Done); n > len(b.Done) || n > 0 && !cmp.Equal(got.Done, b.Done[:n]) {
			t.Fatalf("decoded runs are not a prefix")
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		f.Add(g.text)
	}
	f.Add("tm1 at=2026-11-30T16:12:33.123Z pos=9000 eff=100 run=0 wait=0 gen=1 | done=" + packedGolden[0])
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Decode(text)
		if err != nil {
			return
		}
		for i, r := range b.Done {
			if r.First > r.Last || r.First < b.Effect || i > 0 && r.First <= b.Done[i-1].Last+1 {
				t.Fatalf("run %d of %v is out of order", i, b.Done)
			}
		}
		Encode(b, DefaultLimit)
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int64{100, 8192, 40_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			bc := Beacon{AtMs: at, Effect: 1000, Position: 1000 + n, OldestOffset: 1000}
			for o := bc.Effect + 1; o < bc.Position; o++ {
				if rng.IntN(2) == 0 {
					bc.Done = bc.Done.Add(o)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				Encode(bc, DefaultLimit)
			}
		})
	}
}
