package quarantine

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// Command returns the quarantine command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quarantine",
		Short: "List, show, redrive and drop quarantined records",
		Long: "Works on a quarantine topic of the consumer library. A quarantined record is not a success: it waits here\n" +
			"until somebody redrives it to where it came from, or drops it. Both only mark it as handled; retention of the\n" +
			"topic removes it. Nothing is changed without --apply.",
	}
	cmd.AddCommand(listCommand(a), showCommand(a), redriveCommand(a), dropCommand(a))
	return cmd
}

// selection picks records.
type selection struct {
	all    bool
	origin string
	reason string
}

func (s *selection) bind(cmd *cobra.Command, all string) {
	cmd.Flags().BoolVar(&s.all, "all", false, all)
	cmd.Flags().StringVar(&s.origin, "origin", "", "only records that came from this `TOPIC`")
	cmd.Flags().StringVar(&s.reason, "reason", "", "only records whose reason contains this `TEXT`")
}

func (s *selection) matches(e entry) bool {
	if s.origin == "" && s.reason == "" {
		return true
	}
	return e.Origin != nil && (s.origin == "" || e.Origin.Topic == s.origin) && strings.Contains(e.Origin.Reason, s.reason)
}

func listCommand(a *app.App) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use: "list TOPIC", Short: "List the records that wait in a quarantine topic",
		Example: "  tidemark quarantine list orders.quarantine\n  tidemark quarantine list orders.quarantine --reason timeout --format json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.CompleteTopics,
		RunE: func(cmd *cobra.Command, args []string) error { return list(cmd.Context(), a, args[0], s) },
	}
	s.bind(cmd, "list handled records too")
	return cmd
}

func list(ctx context.Context, a *app.App, topic string, s selection) error {
	adm, err := a.Admin(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	c, err := load(ctx, a, adm, topic)
	if err != nil {
		return err
	}
	entries, handled := []entry{}, 0
	for _, r := range c.records {
		e := c.entry(r)
		if e.Handled {
			handled++
		}
		if (s.all || !e.Handled) && s.matches(e) {
			entries = append(entries, e)
		}
	}
	if a.JSON() {
		return a.Emit(map[string]any{"topic": topic, "records": entries, "handled": handled})
	}
	t := app.NewTable("RECORD", "ORIGIN", "GROUP", ">ATTEMPTS", ">REDRIVES", "AGE", "HANDLED", "KEY", "REASON")
	for _, e := range entries {
		row := []any{fmt.Sprintf("%d:%d", e.Partition, e.Offset), "?", "?", "?", "?", "?", yes(e.Handled), printable(e.Key), e.Error}
		if o := e.Origin; o != nil {
			age := time.Since(time.UnixMilli(o.QuarantinedMs)).Round(time.Second)
			row = []any{row[0], fmt.Sprintf("%s/%d:%d", o.Topic, o.Partition, o.Offset), o.Group, o.Attempts, o.Redrives, age, row[6], row[7], clip(o.Reason, 100)}
		}
		t.Row(row...)
	}
	a.Print(t)
	a.Note("%s, %d handled", app.Plural(int64(len(c.records)), "record"), handled)
	return nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func printable(key *string) string {
	if key == nil {
		return "-"
	}
	return clip(strconv.QuoteToGraphic(*key), 40)
}

func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func showCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "show TOPIC PARTITION:OFFSET", Short: "Show one quarantined record whole",
		Example: "  tidemark quarantine show orders.quarantine 0:17",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.CompleteTopics,
		RunE: func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), a, args[0], args[1]) },
	}
}

func show(ctx context.Context, a *app.App, topic, at string) error {
	adm, err := a.Admin(ctx)
	if err != nil {
		return err
	}
	defer adm.Close()
	c, err := load(ctx, a, adm, topic)
	if err != nil {
		return err
	}
	picked, err := c.pick([]string{at})
	if err != nil {
		return err
	}
	r := picked[0]
	e := c.entry(r)
	headers := make([]map[string]any, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = map[string]any{"key": h.Key, "value": text(h.Value)}
	}
	if a.JSON() {
		return a.Emit(map[string]any{"record": e, "timestamp_ms": r.Timestamp.UnixMilli(), "headers": headers, "value": text(r.Value)})
	}
	a.Printf("%s %d:%d, handled: %s\n", topic, r.Partition, r.Offset, yes(e.Handled))
	if o := e.Origin; o != nil {
		a.Printf("from %s/%d offset %d, group %s, %d attempts, %d redrives, quarantined %s\nreason: %s\n", o.Topic, o.Partition, o.Offset, o.Group,
			o.Attempts, o.Redrives, time.UnixMilli(o.QuarantinedMs).UTC().Format(app.TimeLayout), o.Reason)
	} else {
		a.Printf("origin: %s\n", e.Error)
	}
	a.Printf("key: %s\n", printable(e.Key))
	for _, h := range r.Headers {
		a.Printf("header %s: %v\n", h.Key, text(h.Value))
	}
	a.Printf("value: %v\n", text(r.Value))
	return nil
}

// text prints bytes: as they are when they are text, else in base64; null stays
// null.
func text(b []byte) any {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return string(b)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

// pick finds records by PARTITION:OFFSET.
func (c *contents) pick(at []string) ([]*kgo.Record, error) {
	var out []*kgo.Record
	for _, s := range at {
		p, o, ok := strings.Cut(s, ":")
		partition, err1 := strconv.ParseInt(p, 10, 32)
		offset, err2 := strconv.ParseInt(o, 10, 64)
		if !ok || err1 != nil || err2 != nil {
			return nil, app.Usage("%q is not PARTITION:OFFSET, such as 0:17", s)
		}
		found := false
		for _, r := range c.records {
			if int64(r.Partition) == partition && r.Offset == offset {
				out, found = append(out, r), true
			}
		}
		if !found {
			return nil, app.Failed("%s has no record at %s", c.topic, s).Fix("see \"tidemark quarantine list %s --all\"", c.topic)
		}
	}
	return out, nil
}
