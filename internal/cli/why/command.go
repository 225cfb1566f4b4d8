package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/cli/lines"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/line"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
)

// Command returns the why command.
func Command(a *app.App) *cobra.Command {
	var f lines.Flags
	cmd := &cobra.Command{
		Use:               "why GROUP TOPIC/PARTITION",
		Short:             "Name the record that holds a partition of a group, and what would move it",
		Example:           "  tidemark why billing orders/0\n  tidemark why billing orders/0 --format json",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: lines.CompleteGroups(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, partition, err := ParsePartition(args[1])
			if err != nil {
				return app.Usage("%v", err)
			}
			return run(cmd.Context(), a, f, args[0], topic, partition)
		},
	}
	f.Bind(cmd)
	return cmd
}

// ParsePartition reads TOPIC/PARTITION.
func ParsePartition(s string) (string, int32, error) {
	i := strings.LastIndexByte(s, '/')
	if i > 0 {
		if n, err := strconv.ParseInt(s[i+1:], 10, 32); err == nil && n >= 0 {
			return s[:i], int32(n), nil
		}
	}
	return "", 0, fmt.Errorf("%q is not TOPIC/PARTITION, such as orders/0", s)
}

// answer is what the command found.
type answer struct {
	Line line.Line `json:"line"`
	// Blocking is the record that holds the partition, nil when none does.
	Blocking *blocking `json:"blocking,omitempty"`
	// Moves says what would move it, one sentence a word of the verdict.
	Moves []string `json:"moves"`
}

type blocking struct {
	Offset int64 `json:"offset"`
	// What says what the offset is: "in flight", "effect", "position", "committed".
	What string `json:"what"`
	// Key is null when the record has none or was not read; Note says which.
	Key         *string `json:"key"`
	TimestampMs *int64  `json:"timestamp_ms"`
	AgeMs       *int64  `json:"age_ms"`
	Note        string  `json:"note,omitempty"`
}

func run(parent context.Context, a *app.App, f lines.Flags, group, topic string, partition int32) error {
	adm, err := a.Admin(parent)
	if err != nil {
		return err
	}
	defer adm.Close()
	s, err := f.Surveyor(a, adm)
	if err != nil {
		return err
	}
	ctx, cancel := a.Request(parent)
	defer cancel()
	g, err := s.Read(ctx, group)
	if err != nil {
		return app.Explain(err, "", "group %s", group)
	}
	i, err := g.Find(topic, partition)
	if err != nil {
		return app.Failed("%v", err).Fix("see \"tidemark lines\" for all groups and their partitions")
	}
	g.Readings = g.Readings[i : i+1]
	l := s.Judge(ctx, &g, f.Options())[0]
	ans := answer{Line: l, Blocking: block(l), Moves: moves(l)}
	if ans.Blocking != nil {
		ans.Blocking.read(ctx, a, l, g.At)
	}
	return show(a, ans)
}

// block finds the offset that the rest waits for.
func block(l line.Line) *blocking {
	at := func(o boundary.Offset, what string) *blocking {
		v, ok := o.Get()
		if !ok {
			return nil
		}
		return &blocking{Offset: v, What: what}
	}
	positive := func(o boundary.Offset) bool { n, _ := o.Get(); return n > 0 }
	switch {
	case l.InFlight != nil && l.InFlight.Oldest.Present():
		return at(l.InFlight.Oldest, "in flight")
	case positive(l.EffectBehind), positive(l.CommitAhead):
		return at(l.Effect, "effect")
	case positive(l.Expired):
		return at(l.LogStart, "log start")
	case positive(l.Unread):
		return at(l.Position, "position")
	case positive(l.Uncommitted):
		return at(l.Committed, "committed")
	}
	return nil
}

// read looks the record up.
func (b *blocking) read(ctx context.Context, a *app.App, l line.Line, now time.Time) {
	r, err := survey.Record(ctx, lines.Dial(a), l.Topic, l.Partition, b.Offset)
	if err != nil {
		b.Note = "the record was not read: " + err.Error()
		if errors.Is(err, survey.ErrNoRecord) {
			b.Note = "there is no record at this offset or after it"
		}
		return
	}
	ms := r.Timestamp.UnixMilli()
	age := now.UnixMilli() - ms
	b.TimestampMs, b.AgeMs = &ms, &age
	if r.Offset != b.Offset {
		b.Note = fmt.Sprintf("the log has no record at %d; the next one is at %d", b.Offset, r.Offset)
		b.Offset = r.Offset
	}
	if r.Key != nil {
		key := strconv.QuoteToGraphic(string(r.Key[:min(len(r.Key), 200)]))
		b.Key = &key
	}
}

