package epochcache_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/epochcache"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

const path = "/" + checkpoint.LeaderEpochFile

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func show(entries []epochcache.Entry) string {
	if len(entries) == 0 {
		return "(none)"
	}
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d@%d ", e.Epoch, e.StartOffset)
	}
	return strings.TrimSpace(b.String())
}

// TestRules runs the scripts in testdata/rules. Commands:
//
//	new [corrupt]                 an empty cache, or one over a corrupt file
//	assign epoch=E at=O [epoch=..]   reports whether anything changed
//	truncate-end at=O | truncate-start at=O | clear
//	end epoch=E log-end=O         OffsetForLeaderEpoch
//	epoch-of offset=O
//	range from=O to=O
//	file                          what is on disk
//	flush | reload
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata/rules", func(t *testing.T, dir string) {
		m := vfs.NewMem()
		c, err := epochcache.New(m, path)
		must(t, err)
		datadriven.RunTest(t, dir, func(t *testing.T, d *datadriven.TestData) string {
			return runCommand(t, d, m, &c)
		})
	})
}

func runCommand(t *testing.T, d *datadriven.TestData, m *vfs.Mem, c **epochcache.Cache) string {
	num := func(key string) (v int64) { d.ScanArgs(t, key, &v); return v }
	switch d.Cmd {
	case "new":
		must(t, m.RemoveAll(path))
		if d.HasArg("corrupt") {
			must(t, checkpoint.WriteFile(m, path, []byte(d.Input)))
		}
		return reload(t, m, c)
	case "reload":
		return reload(t, m, c)
	case "assign":
		changed, err := (*c).Assign(int32(num("epoch")), num("at"))
		if err != nil {
			return err.Error()
		}
		return after(*c, changed)
	case "truncate-end":
		changed, err := (*c).TruncateFromEnd(num("at"))
		must(t, err)
		return after(*c, changed)
	case "truncate-start":
		return after(*c, (*c).TruncateFromStart(num("at")))
	case "clear":
		(*c).Clear()
		return show((*c).Entries())
	case "end":
		epoch, end := (*c).EndOffsetFor(int32(num("epoch")), num("log-end"))
		return fmt.Sprintf("epoch %d ends at %d", epoch, end)
	case "epoch-of":
		epoch, ok := (*c).EpochForOffset(num("offset"))
		return fmt.Sprintf("%d %v", epoch, ok)
	case "range":
		return show((*c).EntriesInRange(num("from"), num("to")))
	case "flush":
		must(t, (*c).Flush())
		fallthrough
	case "file":
		b, err := checkpoint.ReadFile(m, path, 1<<20)
		if err != nil {
			return "no file"
		}
		return string(b)
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func reload(t *testing.T, m *vfs.Mem, c **epochcache.Cache) string {
	next, err := epochcache.New(m, path)
	if next == nil {
		t.Fatal(err)
	}
	*c = next
	if err != nil {
		return fmt.Sprintf("%s\ncorrupt: %v", show(next.Entries()), errors.Is(err, checkpoint.ErrCorrupt))
	}
	return show(next.Entries())
}

func after(c *epochcache.Cache, changed bool) string {
	s := show(c.Entries())
	if !changed {
		s += " (no change)"
	}
	return s
}

// model is the slow, obvious form: one epoch number per offset, as records
// carry it.
type model struct {
	start  int64
	epochs []int32 // of start, start+1, ...
}

func (m *model) end() int64 { return m.start + int64(len(m.epochs)) }

// endOffsetFor is KIP-279 read off the records themselves.
func (m *model) endOffsetFor(epoch int32) (int32, int64) {
	if len(m.epochs) == 0 {
		return -1, -1
	}
	last := m.epochs[len(m.epochs)-1]
	if epoch == last {
		return epoch, m.end()
	}
	if epoch > last {
		return -1, -1
	}
	if epoch < m.epochs[0] {
		return epoch, m.start
	}
	i := slices.IndexFunc(m.epochs, func(e int32) bool { return e > epoch })
	return m.epochs[i-1], m.start + int64(i)
}

// State == what the records say, whatever was appended, truncated and deleted.
func TestCacheEqualsRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fsys := vfs.NewMem()
		c, err := epochcache.New(fsys, path)
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{}
		epoch := int32(0)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			step(rt, c, m, &epoch)
			if rapid.IntRange(0, 5).Draw(rt, "reload") == 0 {
				if err := c.Flush(); err != nil {
					rt.Fatal(err)
				}
				if c, err = epochcache.New(fsys, path); err != nil {
					rt.Fatal(err)
				}
			}
			compare(rt, c, m, epoch)
		}
	})
}

func step(rt *rapid.T, c *epochcache.Cache, m *model, epoch *int32) {
	switch rapid.IntRange(0, 3).Draw(rt, "op") {
	case 0, 1: // a leader with a new or the same epoch writes records
		*epoch += rapid.Int32Range(0, 2).Draw(rt, "bump")
		if _, err := c.Assign(*epoch, m.end()); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(rt, "records") {
			m.epochs = append(m.epochs, *epoch)
		}
	case 2: // truncation
		to := rapid.Int64Range(m.start, m.end()).Draw(rt, "to")
		if _, err := c.TruncateFromEnd(to); err != nil {
			rt.Fatal(err)
		}
		m.epochs = m.epochs[:to-m.start]
	case 3: // retention
		to := rapid.Int64Range(m.start, m.end()).Draw(rt, "start")
		if to < m.end() { // keep a record, else the covering epoch has none
			c.TruncateFromStart(to)
			m.epochs, m.start = m.epochs[to-m.start:], to
		}
	}
}

