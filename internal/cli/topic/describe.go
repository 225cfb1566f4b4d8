package topic

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/cli/configs"
	"github.com/tidemark-io/tidemark/internal/types"
)

func listCommand(a *app.App) *cobra.Command {
	var internal bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return list(cmd, a, internal) },
	}
	cmd.Flags().BoolVar(&internal, "internal", false, "list Kafka's internal topics too")
	return cmd
}

type listed struct {
	Topic       string `json:"topic"`
	TopicID     string `json:"topic_id"`
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replication_factor"`
	Internal    bool   `json:"internal"`
}

func list(cmd *cobra.Command, a *app.App, internal bool) error {
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return app.Explain(err, "", "list topics")
	}
	out := []listed{}
	table := app.NewTable("TOPIC", ">PARTITIONS", ">REPLICAS", "ID")
	for _, d := range topics.Sorted() {
		if d.IsInternal && !internal {
			continue
		}
		row := listed{Topic: d.Topic, TopicID: types.UUID(d.ID).String(), Partitions: len(d.Partitions), Replication: d.Partitions.NumReplicas(), Internal: d.IsInternal}
		out = append(out, row)
		table.Row(row.Topic, row.Partitions, row.Replication, row.TopicID)
	}
	if a.JSON() {
		return a.Emit(out)
	}
	if table.Len() == 0 {
		a.Note("no topics; create one with \"tidemark topic create NAME\"")
		return nil
	}
	a.Print(table)
	return nil
}

func describeCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "describe NAME...",
		Short:             "Show partitions, replicas and settings of topics",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteTopics,
		Annotations:       map[string]string{"topics": "many"},
		RunE:              func(cmd *cobra.Command, args []string) error { return describe(cmd, a, args) },
	}
	return cmd
}

type description struct {
	Topic       string            `json:"topic"`
	TopicID     string            `json:"topic_id"`
	Internal    bool              `json:"internal"`
	Replication int               `json:"replication_factor"`
	Settings    map[string]string `json:"settings"`
	Notes       []string          `json:"notes,omitempty"`
	Partitions  []partition       `json:"partitions"`
}

type partition struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offline"`
	Error       string  `json:"error,omitempty"`
}

func describe(cmd *cobra.Command, a *app.App, names []string) error {
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	topics, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return app.Explain(err, "", "describe topics")
	}
	out := []description{}
	for _, name := range names {
		d, ok := topics[name]
		if !ok {
			return app.Explain(kerr.UnknownTopicOrPartition, "", "describe topic %s", name)
		}
		if d.Err != nil {
			return app.Explain(d.Err, "", "describe topic %s", name)
		}
		entries, err := configs.Fetch(ctx, adm, configs.Resource{Type: kmsg.ConfigResourceTypeTopic, Name: name})
		if err != nil {
			return err
		}
		out = append(out, summarize(d, entries))
	}
	if a.JSON() {
		return a.Emit(out)
	}
	for i, d := range out {
		if i > 0 {
			a.Printf("\n")
		}
		printDescription(a, d)
	}
	return nil
}

func summarize(d kadm.TopicDetail, entries []configs.Entry) description {
	out := description{
		Topic: d.Topic, TopicID: types.UUID(d.ID).String(), Internal: d.IsInternal, Replication: d.Partitions.NumReplicas(),
		Settings: map[string]string{}, Partitions: []partition{},
	}
	for _, e := range entries {
		if e.Source == "DYNAMIC_TOPIC_CONFIG" {
			out.Settings[e.Name] = e.Text()
		}
	}
	out.Notes = configs.Notes(entries)
	for _, p := range d.Partitions.Sorted() {
		row := partition{
			Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
			Replicas: noNil(p.Replicas), ISR: noNil(p.ISR), Offline: noNil(p.OfflineReplicas),
		}
		if p.Err != nil {
			row.Error = p.Err.Error()
		}
		out.Partitions = append(out.Partitions, row)
	}
	return out
}

func noNil(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}

func printDescription(a *app.App, d description) {
	a.Printf("topic %s  id %s  %s  %s\n", d.Topic, d.TopicID,
		app.Plural(int64(len(d.Partitions)), "partition"), app.Plural(int64(d.Replication), "replica"))
	if len(d.Settings) == 0 {
		a.Printf("settings: all from the cluster\n")
	}
	names := make([]string, 0, len(d.Settings))
	for n := range d.Settings {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		a.Printf("setting %s=%s\n", n, d.Settings[n])
	}
	for _, n := range d.Notes {
		a.Printf("note: %s\n", n)
	}
	t := app.NewTable(">PARTITION", ">LEADER", ">EPOCH", "REPLICAS", "IN SYNC", "STATE")
	for _, p := range d.Partitions {
		t.Row(p.Partition, leader(p.Leader), p.LeaderEpoch, app.Ints(p.Replicas), app.Ints(p.ISR), state(p))
	}
	a.Print(t)
}

func leader(id int32) any {
	if id < 0 {
		return "none"
	}
	return id
}

// state names what is wrong with a partition, worst first.
func state(p partition) string {
	switch {
	case p.Error != "":
		return p.Error
	case p.Leader < 0:
		return "no leader"
	case len(p.Offline) > 0:
		return "offline replicas " + app.Ints(p.Offline)
	case len(p.ISR) < len(p.Replicas):
		return "under-replicated"
	}
	return "ok"
}

func alterCommand(a *app.App) *cobra.Command {
	var set, unset []string
	cmd := &cobra.Command{
		Use:               "alter NAME --set KEY=VALUE --unset KEY",
		Short:             "Change settings of a topic",
		Example:           "  tidemark topic alter orders --set retention.ms=86400000 --unset segment.bytes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := pairs("--set", set)
			if err != nil {
				return err
			}
			if len(values)+len(unset) == 0 {
				return app.Usage("nothing to change").Fix("add --set KEY=VALUE or --unset KEY")
			}
			return configs.Alter(cmd.Context(), a, configs.Resource{Type: kmsg.ConfigResourceTypeTopic, Name: args[0]}, values, unset)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "setting to give a value, as `KEY=VALUE`; may be repeated")
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "setting to take from the cluster again; may be repeated")
	return cmd
}
