package pauseset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/types"
)

func TestReason(t *testing.T) {
	l := Limits{Records: 100, Bytes: 1000, Window: 400}
	for _, c := range []struct {
		load Load
		now  string
		want string
	}{
		{Load{}, "", ""}, {Load{}, Records, ""},
		{Load{Records: 99}, "", ""}, {Load{Records: 100}, "", Records},
		{Load{Records: 75}, Records, Records}, {Load{Records: 74}, Records, ""},
		{Load{Bytes: 1000}, "", Bytes}, {Load{Bytes: 749}, Bytes, ""},
		{Load{Window: 400}, "", Window}, {Load{Window: 300}, Window, Window}, {Load{Window: 299}, Window, ""},
		// A pause by bytes ends when bytes are free, however full the window is below
		// its own bound.
		{Load{Bytes: 100, Window: 399}, Bytes, ""}, {Load{Bytes: 100, Window: 400}, Bytes, Window},
		{Load{Records: 90}, "drain", ""},
	} {
		if got := l.Reason(c.load, c.now); got != c.want {
			t.Errorf("%+v now %q: %q, want %q", c.load, c.now, got, c.want)
		}
	}
	if got := (Limits{Records: 1}).Reason(Load{Records: 1}, ""); got != Records {
		t.Errorf("a bound of one: %q", got)
	}
	if got := (Limits{Records: 1}).Reason(Load{}, Records); got != "" {
		t.Errorf("a bound of one never resumes: %q", got)
	}
}

func TestDiffIsLevelTriggered(t *testing.T) {
	tp := func(p int32) types.TopicPartition { return types.TopicPartition{Topic: "t", Partition: p} }
	wanted := map[types.TopicPartition]string{tp(1): "bytes", tp(2): "bytes", tp(3): ""}
	// 1 is paused already; 3 and 4 are left over, 4 of another assignment.
	pause, resume := Diff(wanted, map[string][]int32{"t": {1, 3, 4}})
	if diff := cmp.Diff(map[string][]int32{"t": {2}}, pause); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string][]int32{"t": {3, 4}}, resume); diff != "" {
		t.Error(diff)
	}
	if pause, resume = Diff(nil, nil); pause != nil || resume != nil {
		t.Error("nothing to do is nil")
	}
}
