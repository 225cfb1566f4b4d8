package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/tidemark-io/tidemark/internal/cli"
	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/server"
)

// serve runs a server with its start-up screen on standard output and its log
// on standard error.
func serve(ctx context.Context, cfg config.ServerConfig) error {
	return server.Run(ctx, cfg, server.Options{
		Out:     os.Stdout,
		Program: os.Args[0],
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Version: cli.Version(),
	})
}
