package quorumcontroller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/metadata/loader"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// patience ends a test that would hang; nothing is measured with it.
const patience = 60 * time.Second

// cluster is a quorum of one with its loader and shell.
type cluster struct {
	node   *quorum.Node
	loader *loader.Loader
	shell  *Shell
	gen    *loader.SnapshotGenerator
}

func startCluster(t *testing.T, fsys vfs.FS) *cluster {
	t.Helper()
	voter := quorum.Voter{NodeID: 1, DirectoryID: types.UUID{7}}
	if err := quorum.Format(fsys, "/data", quorum.FormatOptions{Voters: []quorum.Voter{voter}, Bootstrap: bootstrap()}); err != nil {
		t.Fatal(err)
	}
	node, err := quorum.Open(quorum.Options{
		FS: fsys, Dir: "/data", NodeID: 1, DirectoryID: types.UUID{7}, SegmentBytes: 4000, RetentionBytes: 8000,
		OnFatal: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	first, err := quorum.ReadBootstrap(fsys, "/data")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{node: node, loader: loader.New(loader.Options{OnError: func(err error) { t.Error(err) }})}
	c.shell = New(Options{
		Log: node, AwaitImage: c.loader.AwaitApplied, Bootstrap: first, MaxIdleIntervalMs: 5,
		OnFatal: func(err error) { t.Error(err) },
	})
	c.gen = loader.NewSnapshotGenerator(loader.GeneratorOptions{Log: node, MaxBytes: 3000, MaxIntervalMs: -1})
	c.loader.Start(c.gen)
	c.shell.Start()
	node.Start(c.loader, c.shell)
	return c
}

func (c *cluster) stop(t *testing.T) {
	t.Helper()
	c.shell.Close()
	c.loader.Close()
	c.gen.Wait()
	if err := c.node.Close(); err != nil {
		t.Fatal(err)
	}
}

// submitUntilActive retries while the controller starts.
func submitUntilActive(ctx context.Context, s *Shell, name string) (int64, error) {
	for {
		r, err := Submit(ctx, s, name, topicCommand(name))
		if kerrors.CodeOf(err) != kerrors.NotController || ctx.Err() != nil {
			return r, err
		}
	}
}

// TestAcknowledgedCommandsSurvivePowerCuts has clients create topics while
// probes, NoOps, snapshots and segment rolls go on; the power is cut three times.
func TestAcknowledgedCommandsSurvivePowerCuts(t *testing.T) {
	fsys := vfs.NewMem()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	acked := map[string]bool{}
	for life := range 4 {
		c := startCluster(t, fsys)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for client := range 6 {
			wg.Go(func() {
				for i := range 25 {
					name := fmt.Sprintf("topic-%d-%d-%d", life, client, i)
					if _, err := submitUntilActive(ctx, c.shell, name); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					acked[name] = true
					mu.Unlock()
				}
			})
		}
		wg.Go(func() {
			for range 20 {
				if err := c.node.Probe(ctx); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		left := fsys.CrashClone(vfs.CrashOptions{UnsyncedPercent: 50 * (life % 3), Seed: uint64(life)})
		c.stop(t)
		fsys = left
	}
	c := startCluster(t, fsys)
	defer c.stop(t)
	if _, err := submitUntilActive(ctx, c.shell, "last"); err != nil {
		t.Fatal(err)
	}
	im, err := c.loader.AwaitApplied(ctx, c.node.Status().HighWatermark-1)
	if err != nil {
		t.Fatal(err)
	}
	for name := range acked {
		if _, ok := im.Topics.ByName(name); !ok {
			t.Errorf("topic %s was acknowledged and is gone", name)
		}
	}
	if c.node.Status().Snapshot.Offset == 0 {
		t.Error("no snapshot was taken; the test lost its point")
	}
	if im.Features.MetadataVersion() != 30 || im.Configs.Get(image.ResourceBroker, "")[minISRKey] != "1" {
		t.Errorf("bootstrap records are missing: metadata.version %d", im.Features.MetadataVersion())
	}
}
