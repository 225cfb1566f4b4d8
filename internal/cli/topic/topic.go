package topic

import (
	"bufio"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Command returns the topic command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "topic", Short: "Create, look at, change and delete topics"}
	cmd.AddCommand(createCommand(a), listCommand(a), describeCommand(a), alterCommand(a), deleteCommand(a), growCommand(a))
	return cmd
}

// pairs splits KEY=VALUE arguments.
func pairs(flag string, args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range args {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, app.Usage("%s %q is not KEY=VALUE", flag, s)
		}
		out[k] = v
	}
	return out, nil
}

type createOptions struct {
	partitions  int32
	replication int16
	configs     []string
	ifNotExists bool
	dryRun      bool
}

func createCommand(a *app.App) *cobra.Command {
	var o createOptions
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Example: `  tidemark topic create orders --partitions 6
  tidemark topic create audit --config retention.ms=-1 --config min.insync.replicas=2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return create(cmd, a, args[0], o) },
	}
	f := cmd.Flags()
	f.Int32VarP(&o.partitions, "partitions", "p", -1, "number of partitions; -1 takes the cluster's num.partitions")
	f.Int16VarP(&o.replication, "replication-factor", "r", -1, "number of replicas; -1 takes the cluster's default.replication.factor")
	f.StringArrayVarP(&o.configs, "config", "c", nil, "topic setting as `KEY=VALUE`; may be repeated")
	f.BoolVar(&o.ifNotExists, "if-not-exists", false, "succeed when the topic is already there")
	f.BoolVar(&o.dryRun, "validate-only", false, "ask the cluster whether it would, and create nothing")
	return cmd
}

// created is the JSON form of the result.
type created struct {
	Topic       string `json:"topic"`
	TopicID     string `json:"topic_id,omitempty"`
	Partitions  int32  `json:"partitions"`
	Replication int16  `json:"replication_factor"`
	Existed     bool   `json:"existed"`
	DryRun      bool   `json:"validate_only"`
}

func create(cmd *cobra.Command, a *app.App, name string, o createOptions) error {
	settings, err := pairs("--config", o.configs)
	if err != nil {
		return err
	}
	configs := map[string]*string{}
	for k, v := range settings {
		configs[k] = &v
	}
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	call := adm.CreateTopics
	if o.dryRun {
		call = adm.ValidateCreateTopics
	}
	answers, err := call(ctx, o.partitions, o.replication, configs, name)
	if err != nil {
		return app.Explain(err, "", "create topic %s", name)
	}
	r := answers[name]
	existed := errors.Is(r.Err, kerr.TopicAlreadyExists) && o.ifNotExists
	if r.Err != nil && !existed {
		return app.Explain(r.Err, r.ErrMessage, "create topic %s", name)
	}
	out := created{Topic: name, Partitions: r.NumPartitions, Replication: r.ReplicationFactor, Existed: existed, DryRun: o.dryRun}
	if r.ID != (kadm.TopicID{}) {
		out.TopicID = types.UUID(r.ID).String()
	}
	if a.JSON() {
		return a.Emit(out)
	}
	switch {
	case existed:
		a.Printf("topic %s is already there\n", name)
	case o.dryRun:
		a.Printf("topic %s would be created: %s, %s\n", name, app.Plural(int64(r.NumPartitions), "partition"), app.Plural(int64(r.ReplicationFactor), "replica"))
	default:
		a.Printf("created topic %s: %s, %s\n", name, app.Plural(int64(r.NumPartitions), "partition"), app.Plural(int64(r.ReplicationFactor), "replica"))
	}
	return nil
}

func growCommand(a *app.App) *cobra.Command {
	var partitions int
	cmd := &cobra.Command{
		Use:               "grow NAME --partitions N",
		Short:             "Add partitions to a topic, up to N in all",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteTopics,
		RunE:              func(cmd *cobra.Command, args []string) error { return grow(cmd, a, args[0], partitions) },
	}
	cmd.Flags().IntVarP(&partitions, "partitions", "p", 0, "number of partitions the topic shall have")
	_ = cmd.MarkFlagRequired("partitions")
	return cmd
}

func grow(cmd *cobra.Command, a *app.App, name string, partitions int) error {
	if partitions < 1 {
		return app.Usage("--partitions is %d; it must be at least 1", partitions)
	}
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	answers, err := adm.UpdatePartitions(ctx, partitions, name)
	if err != nil {
		return app.Explain(err, "", "grow topic %s", name)
	}
	if r := answers[name]; r.Err != nil {
		return app.Explain(r.Err, r.ErrMessage, "grow topic %s", name)
	}
	if a.JSON() {
		return a.Emit(map[string]any{"topic": name, "partitions": partitions})
	}
	a.Printf("topic %s has %s\n", name, app.Plural(int64(partitions), "partition"))
	a.Note("note: from now on producers may send a key to another partition than before")
	return nil
}

func deleteCommand(a *app.App) *cobra.Command {
	var yes, ifExists bool
	cmd := &cobra.Command{
		Use:               "delete NAME...",
		Short:             "Delete topics and all their records",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteTopics,
		Annotations:       map[string]string{"topics": "many"},
		RunE:              func(cmd *cobra.Command, args []string) error { return remove(cmd, a, args, yes, ifExists) },
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "succeed when a topic is not there")
	return cmd
}

func remove(cmd *cobra.Command, a *app.App, names []string, yes, ifExists bool) error {
	if !yes {
		if err := confirm(a, names); err != nil {
			return err
		}
	}
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	answers, err := adm.DeleteTopics(ctx, names...)
	if err != nil {
		return app.Explain(err, "", "delete topics")
	}
	deleted := []string{}
	var failed error
	for _, r := range answers.Sorted() {
		switch {
		case r.Err == nil:
			deleted = append(deleted, r.Topic)
		case ifExists && errors.Is(r.Err, kerr.UnknownTopicOrPartition):
		case failed == nil:
			failed = app.Explain(r.Err, r.ErrMessage, "delete topic %s", r.Topic)
		}
	}
	if a.JSON() {
		if err := a.Emit(map[string]any{"deleted": deleted}); err != nil {
			return err
		}
	} else if len(deleted) > 0 {
		a.Printf("deleted %s\n", strings.Join(deleted, ", "))
	}
	return failed
}

func confirm(a *app.App, names []string) error {
	if !a.Interactive {
		return app.Refused("deleting %s needs a yes", strings.Join(names, ", ")).Fix("add --yes")
	}
	a.Note("Delete %s with all records? Type yes to go on.", strings.Join(names, ", "))
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && line == "" || strings.TrimSpace(line) != "yes" {
		return app.Refused("nothing was deleted")
	}
	return nil
}
