package consume

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

type options struct {
	partitions []int32
	from       string
	count      int64
	exitAtEnd  bool
	layout     string
	keys       bool
	headers    bool
	timestamps bool
	offsets    bool
	isolation  string
}

const layoutHelp = `A layout prints each record with percent verbs and backslash escapes:
  %t topic  %p partition  %o offset  %e leader epoch  %k key  %v value
  %d{go#2006-01-02T15:04:05Z07:00#} timestamp  %h{%k=%v } headers  \n newline
  %K %V lengths of key and value; %k{base64} and %v{hex} encode.`

// Command returns the consume command.
func Command(a *app.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records of a topic",
		Long:  "Read records of a topic and print their values, or more.\n\n" + layoutHelp,
		Example: `  tidemark consume orders --from -10 --exit-at-end
  tidemark consume orders --from 1h --keys --timestamps
  tidemark consume orders --partition 0 --from 4200 --count 1 --format json
  tidemark consume orders --layout '%p/%o %k: %v\n'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteTopics,
		RunE:              func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args[0], o) },
	}
	f := cmd.Flags()
	f.Int32SliceVarP(&o.partitions, "partition", "p", nil, "read only these partitions, as a comma-separated `LIST`")
	f.StringVarP(&o.from, "from", "o", "start", "`WHERE` to start: start, end, an offset, -N for the last N of each partition, or a time (RFC 3339, @MILLISECONDS, or an age such as 90m)")
	f.Int64VarP(&o.count, "count", "n", 0, "stop after this many records; 0 does not")
	f.BoolVarP(&o.exitAtEnd, "exit-at-end", "e", false, "stop where the topic ended when the command started")
	f.StringVar(&o.layout, "layout", "", "print each record by this layout; see above")
	f.BoolVar(&o.keys, "keys", false, "print the key before the value")
	f.BoolVar(&o.headers, "headers", false, "print headers before the value")
	f.BoolVar(&o.timestamps, "timestamps", false, "print the timestamp before the value")
	f.BoolVar(&o.offsets, "offsets", false, "print partition and offset before the value")
	f.StringVar(&o.isolation, "isolation", "read_uncommitted", "read_uncommitted, or read_committed to see no open or aborted transactions")
	return cmd
}

func (o *options) check(a *app.App) error {
	if o.isolation != "read_uncommitted" && o.isolation != "read_committed" {
		return app.Usage("--isolation is %q; it can be read_uncommitted or read_committed", o.isolation)
	}
	if o.count < 0 {
		return app.Usage("--count is %d; it must be at least 0", o.count)
	}
	if o.layout != "" && (a.JSON() || o.keys || o.headers || o.timestamps || o.offsets) {
		return app.Usage("--layout says what to print already").Fix("drop --format json, --keys, --headers, --timestamps and --offsets")
	}
	for _, p := range o.partitions {
		if p < 0 {
			return app.Usage("--partition has %d; partitions start at 0", p)
		}
	}
	if strings.TrimSpace(o.from) == "" {
		return app.Usage("--from is empty")
	}
	return nil
}
