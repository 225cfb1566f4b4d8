package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{
		"2026-11-30T11:00:00Z":      "2026-11-30T11:00:00.000Z",
		"2026-11-30T11:00:00+02:00": "2026-11-30T09:00:00.000Z",
		"2026-11-30":                "2026-11-30T00:00:00.000Z",
		"2026-11-30 11:00:00":       "2026-11-30T11:00:00.000Z",
		"1000":                      "1970-01-01T00:00:01.000Z",
		"90m":                       "2026-11-30T10:30:00.000Z",
	} {
		got, err := ParseTime(in, now)
		if err != nil || got.UTC().Format(TimeLayout) != want {
			t.Errorf("ParseTime(%q) = %v, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "yesterday", "-5", "-5m"} {
		if got, err := ParseTime(in, now); err == nil {
			t.Errorf("ParseTime(%q) = %v, want an error", in, got)
		}
	}
}

func TestCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {errors.New("x"), 1}, {Failed("x"), 1}, {Finding("x"), 2}, {Inconclusive("x"), 3},
		{fmt.Errorf("wrapped: %w", Refused("x")), 4}, {errors.Join(Finding("x"), nil), 2},
	} {
		if got := Code(tc.err); got != tc.want {
			t.Errorf("Code(%v) = %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestExplain(t *testing.T) {
	e := Explain(kerr.MessageTooLarge, "record 3", "write to %s", "t")
	if e.Error() != "write to t: MESSAGE_TOO_LARGE: record 3" || e.Hint == "" || !errors.Is(e, kerr.MessageTooLarge) {
		t.Errorf("%v, fix %q", e, e.Hint)
	}
	if e := Explain(context.DeadlineExceeded, "", "list"); e.Error() != "list: no answer in time" || e.Hint == "" {
		t.Errorf("%v", e)
	}
	if e := Explain(errors.New("odd"), "", "list"); e.Error() != "list: odd" {
		t.Errorf("%v", e)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	a := &App{Out: &out}
	table := NewTable("NAME", ">N", "LAST")
	table.Row("ä", 5, "")
	table.Row("long", 12345, "x\ny")
	a.Print(table)
	want := "NAME      N  LAST\nä         5\nlong  12345  x\\ny\n"
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(5): "5 B", Bytes(1536): "1.5 KiB", Bytes(5 << 30): "5.0 GiB", Bytes(1 << 60): "1048576.0 TiB",
		Plural(1, "batch"): "1 batch", Plural(2, "batch"): "2 batches", Plural(0, "record"): "0 records", Ints(nil): "-", Ints([]int32{1, 2}): "1,2",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
