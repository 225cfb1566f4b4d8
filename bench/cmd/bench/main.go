// Command bench measures Tidemark beside Apache Kafka, RabbitMQ and the box's
// own ceiling, and writes JSON, a table and plots. "make bench" and "make
// bench-quick" run it; bench/NOTES.md says what the measures are.
//
//	bench [flags]            run
//	bench render FILE.json   write table and plots of a run again
//	bench readme FILE.json [LATER.json ...]
//	                         put a run's figures into README.md, and those of later runs of some rows
//	bench ceiling [flags]    the ceiling server, which the bench starts itself
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/ceiling"
	"github.com/tidemark-io/tidemark/bench/internal/report"
	"github.com/tidemark-io/tidemark/bench/internal/suite"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	switch {
	case len(args) > 0 && args[0] == "ceiling":
		return serveCeiling(args[1:])
	case len(args) == 2 && args[0] == "render":
		r, err := report.ReadJSON(args[1])
		if err != nil {
			return err
		}
		return write(r, filepath.Dir(args[1]), strings.TrimSuffix(filepath.Base(args[1]), ".json"))
	}
	if len(args) >= 2 && args[0] == "readme" {
		return readme(args[1:])
	}
	return measure(args)
}

// readme puts the figures of a run, and of later runs of some rows, between the
// marks of README.md.
func readme(files []string) error {
	var runs []report.Named
	for _, file := range files {
		r, err := report.ReadJSON(file)
		if err != nil {
			return err
		}
		runs = append(runs, report.Named{Name: strings.TrimSuffix(file, ".json"), Results: r})
	}
	old, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	text, err := report.IntoReadme(string(old), runs[0], runs[1:]...)
	if err != nil {
		return err
	}
	return os.WriteFile("README.md", []byte(text), 0o644)
}

func measure(args []string) error {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	o := suite.Options{Log: os.Stderr}
	f.StringVar(&o.Root, "root", ".", "root folder of the repository")
	f.StringVar(&o.Binary, "bin", "bin/tidemark", "binary under test")
	f.BoolVar(&o.Quick, "quick", false, "fewer cases and rounds: eight minutes")
	f.BoolVar(&o.Full, "full", false, "produce over the whole grid of sizes, partitions and codecs")
	f.StringVar(&o.Case, "case", "", "only the cases of P1 with this in their names")
	f.IntVar(&o.Pairs, "pairs", 0, "rounds; 0: 5, quick 2")
	f.IntVar(&o.Slow, "slow", 0, "rounds of what takes minutes; 0: 2, quick 1")
	f.DurationVar(&o.Budget, "budget", 0, "how long the run may take; what does not fit is left out and listed; 0: 1h15m, quick 7m")
	f.StringVar(&o.Other, "other", "", "a second tidemark binary, measured in turn with the one under test")
	f.StringVar(&o.OtherDurability, "other-durability", "replicated", "durability of the second binary: strict or replicated")
	f.StringVar(&o.Profiles, "profiles", "", "folder for CPU profiles of Tidemark; measures are slower with them")
	dir := f.String("dir", "", "folder for the systems' data; empty: a temporary one")
	out := f.String("out", "bench/results", "folder for results")
	name := f.String("name", "", "name of the result files; empty: latest, or quick")
	only := f.String("only", "", "comma separated rows, for example P1,P4")
	systems := f.String("systems", "", "comma separated parts of systems' names, for example replicated,kafka")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.Rows, o.Systems = list(*only), list(*systems)
	defaults(&o, name)
	var err error
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	if o.Dir, err = os.MkdirTemp(*dir, "tidemark-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.Dir)
	for _, b := range []*string{&o.Binary, &o.Other} {
		if *b == "" {
			continue
		}
		if *b, err = filepath.Abs(*b); err != nil {
			return err
		}
	}
	o.Save = func(r *report.Results) error {
		if err := os.MkdirAll(*out, 0o755); err != nil {
			return err
		}
		if err := r.WriteJSON(*out, *name); err != nil {
			return err
		}
		return write(r, *out, *name)
	}
	raiseFileLimit()
	r, err := suite.New(o)
	if err != nil {
		return err
	}
	defer endOnSignal(r, o.Dir)()
	r.All()
	if n := len(r.Out.Failed); n > 0 {
		return fmt.Errorf("%d measures failed; see %s", n, filepath.Join(*out, *name+".md"))
	}
	return nil
}

// endOnSignal sees to it that an interrupted run leaves no process and no data.
func endOnSignal(r *suite.Run, dir string) (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-c; ok {
			r.Abort()
			_ = os.RemoveAll(dir)
			os.Exit(130)
		}
	}()
	return func() { signal.Stop(c); close(c) }
}

func defaults(o *suite.Options, name *string) {
	pairs, slow, file, budget := 5, 2, "latest", 75*time.Minute
	if o.Quick {
		pairs, slow, file, budget = 2, 1, "quick", 7*time.Minute
	}
	if o.Budget == 0 {
		o.Budget = budget
	}
	if o.Pairs == 0 {
		o.Pairs = pairs
	}
	if o.Slow == 0 {
		o.Slow = slow
	}
	if *name == "" {
		*name = file
	}
}

// raiseFileLimit lets brokers with ten thousand partitions open their files.
func raiseFileLimit() {
	const want = 200_000
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil && l.Cur < want {
		l.Cur, l.Max = want, max(l.Max, want)
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
			l.Cur = l.Max
			_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // as far as we may
		}
	}
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func write(r *report.Results, dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(r.Markdown()), 0o644); err != nil {
		return err
	}
	return r.WritePlots(dir, name)
}

func serveCeiling(args []string) error {
	f := flag.NewFlagSet("ceiling", flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:0", "address for Produce")
	raw := f.String("raw", "127.0.0.1:0", "address for sendfile")
	dir := f.String("dir", ".", "folder for the files")
	sync := f.Bool("sync", false, "fdatasync before each answer")
	if err := f.Parse(args); err != nil {
		return err
	}
	p, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	q, err := net.Listen("tcp", *raw)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- ceiling.ServeRaw(q, filepath.Join(*dir, "raw.bin")) }()
	go func() { failed <- (&ceiling.Server{Dir: *dir, Sync: *sync}).Serve(p) }()
	return errors.Join(<-failed)
}
