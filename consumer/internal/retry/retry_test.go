package retry

import "testing"

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		attempts int
		random   float64
		want     int64
	}{
		{1, 0, 50}, {1, 0.999999, 99}, {2, 0, 100}, {3, 0.5, 300}, {9, 0, 5000}, {100, 0.5, 7500}, {0, 0, 50},
	} {
		if got := DelayMs(c.attempts, 100, 10_000, c.random); got != c.want {
			t.Errorf("attempt %d, random %v: %d ms, want %d", c.attempts, c.random, got, c.want)
		}
	}
}

func TestSourceExpires(t *testing.T) {
	for _, c := range []struct {
		ts, retention, due int64
		want               bool
	}{
		{1000, 500, 1499, false}, {1000, 500, 1500, true}, {1000, -1, 1 << 60, false}, {-1, 500, 1 << 60, false},
	} {
		if got := SourceExpires(c.ts, c.retention, c.due); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestBudgetOutage: an outage of a thousand records drains one of them; a healthy
// stream with one bad record in twenty loses none of its room.
func TestBudgetOutage(t *testing.T) {
	b := NewBudget(1, 0.1, 300_000)
	out := 0
	for i := range int64(1000) {
		if b.Take(i * 100) {
			out++
		}
	}
	if out != 1 {
		t.Errorf("the outage quarantined %d records, want the one free", out)
	}
	b = NewBudget(1, 0.1, 300_000)
	for i := range int64(1000) {
		if i%20 == 19 {
			if !b.Take(i * 100) {
				t.Fatalf("record %d: the budget of a healthy stream is spent", i)
			}
			continue
		}
		b.Success(i * 100)
	}
}

// TestBudgetWindow: what happened before the window does not count, for or
// against.
func TestBudgetWindow(t *testing.T) {
	b := NewBudget(1, 1, 10_000)
	b.Success(0)
	b.Success(0)
	for range 3 {
		if !b.Take(10) {
			t.Fatal("2 earned + 1 free were not given")
		}
	}
	if b.Take(20) {
		t.Error("a fourth was given")
	}
	if !b.Take(20_000) || b.Take(20_001) {
		t.Error("after the window exactly the free one is back")
	}
	if !Unlimited().Take(0) {
		t.Error("an unlimited budget refused")
	}
}
