package logdump

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// Kinds of files, as --as names them.
const (
	kindLog        = "log"
	kindMetadata   = "metadata"
	kindOffsets    = "offsets"
	kindIndex      = "index"
	kindTimeIndex  = "timeindex"
	kindTxnIndex   = "txnindex"
	kindProducers  = "producers"
	kindEpochs     = "epochs"
	kindCheckpoint = "checkpoint"
	kindQuorum     = "quorum-state"
	kindProperties = "properties"
	kindText       = "text"
)

var kinds = []string{
	kindLog, kindMetadata, kindOffsets, kindIndex, kindTimeIndex, kindTxnIndex,
	kindProducers, kindEpochs, kindCheckpoint, kindQuorum, kindProperties, kindText,
}

type options struct {
	as      string
	records bool
	values  bool
	limit   int
}

// Command returns the dump command.
func Command(a *app.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Show and check files of a data folder",
		Long: "Show and check files of a data folder: .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint,\n" +
			"*-checkpoint, quorum-state, meta.properties and partition.metadata, written by Tidemark or Apache Kafka.\n\n" +
			"Exit code 2 says that damage was found; everything readable is printed all the same.",
		Example: `  tidemark log dump data/orders-0/00000000000000000000.log --records
  tidemark log dump data/__cluster_metadata-0/*.log
  tidemark log dump data/orders-0/*.index --format json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return run(a, args, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.as, "as", "", "read the file as this `KIND` whatever its name: "+strings.Join(kinds, ", "))
	f.BoolVarP(&o.records, "records", "r", false, "show each record of a log, not only the batches")
	f.BoolVar(&o.values, "values", false, "show keys and values of records in full (implies --records)")
	f.IntVar(&o.limit, "decompress-limit", 128<<20, "largest size of one decompressed batch, in bytes")
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// kindOf guesses from the name, as the files are named in a data folder.
func kindOf(path string) string {
	name, folder := filepath.Base(path), filepath.Base(filepath.Dir(path))
	for _, s := range []string{".deleted", ".cleaned", ".swap"} {
		name = strings.TrimSuffix(name, s)
	}
	switch {
	case name == "leader-epoch-checkpoint":
		return kindEpochs
	case strings.HasSuffix(name, "-checkpoint"):
		return kindCheckpoint
	case name == "quorum-state":
		return kindQuorum
	case name == "meta.properties" || name == "partition.metadata":
		return kindProperties
	case name == ".kafka_cleanshutdown":
		return kindText
	}
	switch filepath.Ext(name) {
	case ".log":
		return kindOfLog(folder)
	case ".checkpoint":
		return kindMetadata
	case ".index":
		return kindIndex
	case ".timeindex":
		return kindTimeIndex
	case ".txnindex":
		return kindTxnIndex
	case ".snapshot":
		return kindProducers
	}
	return ""
}

func kindOfLog(folder string) string {
	switch {
	case strings.HasPrefix(folder, "__cluster_metadata-"):
		return kindMetadata
	case strings.HasPrefix(folder, "__consumer_offsets-"):
		return kindOffsets
	}
	return kindLog
}

func run(a *app.App, files []string, o options) error {
	o.records = o.records || o.values
	findings := 0
	for i, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			return app.Failed("%w", err).Fix("name files of a data folder, such as data/orders-0/*.log")
		}
		if info.IsDir() {
			return app.Usage("%s is a folder", path).Fix("name its files: %s", filepath.Join(path, "*.log"))
		}
		kind := o.as
		if kind == "" {
			kind = kindOf(path)
		}
		if kind == "" {
			return app.Usage("%s: its name does not say what it is", path).Fix("say it with --as %s", strings.Join(kinds, "|"))
		}
		f := &file{a: a, o: o, path: path, kind: kind}
		if err := f.title(i); err != nil {
			return err
		}
		if err := f.dump(); err != nil {
			return err
		}
		findings += f.findings
	}
	if findings > 0 {
		return app.Finding("%s found", app.Plural(int64(findings), "damage")).
			Fix("a server cuts a torn tail and rebuilds indexes and snapshots by itself; restore a damaged log from a replica")
	}
	return nil
}

// file is one file being dumped.
type file struct {
	a        *app.App
	o        options
	path     string
	kind     string
	findings int
}

// title says which file follows.
func (f *file) title(i int) error {
	if f.a.JSON() {
		return f.line(map[string]any{"kind": "file", "file": f.path, "as": f.kind})
	}
	if i > 0 {
		f.a.Printf("\n")
	}
	f.a.Printf("%s (%s)\n", f.path, f.kind)
	return nil
}

func (f *file) dump() error {
	switch f.kind {
	case kindLog, kindMetadata, kindOffsets:
		return f.dumpLog()
	case kindIndex, kindTimeIndex, kindTxnIndex:
		return f.dumpIndex()
	case kindProducers:
		return f.dumpProducers()
	case kindEpochs, kindCheckpoint:
		return f.dumpCheckpoint()
	case kindQuorum:
		return f.dumpQuorumState()
	case kindProperties:
		return f.dumpProperties()
	case kindText:
		return f.dumpText()
	}
	return app.Usage("--as %q is unknown", f.kind).Fix("use one of %s", strings.Join(kinds, ", "))
}

// damage reports something wrong in the file.
func (f *file) damage(position int64, format string, args ...any) error {
	f.findings++
	err := app.Failed(format, args...)
	if f.a.JSON() {
		return f.line(map[string]any{"kind": "damage", "file": f.path, "position": position, "reason": err.Message})
	}
	f.a.Printf("DAMAGE at byte %d: %s\n", position, err.Message)
	return nil
}

// readSmall reads a file that is small by nature; a larger one is no such file.
func (f *file) readSmall() ([]byte, error) {
	const limit = 256 << 20
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, app.Failed("%w", err)
	}
	if info.Size() > limit {
		return nil, app.Failed("%s has %s, more than any file of its kind", f.path, app.Bytes(info.Size())).Fix("say what it is with --as")
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, app.Failed("%w", errors.Unwrap(err))
	}
	return data, nil
}
