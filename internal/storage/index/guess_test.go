package index

import (
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/tidemark-io/tidemark/internal/storage/filecache"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// TestLookupOfUnevenOffsets: however badly the guess of a search fails, the entry
// it finds is the right one.
func TestLookupOfUnevenOffsets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, step := range map[string]func(i int) int64{
		"even": func(int) int64 { return 40 },
		"hump": func(i int) int64 {
			if i > 5000 && i < 9000 {
				return 3000
			}
			return 1
		},
		"late":   func(i int) int64 { return 1 + int64(i/19_000)*90_000 },
		"random": func(int) int64 { return 1 + rng.Int64N(2000) },
	} {
		t.Run(name, func(t *testing.T) {
			const base, n = 1000, 20_000
			fs := vfs.NewMem()
			if err := fs.MkdirAll("/d"); err != nil {
				t.Fatal(err)
			}
			x := &Offset{}
			x.Init(filecache.New(fs, 2), fixed("/d/x.index"), 0, base, 10<<20)
			x.Create()
			entries := make([]OffsetEntry, 0, n)
			at := OffsetEntry{Offset: base}
			for i := range n {
				at.Offset += step(i)
				at.Position += 4097 + rng.Int64N(1000)
				if err := x.Append(at); err != nil {
					t.Fatal(err)
				}
				entries = append(entries, at)
			}
			for range 20_000 {
				target := entries[rng.IntN(n)].Offset + rng.Int64N(3) - 1
				want := sort.Search(n, func(i int) bool { return entries[i].Offset > target }) - 1
				got, ok, err := x.Lookup(target)
				if err != nil || ok != (want >= 0) || ok && got != entries[want] {
					t.Fatalf("at %d: %+v %v %v, want entry %d", target, got, ok, err, want)
				}
				pos := entries[rng.IntN(n)].Position + rng.Int64N(3) - 1
				want = sort.Search(n, func(i int) bool { return entries[i].Position >= pos })
				got, ok, err = x.After(pos)
				if err != nil || ok != (want < n) || ok && got != entries[want] {
					t.Fatalf("after %d: %+v %v %v, want entry %d", pos, got, ok, err, want)
				}
			}
		})
	}
}