func compare(rt *rapid.T, c *epochcache.Cache, m *model, newest int32) {
	entries := c.Entries()
	for i := 1; i < len(entries); i++ {
		if entries[i].Epoch <= entries[i-1].Epoch || entries[i].StartOffset <= entries[i-1].StartOffset {
			rt.Fatalf("not growing: %s", show(entries))
		}
	}
	for i, want := range m.epochs {
		if got, ok := c.EpochForOffset(m.start + int64(i)); !ok || got != want {
			rt.Fatalf("offset %d has epoch %d, the cache says %d; %s", m.start+int64(i), want, got, show(entries))
		}
	}
	if len(m.epochs) == 0 {
		return
	}
	for e := int32(0); e <= newest+1; e++ {
		we, wo := m.endOffsetFor(e)
		if ge, g := c.EndOffsetFor(e, m.end()); ge != we || g != wo {
			rt.Fatalf("epoch %d ends (%d, %d), the cache says (%d, %d); %s", e, we, wo, ge, g, show(entries))
		}
	}
}

func TestLookups(t *testing.T) {
	c, err := epochcache.New(vfs.NewMem(), path)
	must(t, err)
	if _, ok := c.Latest(); ok || c.LatestEpoch() != epochcache.Undefined {
		t.Error("an empty cache has a latest entry")
	}
	if _, ok := c.Earliest(); ok {
		t.Error("an empty cache has an earliest entry")
	}
	_, err = c.AssignAll([]epochcache.Entry{{Epoch: 1, StartOffset: 0}, {Epoch: 3, StartOffset: 5}, {Epoch: 7, StartOffset: 9}})
	must(t, err)
	got := map[string]epochcache.Entry{}
	got["latest"], _ = c.Latest()
	got["earliest"], _ = c.Earliest()
	got["before 7"], _ = c.Previous(7)
	got["before 5"], _ = c.Previous(5)
	got["before 1"], _ = c.Previous(1)
	got["3"], _ = c.Get(3)
	got["4"], _ = c.Get(4)
	want := map[string]epochcache.Entry{
		"latest": {Epoch: 7, StartOffset: 9}, "earliest": {Epoch: 1}, "before 7": {Epoch: 3, StartOffset: 5},
		"before 5": {Epoch: 3, StartOffset: 5}, "before 1": {}, "3": {Epoch: 3, StartOffset: 5}, "4": {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := c.AssignAll([]epochcache.Entry{{Epoch: 8, StartOffset: 20}, {Epoch: -1, StartOffset: 30}}); err == nil {
		t.Error("a negative epoch was taken")
	}
	if c.LatestEpoch() != 7 {
		t.Error("a refused list was half applied")
	}
}

// D16, D19: once Assign returned, no crash loses the entry.
func TestD19_AssignIsDurable(t *testing.T) {
	entries := []epochcache.Entry{{Epoch: 0, StartOffset: 0}, {Epoch: 1, StartOffset: 10}, {Epoch: 4, StartOffset: 20}}
	err := errfs.EachCrash(vfs.NewMem(), func(fsys vfs.FS, acked func()) error {
		c, err := epochcache.New(fsys, path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := c.Assign(e.Epoch, e.StartOffset); err != nil {
				return err
			}
			acked()
		}
		return nil
	}, func(crash errfs.Crash) {
		c, err := epochcache.New(crash.Left, path)
		must(t, err)
		got := c.Entries()
		if len(got) != crash.Acked && len(got) != crash.Acked+1 {
			t.Fatalf("%s left after %d assignments", show(got), crash.Acked)
		}
		if diff := cmp.Diff(entries[:len(got)], got); len(got) > 0 && diff != "" {
			t.Error(diff)
		}
	})
	must(t, err)
}

// A log that was truncated and grew again within an older epoch crashes: the
// entry that was cut must not come back for records it never had.
func TestD19_TruncationIsDurable(t *testing.T) {
	mem := vfs.NewMem()
	c, err := epochcache.New(mem, path)
	must(t, err)
	_, err = c.AssignAll([]epochcache.Entry{{Epoch: 4, StartOffset: 0}, {Epoch: 5, StartOffset: 100}})
	must(t, err)
	_, err = c.TruncateFromEnd(90)
	must(t, err)
	if changed, err := c.Assign(4, 90); changed || err != nil {
		t.Fatalf("the follower goes on in epoch 4: %v, %v", changed, err)
	}
	left, err := epochcache.New(mem.CrashClone(vfs.CrashOptions{}), path)
	must(t, err)
	if epoch, _ := left.EpochForOffset(105); epoch != 4 {
		t.Errorf("offset 105 has epoch 4, the file says %d", epoch)
	}
}

// D20: an error while writing reaches the caller, and the next write repairs it.
func TestD20_AssignErrors(t *testing.T) {
	for i := int64(0); ; i++ {
		mem := vfs.NewMem()
		fsys := errfs.Wrap(mem, errfs.Hooks{Before: errfs.FailNth(i, syscall.EIO, nil)})
		c, err := epochcache.New(fsys, path)
		if err != nil {
			if c != nil || !errors.Is(err, syscall.EIO) {
				t.Fatalf("operation %d: cache %v, error %v", i, c, err)
			}
			continue
		}
		_, err = c.Assign(3, 7)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d: %v", i, err)
		}
		must(t, c.Flush())
		again, err := epochcache.New(mem, path)
		must(t, err)
		if again.LatestEpoch() != 3 {
			t.Errorf("operation %d: the entry never reached the file", i)
		}
	}
}
