package suite

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/report"
)

func testRun(o Options) *Run {
	o.Log = io.Discard
	return &Run{o: o, Out: &report.Results{Absent: map[string]string{}}}
}

func TestRounds(t *testing.T) {
	r := testRun(Options{})
	count := func() (n int) {
		for range r.rounds("row", 5) {
			n++
		}
		return n
	}
	r.rowEnd = time.Now().Add(time.Hour)
	if n := count(); n != 5 || len(r.Out.Absent) != 0 {
		t.Errorf("%d rounds, left out: %v", n, r.Out.Absent)
	}
	r.rowEnd = time.Now().Add(-time.Second)
	if n := count(); n != 1 || len(r.Out.Absent) != 1 {
		t.Errorf("%d rounds without time for a second, left out: %v", n, r.Out.Absent)
	}
}

func TestShares(t *testing.T) {
	r := testRun(Options{})
	r.end = time.Now().Add(100 * time.Second)
	todo := []row{{share: 1}, {share: 3}, {share: 6}}
	for i, want := range []time.Duration{10, 33, 100} {
		r.shareOut(todo, i)
		if got := time.Until(r.rowEnd).Round(time.Second) / time.Second; got != want {
			t.Errorf("row %d has %d s of 100, want %d", i, got, want)
		}
	}
}

// TestRowsFailAlone: an error or a panic is its row's, and said; the others run
// and are saved.
func TestRowsFailAlone(t *testing.T) {
	old := rows
	defer func() { rows = old }()
	ran := 0
	rows = []row{
		{name: "bad", share: 1, f: func(*Run) error { return errors.New("broken disk") }},
		{name: "worse", share: 1, f: func(*Run) error { panic("broken code") }},
		{name: "good", share: 1, f: func(*Run) error { ran++; return nil }},
	}
	saved := 0
	r := testRun(Options{Budget: time.Hour, Save: func(*report.Results) error { saved++; return nil }})
	r.Out.Box = map[string]string{}
	r.All()
	if ran != 1 || saved != 3 || len(r.Out.Failed) != 2 {
		t.Errorf("ran %d, saved %d, failed %v", ran, saved, r.Out.Failed)
	}
	if !strings.Contains(r.Out.Markdown(), "broken disk") || !strings.Contains(r.Out.Markdown(), "panic: broken code") {
		t.Error("the table does not say why the rows failed")
	}

	r = testRun(Options{Budget: -time.Second, Save: func(*report.Results) error { return nil }})
	r.Out.Box = map[string]string{}
	ran = 0
	r.All()
	if ran != 0 || len(r.Out.Absent) != 3 {
		t.Errorf("ran %d after the end of the budget, left out %v", ran, r.Out.Absent)
	}
}

// TestQuickRows: the quick run has what the issue asks of it.
func TestQuickRows(t *testing.T) {
	var names []string
	for _, row := range testRun(Options{Quick: true}).todo() {
		names = append(names, row.name)
	}
	if !slices.Equal(names, []string{"P1", "P2", "P4", "P7", "P6", "P2-TLS"}) { // P3 comes with P1 and P2
		t.Errorf("rows of the quick run: %v", names)
	}
}
