package drill

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/drill"
)

// Command returns the drill command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "drill", Short: "Rehearse changes on a running cluster and measure what they stop"}
	cmd.AddCommand(rebalanceCommand(a))
	return cmd
}

func rebalanceCommand(a *app.App) *cobra.Command {
	o := drill.Defaults()
	var protocols []string
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "Let a member join, one leave and one die while records flow",
		Long: "Let a member join, one leave and one die while records flow, once for each protocol: eager and cooperative\n" +
			"(both classic) and consumer (KIP-848). For each it prints which partitions stopped and for how long, which\n" +
			"commits were refused, and how many records were missed or repeated. The topic and the group are the drill's own.",
		Example: "  tidemark drill rebalance\n  tidemark drill rebalance --protocol cooperative,consumer --members 10 --partitions 60 --format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Protocols = nil
			for _, p := range protocols {
				o.Protocols = append(o.Protocols, drill.Protocol(p))
			}
			return rebalance(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&protocols, "protocol", []string{"eager", "cooperative", "consumer"}, "protocols to rehearse")
	f.IntVarP(&o.Members, "members", "m", o.Members, "members before the first event")
	f.IntVarP(&o.Partitions, "partitions", "p", o.Partitions, "partitions of the topic")
	f.Float64Var(&o.Rate, "rate", o.Rate, "records a second in each partition")
	f.Int16VarP(&o.Replicas, "replication-factor", "r", o.Replicas, "replicas of the topic; -1 takes the cluster's default.replication.factor")
	f.DurationVar(&o.Session, "session-timeout", o.Session, "how long the group waits for a dead member")
	f.DurationVar(&o.Heartbeat, "heartbeat-interval", o.Heartbeat, "how often members report")
	f.DurationVar(&o.Settle, "settle", o.Settle, "how long the group must be still before the next event")
	f.DurationVar(&o.Timeout, "event-timeout", o.Timeout, "how long to wait for the group to settle after an event")
	return cmd
}

func rebalance(ctx context.Context, a *app.App, o drill.Options) error {
	o.Bootstrap, o.TLS = a.Bootstrap, a.TLS()
	if a.Interactive {
		o.Progress = a.Note
	}
	if err := o.Validate(); err != nil {
		return app.Usage("%v", err)
	}
	cl, err := a.Client(ctx) // says in the common words when nobody answers
	if err != nil {
		return err
	}
	cl.Close()
	res, err := drill.Rebalance(ctx, o)
	if err != nil {
		return app.Failed("rebalance drill: %w", err)
	}
	if a.JSON() {
		if err := a.Emit(res); err != nil {
			return err
		}
		return verdict(res)
	}
	printResult(a, res)
	return verdict(res)
}

// verdict turns a result into the exit code: findings first, then what could
// not be measured.
func verdict(res drill.Result) error {
	var open []string
	for _, p := range res.Protocols {
		for _, e := range p.Events {
			if !e.Settled {
				return app.Finding("%s: the group did not settle after the %s", p.Protocol, e.Event)
			}
		}
		if p.Missed > 0 {
			return app.Finding("%s: %s missed, the first at partition %d offset %d", p.Protocol, app.Plural(p.Missed, "record"), p.MissedAt[0].Partition, p.MissedAt[0].Offset)
		}
		if i := slices.IndexFunc(p.Events, func(e drill.Event) bool { return p.Protocol == drill.Consumer && e.KeptStopped > 0 }); i >= 0 {
			return app.Finding("consumer: %s stopped without moving at the %s", app.Plural(int64(p.Events[i].KeptStopped), "partition"), p.Events[i].Event)
		}
		switch {
		case p.Unsupported:
			open = append(open, string(p.Protocol)+" is not served by this cluster")
		case p.ProduceErrors > 0:
			open = append(open, string(p.Protocol)+": "+app.Plural(p.ProduceErrors, "record")+" not acknowledged")
		}
	}
	if len(open) > 0 {
		return app.Inconclusive("%s", strings.Join(open, "; "))
	}
	return nil
}
