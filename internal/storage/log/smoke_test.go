package log

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

func TestAppendReadRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			fs := vfs.NewMem()
			h := mustStart(t, fs, testConfig())
			l := h.log(t)
			var want []string
			for i := range 200 {
				v := fmt.Sprintf("value-%04d", i)
				info, err := appendValues(l, day0+int64(i), v, v+"b")
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprintf("%d:%s", info.FirstOffset, v), fmt.Sprintf("%d:%sb", info.FirstOffset+1, v))
			}
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			if l.DurableEndOffset() != 400 || l.SegmentCount() < 3 {
				t.Fatalf("durable %d, segments %d", l.DurableEndOffset(), l.SegmentCount())
			}
			got, err := readAll(l, 0, l.LogEndOffset())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
			if err := h.stop(clean); err != nil {
				t.Fatal(err)
			}
			h = mustStart(t, fs, testConfig())
			l, ok := h.m.Get(testTP)
			if !ok {
				t.Fatal("the log is gone")
			}
			if got, err = readAll(l, 0, l.LogEndOffset()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
			if l.TopicID() != testID || l.DurableEndOffset() != 400 {
				t.Fatalf("id %s, durable %d", l.TopicID(), l.DurableEndOffset())
			}
			if h.logged.Len() > 0 {
				t.Fatalf("unexpected warnings: %s", h.logged)
			}
			if err := h.stop(true); err != nil {
				t.Fatal(err)
			}
		})
	}
}
