package lines

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/ops/effectsource"
	"github.com/tidemark-io/tidemark/internal/ops/line"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
)

// Flags are the flags of every command that judges lines.
type Flags struct {
	Effects        []string
	EffectsQuery   string
	BeaconInterval time.Duration
	StalledAfter   time.Duration
	WorkingUpTo    time.Duration
	NoAges         bool
}

// Bind adds the flags to a command.
func (f *Flags) Bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.Effects, "effects", nil, "`SOURCE` that lists effects: file:PATH, topic:NAME (a quarantine topic too), sqlite:PATH or postgres://...; may be repeated")
	fl.StringVar(&f.EffectsQuery, "effects-query", "", "`SQL` of a database source: columns topic, partition and offset (or effect), $1 is the group; default: the inbox of consumer/effect")
	fl.DurationVar(&f.BeaconInterval, "beacon-interval", line.DefaultBeaconIntervalMs*time.Millisecond, "how often consumers send their beacons; one older than three times this says nothing about now")
	fl.DurationVar(&f.StalledAfter, "stalled-after", line.DefaultStalledMs*time.Millisecond, "age of the oldest record in flight from which a partition is STALLED")
	fl.DurationVar(&f.WorkingUpTo, "working-up-to", line.DefaultWorkingMs*time.Millisecond, "age of the oldest record in flight up to which a partition is WORKING")
	fl.BoolVar(&f.NoAges, "no-ages", false, "do not read the records at the boundaries for their timestamps")
}

// Options are the thresholds.
func (f *Flags) Options() line.Options {
	return line.Options{
		BeaconIntervalMs: f.BeaconInterval.Milliseconds(),
		WorkingMs:        f.WorkingUpTo.Milliseconds(),
		StalledMs:        f.StalledAfter.Milliseconds(),
	}
}

// Dial are the options of a client that reads records.
func Dial(a *app.App) []kgo.Opt {
	return append(a.Dial(), kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil)))
}

// Surveyor connects what reads groups.
func (f *Flags) Surveyor(a *app.App, adm *app.Admin) (*survey.Surveyor, error) {
	o := survey.Options{}
	if !f.NoAges {
		o.Dial = Dial(a)
	}
	if len(f.Effects) > 0 {
		source, err := effectsource.Open(f.Effects, effectsource.Options{Client: adm.Raw, Dial: Dial(a), Query: f.EffectsQuery})
		if err != nil {
			return nil, app.Usage("--effects: %v", err)
		}
		o.Effects = source
	}
	return survey.New(adm.Raw, o), nil
}

// CompleteGroups suggests group names for shell completion.
func CompleteGroups(a *app.App) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		adm, err := a.Admin(ctx)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer adm.Close()
		names, err := survey.New(adm.Raw, survey.Options{}).Names(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
