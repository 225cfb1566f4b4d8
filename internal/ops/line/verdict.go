package line

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/internal/ops/boundary"
)

// Word is the kind of a finding.
type Word string

// Words of a verdict, worst first.
const (
	// CommitAhead n: committed is n above the effect. A restart would skip work.
	CommitAhead Word = "COMMIT-AHEAD"
	// Expired n: retention removed n offsets from the committed one on. A restart
	// finds its place gone.
	Expired Word = "EXPIRED"
	// Stalled at offset (age): the first record that is not closed holds the rest.
	Stalled Word = "STALLED"
	// EffectBehind n: n offsets are read and their effects are not complete.
	EffectBehind Word = "EFFECT-BEHIND"
	// Working n: n records are in flight, all of them young, none failed.
	Working Word = "WORKING"
	// CommitBehind n: n offsets are done and would be delivered again.
	CommitBehind Word = "COMMIT-BEHIND"
	// Unread n: n offsets are waiting to be read. It says nothing about work.
	Unread Word = "UNREAD"
	// Unknown: a reading is absent.
	Unknown Word = "UNKNOWN"
	// Idle: everything is read, done and committed.
	Idle Word = "IDLE"
)

// Words lists every word, worst first.
func Words() []Word {
	return []Word{CommitAhead, Expired, Stalled, EffectBehind, Working, CommitBehind, Unread, Unknown, Idle}
}

// Finding is one word with its number.
type Finding struct {
	Word Word `json:"word"`
	// N is the number of the word; STALLED has Offset and AgeMs instead.
	N      Offset `json:"n"`
	Offset Offset `json:"offset"`
	AgeMs  Offset `json:"age_ms"`
}

// String prints the finding: "UNREAD 20", "STALLED at 175 (2m3s)".
func (f Finding) String() string {
	switch {
	case f.Word == Stalled:
		age, _ := f.AgeMs.Get()
		return fmt.Sprintf("%s at %v (%s)", f.Word, f.Offset, ageText(age))
	case f.N.Present():
		return fmt.Sprintf("%s %v", f.Word, f.N)
	}
	return string(f.Word)
}

// Verdict is all that is to be said of a line, worst first. It is never empty.
type Verdict []Finding

// String joins the findings by commas.
func (v Verdict) String() string {
	parts := make([]string, len(v))
	for i, f := range v {
		parts[i] = f.String()
	}
	return strings.Join(parts, ", ")
}

// Has reports whether the verdict has the word.
func (v Verdict) Has(w Word) bool {
	for _, f := range v {
		if f.Word == w {
			return true
		}
	}
	return false
}

// MarshalJSON writes the text beside the findings.
func (v Verdict) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Text     string    `json:"text"`
		Findings []Finding `json:"findings"`
	}{v.String(), v})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Verdict) UnmarshalJSON(b []byte) error {
	var in struct {
		Findings []Finding `json:"findings"`
	}
	err := json.Unmarshal(b, &in)
	*v = in.Findings
	return err
}

// NeedsAttention reports whether somebody has to act: work may be skipped, is
// gone, or stands still.
func (v Verdict) NeedsAttention() bool { return v.Has(CommitAhead) || v.Has(Expired) || v.Has(Stalled) }

func (l *Line) judge(r Reading, o Options) {
	say := func(w Word, n Offset) {
		if v, ok := n.Get(); ok && v > 0 {
			l.Verdict = append(l.Verdict, Finding{Word: w, N: n})
		}
	}
	say(CommitAhead, l.CommitAhead)
	say(Expired, l.Expired)
	if f := l.InFlight; f != nil && f.Oldest.Present() && f.OldestMs >= o.StalledMs {
		l.Verdict = append(l.Verdict, Finding{Word: Stalled, Offset: f.Oldest, AgeMs: boundary.At(f.OldestMs)})
	}
	if l.working(o) {
		say(Working, boundary.At(l.InFlight.Total()))
	} else {
		say(EffectBehind, l.EffectBehind)
	}
	say(CommitBehind, l.CommitBehind)
	say(Unread, l.Unread)
	l.explain(r)
	if !l.known() {
		l.Verdict = append(l.Verdict, Finding{Word: Unknown})
	}
	if len(l.Verdict) == 0 {
		l.Verdict = Verdict{{Word: Idle}}
	}
}

// working: what is read and not done is in the hands of handlers, none of it
// old, none of it failed before.
func (l *Line) working(o Options) bool {
	f := l.InFlight
	behind, _ := l.EffectBehind.Get()
	return f != nil && l.EffectSource == "beacon" && behind > 0 && f.Total() > 0 &&
		f.Oldest.Present() && f.OldestMs < o.WorkingMs && f.RetryWait == 0 && f.Attempts == 0
}

// known reports whether nothing is missing that the verdict rests on. When all
// effects are known to reach the end, the position does not matter.
func (l *Line) known() bool {
	if !l.Committed.Present() || !l.LogStart.Present() || !l.Effect.Present() || !l.end().Present() {
		return false
	}
	if n, _ := l.end().Minus(l.Effect); n <= 0 {
		return true
	}
	return l.Position.Present()
}

// explain says in words what is missing and why.
func (l *Line) explain(r Reading) {
	add := func(text string) { l.Unknown = append(l.Unknown, text) }
	stale := len(l.Unknown) > 0
	switch {
	case r.NoCommit:
		add("the group has not committed in this partition")
	case !l.Committed.Present():
		add("the committed offset could not be read")
	case r.Beacon == nil && !l.Effect.Present() && !l.Position.Present():
		add("the commits carry no beacon, so position and effect are not known")
	case !l.Effect.Present() && !stale:
		add("the effect is not known: name its source with --effects")
	case !l.Position.Present() && !stale && !l.known():
		add("the position is known to the consumer alone, and its commits carry no beacon")
	}
	if !l.end().Present() {
		add("the log end could not be read")
	}
	if !l.LogStart.Present() {
		add("the log start could not be read")
	}
}

// ageText prints an age with two units at most: 350ms, 12s, 2m3s, 4h10m, 3d2h.
func ageText(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < 0:
		return "-" + ageText(-ms)
	case d < time.Second:
		return fmt.Sprintf("%dms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%ds", ms/1000)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", ms/60_000, ms/1000%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", ms/3_600_000, ms/60_000%60)
	}
	return fmt.Sprintf("%dd%dh", ms/86_400_000, ms/3_600_000%24)
}

// Age prints an age in ms, "" when it is absent.
func Age(ms Offset) string {
	v, ok := ms.Get()
	if !ok {
		return ""
	}
	return ageText(v)
}
