package line

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
)

const now = 1_796_055_153_123

// reading is a partition with a log of 0..end, a commit and a beacon of a
// moment ago.
func reading(end, committed, position, effect int64) Reading {
	r := outside(end, committed)
	r.Beacon = &beacon.Beacon{AtMs: now - 1000, Position: position, Effect: effect, OldestOffset: -1, Generation: 42}
	return r
}

// outside is the same without our library.
func outside(end, committed int64) Reading {
	return Reading{
		Group: "g", Topic: "orders", State: "Stable",
		LogStart: boundary.At(0), HighWatermark: boundary.At(end), LastStable: boundary.At(end), Committed: boundary.At(committed),
	}
}

func TestVerdicts(t *testing.T) {
	with := func(r Reading, change func(*Reading)) Reading {
		change(&r)
		return r
	}
	inFlight := func(running, queued, retry int, oldest, ageMs int64, attempts int) func(*Reading) {
		return func(r *Reading) {
			b := r.Beacon
			b.Running, b.Queued, b.RetryWait, b.OldestOffset, b.OldestAgeMs, b.Attempts = running, queued, retry, oldest, ageMs, attempts
		}
	}
	aged := func(r *Reading) { r.Beacon.AtMs = now - 31_000 }
	empty := func(r *Reading) { r.State = "Empty" }
	left := func(r *Reading) { r.Left = true }
	effect := func(v int64) func(*Reading) { return func(r *Reading) { r.Effect = boundary.At(v) } }
	for _, c := range []struct {
		name, want string
		r          Reading
	}{
		// The seed's two examples.
		{"seed: 200/180/200/175", "COMMIT-AHEAD 5, EFFECT-BEHIND 25", reading(200, 180, 200, 175)},
		{"seed: 200/180/180/180", "UNREAD 20", reading(200, 180, 180, 180)},
		// The healthy ones.
		{"all done", "IDLE", reading(200, 200, 200, 200)},
		{"nothing was ever written", "IDLE", reading(0, 0, 0, 0)},
		{"working", "WORKING 25", with(reading(200, 175, 200, 175), inFlight(20, 5, 0, 175, 900, 0))},
		{"working and more to read", "WORKING 25, UNREAD 100", with(reading(300, 175, 200, 175), inFlight(20, 5, 0, 175, 900, 0))},
		{"old work", "EFFECT-BEHIND 25", with(reading(200, 175, 200, 175), inFlight(20, 5, 0, 175, 12_000, 0))},
		{"failing work", "EFFECT-BEHIND 25", with(reading(200, 175, 200, 175), inFlight(20, 4, 1, 175, 900, 1))},
		{"head stands still", "STALLED at 175 (2m3s), EFFECT-BEHIND 25", with(reading(200, 175, 200, 175), inFlight(1, 24, 0, 175, 123_000, 9))},
		{"effects done, commit late", "COMMIT-BEHIND 20", reading(200, 180, 200, 200)},
		{"retention passed the commit", "EXPIRED 7, UNREAD 20", with(reading(200, 180, 180, 180), func(r *Reading) { r.LogStart = boundary.At(187) })},
		// Transactions: a marker at the end is no record, and LSO decides.
		{"marker at the end", "IDLE", reading(201, 201, 201, 201)},
		{"open transaction above", "IDLE", with(reading(200, 200, 200, 200), func(r *Reading) { r.HighWatermark = boundary.At(230) })},
		{"reads uncommitted", "UNREAD 20", with(reading(200, 210, 210, 210), func(r *Reading) { r.HighWatermark = boundary.At(230) })},
		// Beacons that are old.
		{"old beacon", "UNKNOWN", with(reading(200, 180, 180, 180), aged)},
		{"old beacon, nothing new since", "IDLE", with(reading(200, 200, 200, 200), aged)},
		{"old beacon with work in hand", "UNKNOWN", with(with(reading(200, 200, 200, 200), inFlight(1, 0, 0, 199, 5, 0)), aged)},
		// Groups without members keep their lines.
		{"stopped, more to read", "UNREAD 25", with(with(reading(200, 175, 200, 175), inFlight(20, 5, 0, 175, 900, 0)), empty)},
		{"stopped at the end", "IDLE", with(reading(200, 200, 200, 200), empty)},
		{"stopped, skipped work", "COMMIT-AHEAD 5, EFFECT-BEHIND 5, UNREAD 20", with(reading(200, 180, 200, 175), empty)},
		{"stopped, no beacon", "UNREAD 20, UNKNOWN", with(outside(200, 180), empty)},
		// So do topics that a group has left, and they are told apart (klag#92).
		{"left topic", "UNREAD 25", with(with(reading(200, 175, 200, 175), inFlight(20, 5, 0, 175, 900, 0)), left)},
		{"left topic, old beacon", "UNREAD 20", with(with(reading(200, 180, 180, 180), aged), left)},
		{"left topic, no beacon", "UNREAD 20, UNKNOWN", with(outside(200, 180), left)},
		// Groups without our library: committed at the end is not "done".
		{"foreign", "UNKNOWN", outside(200, 180)},
		{"foreign, all committed", "UNKNOWN", outside(200, 200)},
		{"foreign, expired", "EXPIRED 7, UNKNOWN", with(outside(200, 180), func(r *Reading) { r.LogStart = boundary.At(187) })},
		// An effect source tells what the group does not.
		{"source: done to the end", "IDLE", with(outside(200, 200), effect(200))},
		{"source: behind the commit", "COMMIT-AHEAD 5, UNKNOWN", with(outside(200, 180), effect(175))},
		{"source: beyond the commit", "COMMIT-BEHIND 10, UNKNOWN", with(outside(200, 180), effect(190))},
		{"source counts before the beacon", "COMMIT-AHEAD 5, EFFECT-BEHIND 5", with(reading(200, 200, 200, 200), effect(195))},
		// Failed readings are absent, never 0.
		{"no end", "UNKNOWN", with(reading(0, 180, 180, 180), func(r *Reading) { r.HighWatermark, r.LastStable = Offset{}, Offset{} })},
		{"no commit", "UNKNOWN", with(outside(200, 0), func(r *Reading) { r.Committed, r.NoCommit = Offset{}, true })},
		{"commit not read", "UNREAD 20, UNKNOWN", with(reading(200, 180, 180, 180), func(r *Reading) { r.Committed = Offset{} })},
		{"no last stable offset", "UNREAD 20", with(reading(200, 180, 180, 180), func(r *Reading) { r.LastStable = Offset{} })},
		{"a clock ahead", "UNREAD 20", with(reading(200, 180, 180, 180), func(r *Reading) { r.Beacon.AtMs = now + 5000 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := Judge(c.r, Options{NowMs: now})
			if got := l.Verdict.String(); got != c.want {
				t.Errorf("%s, want %s\n%+v", got, c.want, l)
			}
			if l.Verdict.Has(Unknown) != (len(l.Unknown) > 0) {
				t.Errorf("UNKNOWN and its reasons differ: %s, %q", l.Verdict, l.Unknown)
			}
		})
	}
}

// TestSeedNumbers: of the seed's first example 25 is the number that matters,
// and of the second none is about work.
func TestSeedNumbers(t *testing.T) {
	l := Judge(reading(200, 180, 200, 175), Options{NowMs: now})
	if l.EffectBehind != boundary.At(25) || l.Unread != boundary.At(0) || l.CommitAhead != boundary.At(5) || l.CommitBehind != boundary.At(0) {
		t.Errorf("%+v", l)
	}
	l = Judge(reading(200, 180, 180, 180), Options{NowMs: now})
	if l.EffectBehind != boundary.At(0) || l.Unread != boundary.At(20) || l.CommitBehind != boundary.At(0) || l.CommitAhead != boundary.At(0) {
		t.Errorf("%+v", l)
	}
}

// TestAbsentStaysAbsent: a gap with an absent end is null, in JSON too, and no
// field and no word is called lag.
func TestAbsentStaysAbsent(t *testing.T) {
	l := Judge(outside(200, 180), Options{NowMs: now})
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"position":null`, `"effect":null`, `"unread":null`, `"effect_behind":null`, `"uncommitted":20`, `"beacon_age_ms":null`, `"text":"UNKNOWN"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
	if strings.Contains(strings.ToLower(string(b)), "lag") {
		t.Errorf("something is called lag: %s", b)
	}
}

func TestAges(t *testing.T) {
	r := reading(200, 180, 180, 180)
	r.UnreadMs, r.UncommittedMs = boundary.At(now-90_000), boundary.At(now+2000)
	l := Judge(r, Options{NowMs: now})
	if Age(l.UnreadAgeMs) != "1m30s" || Age(l.CommitAgeMs) != "-2s" || Age(Offset{}) != "" {
		t.Errorf("%s %s", Age(l.UnreadAgeMs), Age(l.CommitAgeMs))
	}
	for ms, want := range map[int64]string{0: "0ms", 999: "999ms", 59_999: "59s", 3_599_000: "59m59s", 90_000_000: "1d1h", 7_200_000: "2h0m"} {
		if got := ageText(ms); got != want {
			t.Errorf("%d ms: %s, want %s", ms, got, want)
		}
	}
}

// TestVerdictProperty: whatever was read, a verdict is there, IDLE stands alone
// and only where everything is known to be done.
func TestVerdictProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := func(name string) Offset {
			if rapid.IntRange(0, 4).Draw(t, name+" absent") == 0 {
				return Offset{}
			}
			return boundary.At(rapid.Int64Range(0, 300).Draw(t, name))
		}
		r := Reading{
			State:    rapid.SampledFrom([]string{"", "Stable", "Empty", "Dead", "PreparingRebalance"}).Draw(t, "state"),
			LogStart: offset("start"), HighWatermark: offset("hw"), LastStable: offset("lso"), Committed: offset("committed"), Effect: offset("effect"),
		}
		if rapid.Bool().Draw(t, "beacon") {
			r.Beacon = &beacon.Beacon{
				AtMs: now - rapid.Int64Range(-1000, 100_000).Draw(t, "age"), Position: rapid.Int64Range(0, 300).Draw(t, "position"),
				Effect: rapid.Int64Range(0, 300).Draw(t, "beacon effect"), Running: rapid.IntRange(0, 3).Draw(t, "running"),
				OldestOffset: rapid.Int64Range(-1, 300).Draw(t, "oldest"), OldestAgeMs: rapid.Int64Range(0, 100_000).Draw(t, "oldest age"),
			}
		}
		l := Judge(r, Options{NowMs: now})
		if len(l.Verdict) == 0 {
			t.Fatal("no verdict")
		}
		if !l.Verdict.Has(Idle) {
			return
		}
		if len(l.Verdict) != 1 || !l.Effect.Present() || !l.Committed.Present() || !l.end().Present() {
			t.Fatalf("%s: %+v", l.Verdict, l)
		}
		if n, _ := l.end().Minus(l.Effect); n > 0 {
			t.Fatalf("IDLE with the effect %d below the end: %+v", n, l)
		}
		if n, _ := l.Committed.Minus(l.Effect); n != 0 {
			t.Fatalf("IDLE with committed at %v and the effect at %v", l.Committed, l.Effect)
		}
	})
}

// TestStoppedHoldsNothing: what a group without members holds is known. It is
// nothing, and not a reading that failed.
func TestStoppedHoldsNothing(t *testing.T) {
	for _, r := range []Reading{reading(200, 180, 200, 180), outside(200, 180)} {
		r.State = "Empty"
		l := Judge(r, Options{NowMs: now})
		if l.InFlight == nil || l.InFlight.Total() != 0 || l.InFlight.Oldest.Present() || !l.Stopped() {
			t.Errorf("in flight %+v", l.InFlight)
		}
	}
}
