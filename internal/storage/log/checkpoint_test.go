package log

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// TestCheckpointWritesEpochFilesTogether: after a start every partition may have
// a new epoch whose file the recovery point waits for. Written one after the
// other, under load, that took longer than the load: no recovery point moved, and
// a start after a kill read everything again.
func TestCheckpointWritesEpochFilesTogether(t *testing.T) {
	const partitions = 8
	arrived, release := make(chan struct{}, partitions), make(chan struct{})
	var held bool
	fs := errfs.Wrap(vfs.NewMem(), errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
		if held && op.Kind == errfs.Sync && strings.HasSuffix(op.Path, checkpoint.LeaderEpochFile+checkpoint.TempSuffix) {
			arrived <- struct{}{}
			<-release
		}
		return nil
	}})
	h := mustStart(t, fs, crashConfig())
	h.quiet()
	var logs []*Log
	for p := range int32(partitions) {
		l, err := h.m.Create(types.TopicPartition{Topic: "t", Partition: p}, testID, h.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := appendValues(l, day0, "a"); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	held = true
	done := make(chan error)
	go func() { done <- h.m.Checkpoint() }()
	for range partitions { // all of them wait for the disk at the same time
		<-arrived
	}
	for i, l := range logs { // and nobody who appends waits with them
		if _, err := appendValues(l, day0, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if got := l.claimRecoveryPoint(); got != 0 {
			t.Errorf("partition %d: a recovery point of %d before its epoch is on disk", i, got)
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	points, err := checkpoint.ReadOffsets(fs, filepath.Join(h.dir.Path, checkpoint.RecoveryPointFile))
	if err != nil {
		t.Fatal(err)
	}
	for tp, point := range points {
		if point != 1 {
			t.Errorf("the recovery point of %s is %d, want 1", tp, point)
		}
	}
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
}
