package produce

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

type options struct {
	keySeparator string
	key          string
	headers      []string
	acks         string
	compression  string
	partition    int32
	whole        bool
	tombstones   bool
	create       bool
	maxRecord    int
}

// Command returns the produce command.
func Command(a *app.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE...]",
		Short: "Write records to a topic: one for each line of the input or of files",
		Example: `  echo hello | tidemark produce greetings
  tidemark produce orders -k : -H source=shell < orders.txt
  tidemark produce images --whole a.png b.png --acks leader`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, in string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.CompleteTopics(cmd, args, in)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args[0], args[1:], o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.keySeparator, "key-separator", "k", "", "split each line at the first `SEP` into key and value (\\t for a tab)")
	f.StringVar(&o.key, "key", "", "give every record this key")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "header as `NAME=VALUE`; may be repeated")
	f.StringVar(&o.acks, "acks", "all", "who must have a record before it counts: all, leader or none")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.Int32VarP(&o.partition, "partition", "p", -1, "write to this partition; -1 chooses by key, or spreads")
	f.BoolVar(&o.whole, "whole", false, "each file (or all of the input) is one record")
	f.BoolVar(&o.tombstones, "tombstones", false, "an empty value is null, which deletes the key of a compacted topic")
	f.BoolVar(&o.create, "create", true, "let the cluster create the topic when it is not there (auto.create.topics.enable)")
	f.IntVar(&o.maxRecord, "max-record-bytes", 64<<20, "refuse a longer line or file")
	_ = cmd.RegisterFlagCompletionFunc("acks", cobra.FixedCompletions([]string{"all", "leader", "none"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions([]string{"none", "gzip", "snappy", "lz4", "zstd"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// codecs by the names that Kafka uses.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// check refuses options that do not fit before anything is opened.
func (o *options) check() error {
	switch o.acks {
	case "all", "leader", "none":
	case "-1":
		o.acks = "all"
	case "1":
		o.acks = "leader"
	case "0":
		o.acks = "none"
	default:
		return app.Usage("--acks is %q; it can be all, leader or none", o.acks)
	}
	if _, ok := codecs[o.compression]; !ok {
		return app.Usage("--compression is %q; it can be none, gzip, snappy, lz4 or zstd", o.compression)
	}
	if o.key != "" && o.keySeparator != "" {
		return app.Usage("--key and --key-separator both give keys").Fix("use one of them")
	}
	if o.whole && o.keySeparator != "" {
		return app.Usage("--key-separator splits lines, --whole does not read lines").Fix("use --key with --whole")
	}
	if o.partition < -1 {
		return app.Usage("--partition is %d; it must be at least 0, or -1", o.partition)
	}
	if o.maxRecord < 1 {
		return app.Usage("--max-record-bytes is %d; it must be at least 1", o.maxRecord)
	}
	o.keySeparator = strings.NewReplacer(`\t`, "\t", `\\`, `\`).Replace(o.keySeparator)
	return nil
}

func (o *options) clientOptions(topic string, c *counter) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.WithHooks(c),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codecs[o.compression]),
		kgo.MaxBufferedBytes(64 << 20),
		kgo.ProducerBatchMaxBytes(1 << 20),
	}
	if o.maxRecord > 1<<20 {
		opts = append(opts, kgo.BrokerMaxWriteBytes(512<<20))
	}
	switch o.acks {
	case "leader":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "none":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	}
	if o.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(c.manual()))
	}
	if o.create {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	return opts
}

func (o *options) parseHeaders() ([]kgo.RecordHeader, error) {
	var out []kgo.RecordHeader
	for _, h := range o.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok {
			return nil, app.Usage("--header %q is not NAME=VALUE", h)
		}
		out = append(out, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	return out, nil
}