// moves says for each word of the verdict what would move the line.
func moves(l line.Line) []string {
	var out []string
	for _, f := range l.Verdict {
		if text := move(l, f); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, p := range l.Problems {
		out = append(out, "a reading failed: "+p)
	}
	return out
}

func move(l line.Line, f line.Finding) string {
	switch f.Word {
	case line.CommitAhead:
		return fmt.Sprintf("offsets %v to %s are committed and not known to be done: a restart skips them. Stop the group, set its offset back (tidemark group reset %s --topic %s:%d --to %v), then look at who commits early: autocommit, or a reset",
			l.Effect, minusOne(l.Committed), l.Group, l.Topic, l.Partition, l.Effect)
	case line.Expired:
		return fmt.Sprintf("offsets %v to %s are gone from the log: a restart finds no place to start from. Decide about the loss, then commit %v or later; raise retention before it happens again",
			l.Committed, minusOne(l.LogStart), l.LogStart)
	case line.Stalled, line.EffectBehind:
		return inHand(l)
	case line.Working:
		return "the handlers are at it; there is nothing to do"
	case line.CommitBehind:
		return "the next commit moves it; if it stays, commits are refused: look at the consumer's log"
	case line.Unread:
		return unread(l)
	case line.Unknown:
		return "not known: " + strings.Join(l.Unknown, "; ")
	}
	return "nothing has to move: everything is read, done and committed"
}

func inHand(l line.Line) string {
	f := l.InFlight
	switch {
	case l.Stopped():
		return fmt.Sprintf("nobody works on it: the effects from %v on have to be completed, and what lies below the committed offset is not delivered again", l.Effect)
	case f == nil:
		return fmt.Sprintf("the effects from %v on have to be completed; what the consumer holds is not known", l.Effect)
	case f.Attempts > 0:
		return fmt.Sprintf("the record failed %s and is tried again: mend what the error says, or let the handler quarantine it", times(f.Attempts))
	case f.Running > 0:
		return "a handler is running on it: look at what it calls, which is slow or hangs"
	}
	return "the record waits for its turn: handlers are busy with others of its key or partition, or all of them are"
}

func unread(l line.Line) string {
	switch {
	case l.Left:
		return fmt.Sprintf("no member of the group reads the topic: subscribe to it again or, if that is meant, delete its commits (tidemark group offsets %s --delete %s)", l.Group, l.Topic)
	case l.Stopped():
		return "the group has no members: start the consumer"
	case l.Paused != "":
		return fmt.Sprintf("fetching is paused (%s): it goes on when what is in flight gets less", l.Paused)
	case l.State == "PreparingRebalance" || l.State == "CompletingRebalance":
		return "the group is rebalancing: reading goes on when that ends"
	case l.Owner == "" && l.State == "Stable":
		return "no member owns the partition: look at which topics the members subscribe to"
	}
	return "the consumer reads on by itself; if the number keeps growing, the input is faster than the handlers"
}

func minusOne(o boundary.Offset) string {
	v, _ := o.Get()
	return strconv.FormatInt(v-1, 10)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func show(a *app.App, ans answer) error {
	if a.JSON() {
		return a.Emit(ans)
	}
	l := ans.Line
	a.Printf("%s %s/%d: %s\n", l.Group, l.Topic, l.Partition, l.Verdict)
	a.Printf("  log start %v, committed %s, effect %v, position %v, log end %v (LSO %v)\n", l.LogStart, l.CommittedText(), l.Effect, l.Position, l.HighWatermark, l.LastStable)
	if b := ans.Blocking; b != nil {
		showBlocking(a, l, b)
	}
	for _, m := range ans.Moves {
		a.Printf("  what moves it: %s\n", m)
	}
	return nil
}

func showBlocking(a *app.App, l line.Line, b *blocking) {
	text := fmt.Sprintf("offset %d (%s)", b.Offset, b.What)
	if b.Key != nil {
		text += ", key " + *b.Key
	} else if b.TimestampMs != nil {
		text += ", no key"
	}
	if b.TimestampMs != nil {
		text += fmt.Sprintf(", written %s (%s ago)", time.UnixMilli(*b.TimestampMs).UTC().Format(app.TimeLayout), line.Age(boundary.At(*b.AgeMs)))
	}
	a.Printf("  held by %s\n", text)
	if b.Note != "" {
		a.Printf("  %s\n", b.Note)
	}
	f := l.InFlight
	if f == nil || !f.Oldest.Present() {
		return
	}
	a.Printf("  delivered %s before the last beacon, failed attempts: %d; in flight: %d running, %d queued, %d waiting to retry\n",
		line.Age(boundary.At(f.OldestMs)), f.Attempts, f.Running, f.Queued, f.RetryWait)
	if f.LastError != "" {
		a.Printf("  last error: %s\n", f.LastError)
	}
}
