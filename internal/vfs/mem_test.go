package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

func content(t *testing.T, m *vfs.Mem, name string) string {
	t.Helper()
	if _, err := m.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return "<missing>"
	}
	return read(t, m, name)
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := memWith(t, "/d")
	f, err := m.Create("/d/f")
	must(t, err)
	steps := []struct {
		name      string
		do        func()
		none, all string
	}{
		{"write", func() { f.WriteAt([]byte("aaaa"), 0) }, "<missing>", "aaaa"},
		{"sync the file: its name is not durable", func() { f.Sync() }, "<missing>", "aaaa"},
		{"sync the folder, but not its parent", func() { m.SyncDir("/d") }, "<missing>", "aaaa"},
		{"sync the parent", func() { m.SyncDir("/") }, "aaaa", "aaaa"},
		{"overwrite", func() { f.WriteAt([]byte("bb"), 1) }, "aaaa", "abba"},
		{"truncate", func() { f.Truncate(3) }, "aaaa", "abb"},
		{"sync", func() { f.Sync() }, "abb", "abb"},
		{"remove", func() { m.Remove("/d/f") }, "abb", "<missing>"},
		{"sync the folder", func() { m.SyncDir("/d") }, "<missing>", "<missing>"},
	}
	for _, s := range steps {
		s.do()
		if got := content(t, m.CrashClone(vfs.CrashOptions{}), "/d/f"); got != s.none {
			t.Errorf("%s: nothing unsynced kept: %q, want %q", s.name, got, s.none)
		}
		if got := content(t, m.CrashClone(vfs.CrashOptions{UnsyncedPercent: 100}), "/d/f"); got != s.all {
			t.Errorf("%s: all kept: %q, want %q", s.name, got, s.all)
		}
	}
}

func TestCrashRenameWithinAFolderIsAtomic(t *testing.T) {
	for seed := range uint64(50) {
		m := memWith(t, "/d")
		write(t, m, "/d/a", "old")
		write(t, m, "/d/b", "new")
		for _, n := range []string{"/d/a", "/d/b"} {
			f, err := m.OpenReadWrite(n, false)
			must(t, err)
			must(t, f.Sync())
		}
		must(t, m.SyncDir("/"))
		must(t, m.SyncDir("/d"))
		must(t, m.Rename("/d/b", "/d/a"))
		c := m.CrashClone(vfs.CrashOptions{UnsyncedPercent: 50, Seed: seed})
		got := content(t, c, "/d/a") + " " + content(t, c, "/d/b")
		if got != "old new" && got != "new <missing>" {
			t.Fatalf("seed %d: half a rename: %q", seed, got)
		}
	}
}

// A write under way survives in any subset of its sectors, never in part of one.
func TestCrashTearsAtSectors(t *testing.T) {
	torn := 0
	for seed := range uint64(50) {
		m := vfs.NewMem()
		f, err := m.Create("/f")
		must(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte("o"), 2048), 0)
		must(t, err)
		must(t, f.Sync())
		must(t, m.SyncDir("/"))
		_, err = f.WriteAt(bytes.Repeat([]byte("n"), 1200), 400)
		must(t, err)
		got := content(t, m.CrashClone(vfs.CrashOptions{UnsyncedPercent: 50, Seed: seed}), "/f")
		if len(got) != 2048 {
			t.Fatalf("seed %d: %d bytes", seed, len(got))
		}
		kept := 0
		for _, r := range [][2]int{{400, 512}, {512, 1024}, {1024, 1536}, {1536, 1600}} {
			s := got[r[0]:r[1]]
			switch n := bytes.Count([]byte(s), []byte("n")); n {
			case 0:
			case len(s):
				kept++
			default:
				t.Fatalf("seed %d: sector piece %v is mixed", seed, r)
			}
		}
		if kept > 0 && kept < 4 {
			torn++
		}
	}
	if torn == 0 {
		t.Error("no write was ever torn")
	}
}

