package log

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/storage/segment"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// indexFiles lists the sparse indexes in a partition's folder.
func indexFiles(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasSuffix(n, segment.IndexSuffix) && !strings.HasSuffix(n, segment.TimeIndexSuffix)
	})
}

// TestCreateWaitsForNoDisk counts what the disk is asked when partitions are made:
// three new names each, and one sync for all of them.
func TestCreateWaitsForNoDisk(t *testing.T) {
	mem := vfs.NewMem()
	var syncs, names []string
	counted := errfs.Wrap(mem, errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
		switch op.Kind {
		case errfs.Sync, errfs.SyncDir:
			syncs = append(syncs, op.Path)
		case errfs.Rename, errfs.Remove:
			names = append(names, op.Path)
		}
		return nil
	}})
	h := mustStart(t, counted, testConfig())
	defer func() { _ = h.stop(false) }()
	syncs, names = nil, nil
	for p := range int32(20) {
		if _, err := h.m.Create(types.TopicPartition{Topic: "t", Partition: p}, testID, h.cfg); err != nil {
			t.Fatal(err)
		}
	}
	if len(syncs) > 0 || len(names) > 0 {
		t.Fatalf("creation synced %v, renamed or removed %v", syncs, names)
	}
	h.m.SyncNames()
	h.m.SyncNames()
	if !slices.Equal(syncs, []string{"/data"}) {
		t.Fatalf("synced %v, want the data folder once", syncs)
	}
	got, err := mem.List("/data/t-7")
	if want := []string{"00000000000000000000.log", "partition.metadata"}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("files %v (%v), want %v", got, err, want)
	}
	left := mem.CrashClone(vfs.CrashOptions{})
	if got, err := left.List("/data"); err != nil || !slices.Contains(got, "t-19") {
		t.Fatalf("a power cut after SyncNames left %v (%v)", got, err)
	}
}

// TestIndexFilesComeWithRecords follows the index files of a log from creation on.
func TestIndexFilesComeWithRecords(t *testing.T) {
	mem := vfs.NewMem()
	h := mustStart(t, mem, testConfig())
	again := func(clean bool) {
		t.Helper()
		if err := h.stop(clean); err != nil {
			t.Fatal(err)
		}
		h = mustStart(t, mem, h.cfg)
		if s := h.logged.String(); s != "" {
			t.Fatalf("a start (clean: %v) complains: %s", clean, s)
		}
	}
	dir := h.log(t).Path()
	for _, clean := range []bool{true, false} { // nothing in it
		again(clean)
		if got := indexFiles(t, mem, dir); len(got) > 0 {
			t.Fatalf("a log without records has %v", got)
		}
	}
	if _, err := appendValues(h.log(t), day0, "one"); err != nil {
		t.Fatal(err)
	}
	again(false) // a record, but no entry yet
	if got := indexFiles(t, mem, dir); len(got) > 0 {
		t.Fatalf("a log without index entries has %v", got)
	}
	again(true)
	if got := indexFiles(t, mem, dir); len(got) != 2 {
		t.Fatalf("a log with records that was closed cleanly has %v", got)
	}
	if err := h.log(t).TruncateFullyAndStartAt(40); err != nil {
		t.Fatal(err)
	}
	if got, err := appendValues(h.log(t), day0, "two"); err != nil || got.FirstOffset != 40 {
		t.Fatalf("%+v %v", got, err)
	}
	again(true)
	if got, err := readAll(h.log(t), 40, 41); err != nil || !slices.Equal(got, []string{"40:two"}) {
		t.Fatalf("%v %v", got, err)
	}
	if err := h.stop(true); err != nil {
		t.Fatal(err)
	}
}

// TestTopicIDAfterPowerCut cuts the power before and after the first record of a
// new partition, also when the process that made it was killed in between: a folder
// with acknowledged records has its topic id, and one without is made again.
func TestTopicIDAfterPowerCut(t *testing.T) {
	for _, killed := range []bool{false, true} {
		mem := vfs.NewMem()
		h := mustStart(t, mem, testConfig())
		l := h.log(t)
		if killed {
			if err := h.stop(false); err != nil {
				t.Fatal(err)
			}
			h = mustStart(t, mem, h.cfg)
			l = h.log(t)
		}
		for seed := range uint64(20) {
			left := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: 50, Seed: seed})
			g := mustStart(t, left, h.cfg)
			if got := g.log(t).TopicID(); got != testID {
				t.Fatalf("topic id %v", got)
			}
			if err := g.stop(true); err != nil {
				t.Fatal(err)
			}
			if id, _, err := logdir.ReadPartitionMetadata(left, "/data/t-0"); err != nil || id != testID {
				t.Fatalf("killed %v, seed %d: the folder has topic id %v (%v)", killed, seed, id, err)
			}
		}
		if _, err := appendValues(l, day0, "one"); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		left := mem.CrashClone(vfs.CrashOptions{})
		g := mustStart(t, left, h.cfg)
		survivor, ok := g.m.Get(testTP)
		if !ok || survivor.TopicID() != testID || survivor.LogEndOffset() != 1 {
			t.Fatalf("killed %v: a power cut left %v %+v\n%s", killed, ok, survivor, g.logged)
		}
		_, _ = g.stop(false), h.stop(false)
	}
}

// TestOldIndexOfTheSameName: what an older segment of the same base offset left
// is never read as the new one's.
func TestOldIndexOfTheSameName(t *testing.T) {
	mem := vfs.NewMem()
	h := mustStart(t, mem, testConfig())
	l := h.log(t)
	for i := range int64(12) {
		if _, err := appendValues(l, day0+i, "a value of some length to get index entries"); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.m.Checkpoint(); err != nil { // writes the entries
		t.Fatal(err)
	}
	if got := indexFiles(t, mem, l.Path()); len(got) != 2 {
		t.Fatalf("after a checkpoint: %v", got)
	}
	if err := l.TruncateFullyAndStartAt(0); err != nil {
		t.Fatal(err)
	}
	if got := indexFiles(t, mem, l.Path()); len(got) > 0 {
		t.Fatalf("after a restart at 0: %v", got)
	}
	if _, err := mem.Stat(l.path(segment.FileName(0, segment.IndexSuffix))); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	_ = h.stop(false)
}
