package offsets

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

// Command returns the offsets command.
func Command(a *app.App) *cobra.Command {
	var at string
	var committed bool
	cmd := &cobra.Command{
		Use:               "offsets TOPIC",
		Short:             "Show the first and next offset of each partition, or the offset at a time",
		Example:           "  tidemark offsets orders\n  tidemark offsets orders --at 2026-11-30T12:00:00Z\n  tidemark offsets orders --at 1h",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteTopics,
		RunE:              func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args[0], at, committed) },
	}
	cmd.Flags().StringVar(&at, "at", "", "also show the first offset at or after this `TIME`: RFC 3339, milliseconds, or an age such as 90m")
	cmd.Flags().BoolVar(&committed, "read-committed", false, "end at the last stable offset instead of the high watermark")
	return cmd
}

// row is one partition. What was not read is null.
type row struct {
	Partition   int32  `json:"partition"`
	Start       *int64 `json:"start"`
	End         *int64 `json:"end"`
	LeaderEpoch *int32 `json:"leader_epoch"`
	At          *int64 `json:"at,omitempty"`      // -1: nothing that new
	AtTime      *int64 `json:"at_time,omitempty"` // timestamp of that record in ms
	Error       string `json:"error,omitempty"`
}

func run(parent context.Context, a *app.App, topic, at string, committed bool) error {
	var atMs int64
	if at != "" {
		t, err := app.ParseTime(at, time.Now())
		if err != nil {
			return app.Usage("--at: %v", err)
		}
		atMs = t.UnixMilli()
	}
	adm, err := a.Admin(parent)
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(parent)
	defer cancel()
	rows, err := collect(ctx, adm, topic, at != "", atMs, committed)
	if err != nil {
		return app.Explain(err, "", "offsets of %s", topic)
	}
	return show(a, topic, rows, at != "")
}

// collect reads every partition; what failed for one is in its row.
func collect(ctx context.Context, adm *app.Admin, topic string, timed bool, atMs int64, committed bool) ([]row, error) {
	logs, err := logbounds.Read(ctx, adm.Raw, topic)
	if err == nil {
		err = logs.Topics[topic].Err
	}
	if err != nil {
		return nil, err
	}
	ends := logs.HighWatermark
	if committed {
		ends = logs.LastStable
	}
	var times kadm.ListedOffsets
	if timed {
		times = logs.At(ctx, adm.Raw, atMs)
	}
	var rows []row
	for _, p := range slices.Sorted(slices.Values(logs.Topics[topic].Partitions)) {
		r := row{Partition: p}
		start, startErr := logs.Find(logs.LogStart, topic, p)
		end, endErr := logs.Find(ends, topic, p)
		if startErr == nil {
			r.Start = &start.Offset
		}
		if endErr == nil {
			r.End, r.LeaderEpoch = &end.Offset, &end.LeaderEpoch
		}
		err := cmp.Or(startErr, endErr)
		if timed {
			at, atErr := logs.Find(times, topic, p)
			if err = cmp.Or(err, atErr); atErr == nil {
				r.At, r.AtTime = &at.Offset, &at.Timestamp
			}
		}
		if err != nil {
			r.Error = err.Error()
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func show(a *app.App, topic string, rows []row, timed bool) error {
	var failed error
	total := int64(0)
	for _, r := range rows {
		if r.Error != "" && failed == nil {
			failed = app.Inconclusive("offsets of %s/%d: %s", topic, r.Partition, r.Error).Fix("see \"tidemark topic describe %s\"", topic)
		}
		if r.Start != nil && r.End != nil {
			total += *r.End - *r.Start
		}
	}
	if a.JSON() {
		if err := a.Emit(map[string]any{"topic": topic, "partitions": rows}); err != nil {
			return err
		}
		return failed
	}
	titles := []string{">PARTITION", ">START", ">END", ">SPAN", ">EPOCH"}
	if timed {
		titles = append(titles, ">AT", "TIME")
	}
	t := app.NewTable(titles...)
	for _, r := range rows {
		var span *int64
		if r.Start != nil && r.End != nil {
			n := *r.End - *r.Start
			span = &n
		}
		cells := []any{r.Partition, cell(r.Start), cell(r.End), cell(span), cell(r.LeaderEpoch)}
		if timed {
			cells = append(cells, atCell(r), timeCell(r))
		}
		t.Row(cells...)
	}
	a.Print(t)
	a.Note("%s between start and end", app.Plural(total, "offset"))
	return failed
}

// cell prints what was read; "?" stands for what was not, as in "tidemark lines".
func cell[T int32 | int64](n *T) any {
	if n == nil {
		return "?"
	}
	return *n
}

func atCell(r row) any {
	if r.At != nil && *r.At < 0 {
		return "none"
	}
	return cell(r.At)
}

func timeCell(r row) string {
	if r.AtTime == nil || *r.AtTime < 0 {
		return ""
	}
	return time.UnixMilli(*r.AtTime).UTC().Format(app.TimeLayout)
}
