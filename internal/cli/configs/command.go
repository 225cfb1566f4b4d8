package configs

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// selector holds the flags that say whose settings are meant.
type selector struct {
	topic, group, metrics string
	broker                int32
	cluster               bool
}

func (s *selector) bind(cmd *cobra.Command, a *app.App) {
	f := cmd.Flags()
	f.StringVarP(&s.topic, "topic", "t", "", "settings of this topic")
	f.Int32Var(&s.broker, "broker", -1, "settings of the broker with this id")
	f.BoolVar(&s.cluster, "cluster", false, "cluster-wide dynamic settings of all brokers")
	f.StringVarP(&s.group, "group", "g", "", "settings of this group")
	f.StringVar(&s.metrics, "client-metrics", "", "settings of this client metrics subscription")
	_ = cmd.RegisterFlagCompletionFunc("topic", func(cmd *cobra.Command, _ []string, in string) ([]string, cobra.ShellCompDirective) {
		return a.CompleteTopics(cmd, nil, in)
	})
}

func (s *selector) resource() (Resource, error) {
	var found []Resource
	if s.topic != "" {
		found = append(found, Resource{kmsg.ConfigResourceTypeTopic, s.topic})
	}
	if s.broker >= 0 {
		found = append(found, Resource{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(s.broker))})
	}
	if s.cluster {
		found = append(found, Resource{kmsg.ConfigResourceTypeBroker, ""})
	}
	if s.group != "" {
		found = append(found, Resource{kmsg.ConfigResourceTypeGroupConfig, s.group})
	}
	if s.metrics != "" {
		found = append(found, Resource{kmsg.ConfigResourceTypeClientMetrics, s.metrics})
	}
	if len(found) != 1 {
		return Resource{}, app.Usage("say whose settings you mean, once").
			Fix("use one of --topic NAME, --broker ID, --cluster, --group NAME, --client-metrics NAME")
	}
	return found[0], nil
}

// Command returns the config command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at and change settings of topics, brokers, the cluster and groups"}
	cmd.AddCommand(describeCommand(a), setCommand(a), unsetCommand(a))
	return cmd
}

func describeCommand(a *app.App) *cobra.Command {
	var s selector
	var all, docs bool
	cmd := &cobra.Command{
		Use:   "describe [KEY...]",
		Short: "Show settings, where they come from and what they mean",
		Long: "Show settings. Without KEY only those that differ from the built-in default, or all of them with --all.\n" +
			"SOURCE says which layer a value comes from.",
		Example: "  tidemark config describe --topic orders\n  tidemark config describe --broker 1 --all\n  tidemark config describe --topic orders retention.ms --docs",
		RunE:    func(cmd *cobra.Command, args []string) error { return describe(cmd, a, &s, args, all, docs) },
	}
	s.bind(cmd, a)
	cmd.Flags().BoolVar(&all, "all", false, "show defaults too")
	cmd.Flags().BoolVar(&docs, "docs", false, "show what each setting means")
	return cmd
}

func describe(cmd *cobra.Command, a *app.App, s *selector, keys []string, all, docs bool) error {
	r, err := s.resource()
	if err != nil {
		return err
	}
	adm, err := a.Admin(cmd.Context())
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := a.Request(cmd.Context())
	defer cancel()
	entries, err := Fetch(ctx, adm, r, keys...)
	if err != nil {
		return err
	}
	notes := Notes(entries)
	shown := []Entry{}
	for _, e := range entries {
		if all || len(keys) > 0 || e.Source != "DEFAULT_CONFIG" {
			shown = append(shown, e)
		}
	}
	if missing := absent(keys, entries); missing != "" {
		return app.Failed("%s has no setting %s", r, missing).Fix("see \"tidemark config describe --all\" for the names")
	}
	if a.JSON() {
		return a.Emit(map[string]any{"resource": r.String(), "settings": shown, "notes": cmpNil(notes)})
	}
	printEntries(a, r, shown, docs)
	for _, n := range notes {
		a.Printf("note: %s\n", n)
	}
	return nil
}

func cmpNil(notes []string) []string {
	if notes == nil {
		return []string{}
	}
	return notes
}

func absent(keys []string, entries []Entry) string {
	var missing []string
	for _, k := range keys {
		found := false
		for _, e := range entries {
			found = found || e.Name == k
		}
		if !found {
			missing = append(missing, k)
		}
	}
	return strings.Join(missing, ", ")
}

// sourceWords shortens Kafka's names of sources for people.
var sourceWords = map[string]string{
	"DYNAMIC_TOPIC_CONFIG": "topic", "DYNAMIC_BROKER_CONFIG": "broker", "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
	"STATIC_BROKER_CONFIG": "static", "DEFAULT_CONFIG": "default", "GROUP_CONFIG": "group", "CLIENT_METRICS_CONFIG": "client-metrics",
}

func printEntries(a *app.App, r Resource, entries []Entry, docs bool) {
	if len(entries) == 0 {
		a.Note("%s: every setting has its default; see them with --all", r)
		return
	}
	t := app.NewTable("SETTING", "VALUE", "SOURCE", "TYPE", "CHANGE")
	for _, e := range entries {
		change := "at run time"
		if e.ReadOnly {
			change = "restart"
		}
		t.Row(e.Name, e.Text(), cmp.Or(sourceWords[e.Source], e.Source), e.Type, change)
	}
	a.Print(t)
	if !docs {
		return
	}
	for _, e := range entries {
		a.Printf("\n%s\n  %s\n", e.Name, cmp.Or(e.Doc, "(no documentation)"))
	}
}

func setCommand(a *app.App) *cobra.Command {
	var s selector
	cmd := &cobra.Command{
		Use:     "set KEY=VALUE...",
		Short:   "Give settings a value",
		Example: "  tidemark config set --topic orders retention.ms=86400000\n  tidemark config set --cluster log.cleaner.threads=2",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			values := map[string]string{}
			for _, arg := range args {
				k, v, ok := strings.Cut(arg, "=")
				if !ok || k == "" {
					return app.Usage("%q is not KEY=VALUE", arg)
				}
				values[k] = v
			}
			r, err := s.resource()
			if err != nil {
				return err
			}
			return Alter(cmd.Context(), a, r, values, nil)
		},
	}
	s.bind(cmd, a)
	return cmd
}

func unsetCommand(a *app.App) *cobra.Command {
	var s selector
	cmd := &cobra.Command{
		Use:     "unset KEY...",
		Short:   "Let settings take the value of the layer below again",
		Example: "  tidemark config unset --topic orders retention.ms",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := s.resource()
			if err != nil {
				return err
			}
			return Alter(cmd.Context(), a, r, map[string]string{}, args)
		},
	}
	s.bind(cmd, a)
	return cmd
}
