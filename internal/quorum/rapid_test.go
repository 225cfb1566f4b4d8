package quorum

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// TestCommittedEqualsReplayed does random things to a quorum of one, restarts
// and power cuts among them, and compares what a restart replays with what was
// committed.
func TestCommittedEqualsReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fsys := vfs.NewMem()
		format(t, fsys)
		o := func() Options {
			o := testOptions(fsys)
			o.SegmentBytes = rapid.Int64Range(200, 4000).Draw(rt, "segmentBytes")
			o.RetentionBytes = rapid.SampledFrom([]int64{-1, 1, 2000}).Draw(rt, "retentionBytes")
			return o
		}
		n, l := start(t, o())
		var model []string
		restart := func() {
			n, l = start(t, o())
			if got := l.topicNames(); !slices.Equal(got, model) || len(l.gaps) > 0 {
				rt.Fatalf("replayed %v, committed %v, gaps %v", got, model, l.gaps)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"propose": func(rt *rapid.T) {
				var names []string
				for range rapid.IntRange(1, 5).Draw(rt, "records") {
					names = append(names, fmt.Sprintf("topic%05d", len(model)+len(names)))
				}
				base := mustPropose(t, n, names...)
				l.await(t, "commit", func() bool { return l.next == base+int64(len(names)) })
				model = append(model, names...)
			},
			"snapshot": func(rt *rapid.T) {
				if _, err := n.TakeSnapshot(imageOf(t, l)); err != nil {
					rt.Fatal(err)
				}
			},
			"stop and start": func(*rapid.T) {
				mustClose(t, n)
				restart()
			},
			"power cut": func(rt *rapid.T) {
				left := fsys.CrashClone(vfs.CrashOptions{
					UnsyncedPercent: rapid.SampledFrom([]int{0, 30, 100}).Draw(rt, "kept"), Seed: rapid.Uint64().Draw(rt, "seed"),
				})
				mustClose(t, n)
				fsys = left
				restart()
			},
		})
		mustClose(t, n)
		restart()
		mustClose(t, n)
	})
}
