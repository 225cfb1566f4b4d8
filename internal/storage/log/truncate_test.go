package log

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

// TestTruncationOutlivesAPowerCut: segments and bytes that a truncation removed
// do not come back. The renamed segment did whose name nobody synced, and joined
// the log again when what was appended since ended where it began.
func TestTruncationOutlivesAPowerCut(t *testing.T) {
	cfg := crashConfig()
	cfg.SegmentBytes = 300
	for _, c := range []struct {
		name     string
		truncate func(l *Log) error
		again    []int // records of the batches appended afterwards, and flushed
		want     string
	}{
		{"into the first segment", func(l *Log) error { return l.TruncateTo(1) }, nil, "0:a"},
		{"to a segment's start", func(l *Log) error { return l.TruncateTo(5) }, nil, "0:a 1:b 2:b 3:b 4:b"},
		{"and appended up to a segment that went", func(l *Log) error { return l.TruncateTo(1) }, []int{1, 3}, "0:a 1:n 2:n 3:n 4:n"},
		{"all of it", func(l *Log) error { return l.TruncateFullyAndStartAt(9) }, nil, ""},
		{"all of it, and appended", func(l *Log) error { return l.TruncateFullyAndStartAt(5) }, []int{4}, "5:n 6:n 7:n 8:n"},
	} {
		for _, percent := range []int{0, 50} {
			t.Run(fmt.Sprintf("%s, %d percent of the rest kept", c.name, percent), func(t *testing.T) {
				mem := vfs.NewMem()
				h := mustStart(t, mem, cfg)
				h.quiet()
				l := h.log(t)
				write := func(records int, value string) {
					t.Helper()
					values := make([]string, records)
					for i := range values {
						values[i] = "value " + value // two batches fill a segment
					}
					if _, err := appendValues(l, day0, values...); err != nil {
						t.Fatal(err)
					}
				}
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				write(1, "a")
				write(4, "b")
				write(4, "c")
				must(l.Flush())
				must(h.m.Checkpoint())
				must(c.truncate(l))
				for _, n := range c.again {
					write(n, "n")
				}
				if len(c.again) > 0 {
					must(l.Flush())
				}
				left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: percent, Seed: 1})
				_ = h.stop(false)
				h = mustStart(t, left, cfg)
				h.quiet()
				l = h.log(t)
				got, err := readAll(l, l.LogStartOffset(), l.LogEndOffset())
				must(err)
				if text := strings.ReplaceAll(strings.Join(got, " "), "value ", ""); text != c.want {
					t.Errorf("after the power cut the log holds %q, want %q", text, c.want)
				}
				must(h.stop(true))
			})
		}
	}
}
