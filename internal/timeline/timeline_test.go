package timeline

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMapAgainstCopies compares the map with whole copies taken at every offset.
func TestMapAgainstCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reg := &Registry{}
		m := NewMap[int, int64](reg)
		copies := []map[int]int64{{}} // copies[i]: the state below offset i
		committed := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				off := int64(len(copies) - 1)
				k := rapid.IntRange(0, 5).Draw(t, "k")
				m.Set(off, k, off)
				next := maps.Clone(copies[off])
				next[k] = off
				copies = append(copies, next)
			},
			"delete": func(t *rapid.T) {
				off := int64(len(copies) - 1)
				k := rapid.IntRange(0, 5).Draw(t, "k")
				m.Delete(off, k)
				next := maps.Clone(copies[off])
				delete(next, k)
				copies = append(copies, next)
			},
			"commit": func(t *rapid.T) {
				committed = rapid.Int64Range(committed, int64(len(copies)-1)).Draw(t, "to")
				reg.Commit(committed)
			},
			"revert": func(t *rapid.T) {
				to := rapid.Int64Range(committed, int64(len(copies)-1)).Draw(t, "to")
				reg.Revert(to)
				copies = copies[:to+1]
			},
			"": func(t *rapid.T) {
				for off := committed; off < int64(len(copies)); off++ {
					if d := cmp.Diff(copies[off], maps.Collect(m.All(off))); d != "" {
						t.Fatalf("as of %d:\n%s", off, d)
					}
				}
				if d := cmp.Diff(copies[len(copies)-1], maps.Collect(m.All(Latest))); d != "" {
					t.Fatalf("latest:\n%s", d)
				}
				if committed == int64(len(copies)-1) && (reg.Pending() != 0 || len(m.history) != 0) {
					t.Fatal("history is kept for committed changes")
				}
			},
		})
	})
}
