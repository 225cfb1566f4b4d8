package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/server"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tidemark": func() {
			os.Exit(Main(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, fakeServer))
		},
	})
}

// fakeServer prints what it was asked to run.
func fakeServer(_ context.Context, c config.ServerConfig) error {
	if os.Getenv("FAIL_SERVER") != "" {
		return fmt.Errorf("the folder %s is in use by another process", c.DataDirs[0])
	}
	fmt.Printf("node %d listens on %s:%d, admin %q, data %s, durability %s, partitions %d\n",
		c.NodeID, c.Listeners[0].Host, c.Listeners[0].Port, c.AdminListener, strings.Join(c.DataDirs, ","), c.Durability, c.Topics.NumPartitions)
	return nil
}

// TestScripts runs the command line as a process of its own. $BROKER is a
// cluster of one broker with id 0 that lives as long as the script and has a
// topic "seeded" of three partitions: once a fake one, once Tidemark itself.
func TestScripts(t *testing.T) {
	t.Run("kfake", func(t *testing.T) {
		runScripts(t, false, func(e *testscript.Env) (string, error) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "seeded"), kfake.AllowAutoTopicCreation())
			if err != nil {
				return "", err
			}
			e.Defer(c.Close)
			return c.ListenAddrs()[0], nil
		})
	})
	t.Run("tidemark", func(t *testing.T) { runScripts(t, true, startTidemark) })
}

func runScripts(t *testing.T, tidemark bool, start func(*testscript.Env) (string, error)) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			addr, err := start(e)
			e.Setenv("BROKER", addr)
			return err
		},
		Condition: func(name string) (bool, error) {
			if name != "tidemark" { // that the broker is ours
				return false, fmt.Errorf("unknown condition %s", name)
			}
			return tidemark, nil
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"code": expectCode},
	})
}

// startTidemark runs a server in this process and creates the seeded topic.
func startTidemark(e *testscript.Env) (string, error) {
	cfg, err := config.LoadServer(config.ServerSources{
		Flags: config.Flags{DataDir: filepath.Join(e.WorkDir, "server-data"), Listen: "127.0.0.1:0", Admin: "none", NodeID: "0"},
	})
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.Background())
	screen, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := server.Run(ctx, cfg, server.Options{Out: out})
		out.CloseWithError(fmt.Errorf("the server stopped: %w", err))
		done <- err
	}()
	e.Defer(func() {
		stop()
		if err := <-done; err != nil {
			e.T().Fatal("the server did not stop cleanly: ", err)
		}
	})
	addr, err := clientAddress(screen)
	if err != nil {
		return "", err
	}
	go io.Copy(io.Discard, screen)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return "", err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, 3, 1, nil, "seeded")
	return addr, err
}

// clientAddress reads where clients connect off the start-up screen.
func clientAddress(screen io.Reader) (string, error) {
	lines := bufio.NewScanner(screen)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) > 1 && f[0] == "clients" {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("no client address on the start-up screen: %w", lines.Err())
}

// expectCode runs a command and checks its exit code: code N tidemark ARGS...
func expectCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		if _, scanErr := fmt.Sscanf(err.Error(), "exit status %d", &got); scanErr != nil {
			ts.Fatalf("%v", err)
		}
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}
