package log

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// TestPowerCutUnderLoad is reliability row D1: while several partitions are
// written in strict mode, with rolls, checkpoints and retention under way, the
// power goes at any moment. What DurableEndOffset said before must be there.
func TestPowerCutUnderLoad(t *testing.T) {
	const partitions, cuts = 3, 90
	cfg := testConfig()
	cfg.SegmentBytes = 1500
	mem := vfs.NewMem()
	// Memory is so fast that nothing would overlap: let others run in between.
	slow := errfs.Wrap(mem, errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
		if op.Kind == errfs.Write || op.Kind == errfs.Sync {
			for range op.Index % 7 {
				runtime.Gosched()
			}
		}
		return nil
	}})
	h := mustStart(t, slow, cfg, func(o *ManagerOptions) {
		o.CheckpointBytes = 2000
		o.OnDurable = func(l *Log, end int64) { l.SetHighWatermark(end) }
	})
	var logs []*Log
	for p := range int32(partitions) {
		l, err := h.m.Create(types.TopicPartition{Topic: "t", Partition: p}, testID, cfg)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	for cut := range cuts {
		var wg sync.WaitGroup
		for _, l := range logs {
			wg.Go(func() { someAppends(t, l) })
		}
		for range cut * 50 {
			runtime.Gosched() // another moment each time
		}
		promised := make([]int64, partitions)
		for p, l := range logs {
			promised[p] = l.DurableEndOffset()
		}
		left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: []int{0, 50, 100}[cut%3], Seed: uint64(cut)})
		wg.Wait()
		if err := survives(left, h, promised); err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
	}
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
}

func someAppends(t *testing.T, l *Log) {
	for range 20 {
		at := l.LogEndOffset()
		values := []string{fmt.Sprintf("value of %d", at), fmt.Sprintf("value of %d", at+1)}
		if _, err := appendValues(l, day0+at, values...); err != nil {
			t.Error(err)
			return
		}
	}
}

func survives(left vfs.FS, h *host, promised []int64) error {
	g, err := start(left, h.cfg)
	if err != nil {
		return err
	}
	defer func() { _ = g.stop(false) }()
	for p, want := range promised {
		l, ok := g.m.Get(types.TopicPartition{Topic: "t", Partition: int32(p)})
		if !ok && want == 0 {
			continue // without a record nothing was promised of its folder (SyncNames)
		}
		if !ok || l.LogEndOffset() < want {
			return fmt.Errorf("partition %d (there: %v) ends below %d\n%s", p, ok, want, g.logged)
		}
		got, err := readAll(l, 0, l.LogEndOffset())
		if err != nil {
			return err
		}
		for off, v := range got {
			if v != fmt.Sprintf("%d:value of %d", off, off) {
				return fmt.Errorf("partition %d offset %d holds %s", p, off, v)
			}
		}
	}
	return nil
}
