// Command tidemark is the broker and its command line in one binary.
//
// It parses nothing itself: signals become a context, the rest is internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark-io/tidemark/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, serve)
}
