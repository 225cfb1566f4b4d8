package log

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/epochcache"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// TestEpochsWithoutTheirFile: a leader epoch is in the file before the recovery
// point passes its first record, and is read from the batches before that. An
// epoch without records is not kept.
func TestEpochsWithoutTheirFile(t *testing.T) {
	for _, checkpointed := range []bool{false, true} {
		fs := vfs.NewMem()
		h := mustStart(t, fs, crashConfig())
		h.quiet()
		l := h.log(t)
		for epoch := range int32(3) {
			if err := l.AssignLeaderEpoch(epoch); err != nil {
				t.Fatal(err)
			}
			if epoch == 2 {
				break // nothing is appended in it
			}
			if _, err := appendValues(l, day0, "a", "b"); err != nil {
				t.Fatal(err)
			}
		}
		file := l.path(checkpoint.LeaderEpochFile)
		if _, err := fs.Stat(file); err == nil {
			t.Error("an epoch was written although no recovery point needs it")
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if checkpointed {
			if err := h.m.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if _, err := fs.Stat(file); err != nil {
				t.Errorf("the recovery point is ahead of the epochs: %v", err)
			}
		}
		image := fs.CrashClone(vfs.CrashOptions{})
		h2 := mustStart(t, image, crashConfig())
		h2.quiet()
		want := []epochcache.Entry{{Epoch: 0, StartOffset: 0}, {Epoch: 1, StartOffset: 2}}
		got := h2.log(t).EpochEntries()
		if checkpointed && len(got) == 3 { // written along with the others
			got = got[:2]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("checkpointed=%t: epochs after a power cut (-want +got):\n%s", checkpointed, diff)
		}
	}
}
