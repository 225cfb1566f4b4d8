package consume

import (
	"testing"
	"time"
)

func TestParseFrom(t *testing.T) {
	now := time.UnixMilli(10_000_000)
	for in, want := range map[string]where{
		"start": {"start", 0}, "beginning": {"start", 0}, "end": {"end", 0}, "42": {"offset", 42}, "-5": {"last", 5}, "-0": {"last", 0},
		"@5000": {"time", 5000}, "1s": {"time", 9_999_000}, "1970-01-01T00:00:01Z": {"time", 1000},
	} {
		got, err := parseFrom(in, now)
		if err != nil || got != want {
			t.Errorf("parseFrom(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"noon", "@x", "--5"} {
		if got, err := parseFrom(in, now); err == nil {
			t.Errorf("parseFrom(%q) = %+v, want an error", in, got)
		}
	}
}

func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		w    where
		want int64
	}{{where{"start", 0}, 5}, {where{"end", 0}, 20}, {where{"last", 3}, 17}, {where{"last", 100}, 5}, {where{"offset", 7}, 7}, {where{"time", 1}, 20}} {
		if got := tc.w.resolve(5, 20, -1); got != tc.want {
			t.Errorf("%+v resolves to %d, want %d", tc.w, got, tc.want)
		}
	}
	if got := (where{"time", 1}).resolve(5, 20, 9); got != 9 {
		t.Errorf("a time whose record is at 9 resolves to %d", got)
	}
}