func TestCrashIsRepeatable(t *testing.T) {
	m := memWith(t, "/d")
	for i := range 20 {
		write(t, m, fmt.Sprintf("/d/%d", i), "x")
	}
	must(t, m.SyncDir("/"))
	o := vfs.CrashOptions{UnsyncedPercent: 50, Seed: 7}
	a, err := m.CrashClone(o).List("/d")
	must(t, err)
	b, err := m.CrashClone(o).List("/d")
	must(t, err)
	if !slices.Equal(a, b) || len(a) == 0 || len(a) == 20 {
		t.Errorf("one seed gave %q and %q", a, b)
	}
}

func TestCapacity(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(10)
	f, err := m.Create("/f")
	must(t, err)
	n, err := f.WriteAt([]byte("0123456"), 0)
	if n != 7 || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
	n, err = f.WriteAt([]byte("789abc"), 7)
	if n != 3 || !vfs.IsNoSpace(err) {
		t.Fatalf("write over the capacity: %d, %v", n, err)
	}
	if _, err := f.WriteAt([]byte("XX"), 0); err != nil {
		t.Fatalf("overwriting needs no space: %v", err)
	}
	g, err := m.Create("/g")
	must(t, err)
	if _, err := g.WriteAt([]byte("x"), 0); !vfs.IsNoSpace(err) {
		t.Fatalf("a full disk took a byte: %v", err)
	}
	must(t, m.Remove("/f"))
	if _, err := g.WriteAt([]byte("x"), 0); !vfs.IsNoSpace(err) {
		t.Fatalf("an open file gave its space back: %v", err)
	}
	must(t, f.Close())
	if _, err := g.WriteAt([]byte("x"), 0); err != nil {
		t.Fatalf("space did not return: %v", err)
	}
	_, usable, err := m.Usage("/")
	must(t, err)
	if usable != 9 {
		t.Errorf("usable %d, want 9", usable)
	}
}

// Whatever happened, a crash that keeps everything equals the present, and one
// that keeps nothing equals the last full sync.
func TestCrashProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := vfs.NewMem()
		var synced map[string]string
		name := rapid.SampledFrom([]string{"/a", "/b", "/c"})
		syncAll := func() {
			for _, n := range []string{"/a", "/b", "/c"} {
				if f, err := m.OpenReadWrite(n, false); err == nil {
					_ = f.Sync()
					_ = f.Close()
				}
			}
			_ = m.SyncDir("/")
			synced = present(t, m)
		}
		syncAll()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "op") {
			case 0, 1:
				f, err := m.OpenReadWrite(name.Draw(rt, "file"), true)
				if err != nil {
					rt.Fatal(err)
				}
				data := bytes.Repeat([]byte{byte(rapid.IntRange('a', 'z').Draw(rt, "byte"))}, rapid.IntRange(1, 1500).Draw(rt, "size"))
				_, _ = f.WriteAt(data, int64(rapid.IntRange(0, 1000).Draw(rt, "off")))
				if rapid.Bool().Draw(rt, "cut") {
					_ = f.Truncate(int64(rapid.IntRange(0, 2000).Draw(rt, "to")))
				}
				_ = f.Close()
			case 2:
				_ = m.Rename(name.Draw(rt, "from"), name.Draw(rt, "to"))
			case 3:
				_ = m.Remove(name.Draw(rt, "gone"))
			case 4:
				syncAll()
			}
		}
		if got, want := present(t, m.CrashClone(vfs.CrashOptions{UnsyncedPercent: 100})), present(t, m); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatal("keeping everything lost something")
		}
		got := present(t, m.CrashClone(vfs.CrashOptions{}))
		if fmt.Sprint(got) != fmt.Sprint(synced) {
			rt.Fatal("keeping nothing is not the last full sync")
		}
	})
}

func present(t *testing.T, m *vfs.Mem) map[string]string {
	t.Helper()
	names, err := m.List("/")
	must(t, err)
	out := map[string]string{}
	for _, n := range names {
		out[n] = read(t, m, "/"+n)
	}
	return out
}
