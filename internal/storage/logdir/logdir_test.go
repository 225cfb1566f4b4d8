package logdir_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

const golden = "testdata/kafka-4.3.1"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func goldenFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(golden, name))
	must(t, err)
	return b
}

func random(seed uint64) io.Reader {
	var s [32]byte
	s[0], s[1] = byte(seed), byte(seed>>8)
	return rand.NewChaCha8(s)
}

func options(fsys vfs.FS, paths ...string) logdir.Options {
	return logdir.Options{FS: fsys, Paths: paths, NodeID: 1, Format: true, Random: random(1), Now: time.Unix(0, 0)}
}

func TestGoldenMetaProperties(t *testing.T) {
	raw := goldenFile(t, logdir.MetaPropertiesFile)
	m, err := logdir.DecodeMetaProperties(raw)
	must(t, err)
	id, err := types.ParseUUID("peerpeerpeerpeerpeer1A")
	must(t, err)
	if diff := cmp.Diff(logdir.MetaProperties{ClusterID: "cGVlcnNwZWVyc3BlZXJzMQ", NodeID: 1, DirectoryID: id}, m); diff != "" {
		t.Error(diff)
	}
	now := time.Date(2026, 11, 30, 15, 39, 12, 0, time.UTC) // as in the file's comment
	if got := logdir.EncodeMetaProperties(m, now); !bytes.Equal(raw, got) {
		t.Errorf("not byte for byte Kafka's:\n%s\n%s", raw, got)
	}
}

func TestGoldenCleanShutdown(t *testing.T) {
	raw := goldenFile(t, logdir.CleanShutdownFile)
	epoch, err := logdir.DecodeCleanShutdown(raw)
	must(t, err)
	if got := logdir.EncodeCleanShutdown(epoch); epoch != 13 || !bytes.Equal(raw, got) {
		t.Errorf("epoch %d: %s, ours %s", epoch, raw, got)
	}
}

func TestGoldenPartitionMetadata(t *testing.T) {
	raw := goldenFile(t, logdir.PartitionMetadataFile)
	id, ok, err := logdir.ReadPartitionMetadata(vfs.OS(), golden)
	must(t, err)
	if got := logdir.EncodePartitionMetadata(id); !ok || id.String() != "9RxT7mraS3S70N3PVSD3Qw" || !bytes.Equal(raw, got) {
		t.Errorf("%s %v: %q, ours %q", id, ok, raw, got)
	}
}

func TestDecodeMetaPropertiesRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                                      "version 0 belongs to a ZooKeeper-based broker",
		"version=2\nnode.id=1\ncluster.id=x\n":  `version "2", expected 1`,
		"version=1\ncluster.id=x\n":             "node.id is missing",
		"version=1\nnode.id=-4\ncluster.id=x\n": `node.id "-4" is not a node id`,
		"version=1\nnode.id=1\n":                "cluster.id is missing",
		"version=1\nnode.id=1\ncluster.id=x\ndirectory.id=zz\n":                     "directory.id",
		"version=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n": "is reserved",
	} {
		_, err := logdir.DecodeMetaProperties([]byte(in))
		if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
	m, err := logdir.DecodeMetaProperties([]byte("# old\nversion = 1\nnode.id: 7\ncluster.id x\nlater.key=1\n"))
	if err != nil || m.NodeID != 7 || m.ClusterID != "x" || !m.DirectoryID.IsZero() {
		t.Errorf("Java's other spellings: %+v, %v", m, err)
	}
}

func TestDecodePartitionMetadataRefuses(t *testing.T) {
	for _, in := range []string{
		"", "version: 0\n", "version: x\ntopic_id: 9RxT7mraS3S70N3PVSD3Qw", "version: -1\ntopic_id: 9RxT7mraS3S70N3PVSD3Qw",
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: 0\ntopic_id: short", "version: 0\nid: 9RxT7mraS3S70N3PVSD3Qw", "\x00\x00",
	} {
		if _, err := logdir.DecodePartitionMetadata([]byte(in)); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := logdir.DecodePartitionMetadata([]byte("version: 1\r\ntopic_id: 9RxT7mraS3S70N3PVSD3Qw\r\nmore: x\r\n")); err != nil {
		t.Errorf("a newer version: %v", err)
	}
	m := vfs.NewMem()
	if _, ok, err := logdir.ReadPartitionMetadata(m, "/t-0"); ok || err != nil {
		t.Errorf("missing: %v, %v", ok, err)
	}
}

func TestFirstStartFormats(t *testing.T) {
	m := vfs.NewMem()
	s, err := logdir.OpenAll(options(m, "/var/lib/a", "/var/lib/b"))
	must(t, err)
	a, b := s.Dirs[0], s.Dirs[1]
	if !s.Formatted || s.ClusterID == "" || a.ClusterID != s.ClusterID || a.ID == b.ID || a.ID.IsZero() || a.NodeID != 1 {
		t.Errorf("%+v %+v %+v", s, a, b)
	}
	if a.CleanStart || s.PreviousBrokerEpoch() != logdir.NoBrokerEpoch {
		t.Error("a new folder was never closed cleanly")
	}
	must(t, a.CloseClean(42))
	must(t, b.CloseClean(42))
	again, err := logdir.OpenAll(options(m, "/var/lib/a", "/var/lib/b"))
	must(t, err)
	if again.Formatted || again.ClusterID != s.ClusterID || again.Dirs[0].ID != a.ID || !again.Dirs[0].CleanStart || again.PreviousBrokerEpoch() != 42 {
		t.Errorf("second start: %+v %+v", again, again.Dirs[0])
	}
	// The marker is gone while the folder is open: a kill now is not clean.
	left := m.CrashClone(vfs.CrashOptions{})
	third, err := logdir.OpenAll(options(left, "/var/lib/a", "/var/lib/b"))
	must(t, err)
	if third.Dirs[0].CleanStart || third.PreviousBrokerEpoch() != logdir.NoBrokerEpoch || third.Dirs[0].ID != a.ID {
		t.Errorf("after a power cut: %+v", third.Dirs[0])
	}
}

func TestPreviousBrokerEpochNeedsAllFolders(t *testing.T) {
	m := vfs.NewMem()
	open := func() *logdir.Set {
		s, err := logdir.OpenAll(options(m, "/a", "/b"))
		must(t, err)
		return s
	}
	for name, closeBoth := range map[string]func(a, b *logdir.Dir) error{
		"one unclean": func(a, b *logdir.Dir) error { return errors.Join(a.CloseClean(5), b.Close()) },
		"different":   func(a, b *logdir.Dir) error { return errors.Join(a.CloseClean(5), b.CloseClean(6)) },
	} {
		s := open()
		must(t, closeBoth(s.Dirs[0], s.Dirs[1]))
		s = open()
		if got := s.PreviousBrokerEpoch(); got != logdir.NoBrokerEpoch {
			t.Errorf("%s: %d", name, got)
		}
		must(t, errors.Join(s.Dirs[0].Close(), s.Dirs[1].Close()))
	}
}

// Before KIP-966 the marker was empty; whatever is in it, it means clean.
func TestForeignCleanShutdownMarkers(t *testing.T) {
	for in, want := range map[string]int64{
		"": -1, "garbage": -1, `{"version":0}`: -1, `{"version":0,"brokerEpoch":null}`: -1, `{"version":0,"brokerEpoch":-7}`: -1,
		`{"version":3,"brokerEpoch":9,"more":{}}`: 9, `{"brokerEpoch":0}`: 0,
	} {
		m := vfs.NewMem()
		d, err := logdir.Open(options(m, "/a"))
		must(t, err)
		must(t, d.Close())
		must(t, checkpoint.WriteFile(m, "/a/"+logdir.CleanShutdownFile, []byte(in)))
		o := options(m, "/a")
		reports := 0
		o.OnReport = func(string, error) { reports++ }
		d, err = logdir.Open(o)
		must(t, err)
		if !d.CleanStart || d.BrokerEpoch != want || (reports > 0) != (want < 0) {
			t.Errorf("%q: clean %v, epoch %d, %d reports", in, d.CleanStart, d.BrokerEpoch, reports)
		}
		if _, err := m.Stat("/a/" + logdir.CleanShutdownFile); err == nil {
			t.Errorf("%q: the marker is still there", in)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(m *vfs.Mem, o *logdir.Options)
		want    string
	}{
		"another node":    {func(_ *vfs.Mem, o *logdir.Options) { o.NodeID = 2 }, "/a belongs to node 1, but this is node 2"},
		"another cluster": {func(_ *vfs.Mem, o *logdir.Options) { o.ClusterID = "other" }, "but this is cluster other"},
		"two clusters": {func(m *vfs.Mem, o *logdir.Options) {
			o.Paths = append(o.Paths, "/b")
			b := options(m, "/b")
			b.Random = random(99)
			d, _ := logdir.Open(b)
			d.Close()
		}, "/b belongs to cluster"},
		"in use": {func(m *vfs.Mem, o *logdir.Options) { m.Lock("/a/" + logdir.LockFile) }, "/a is in use"},
		"twice":  {func(_ *vfs.Mem, o *logdir.Options) { o.Paths = []string{"/a", "/a"} }, "log.dirs names it twice"},
		"a copy": {func(m *vfs.Mem, o *logdir.Options) {
			o.Paths = append(o.Paths, "/b")
			m.MkdirAll("/b")
			b, _ := checkpoint.ReadFile(m, "/a/meta.properties", 1000)
			checkpoint.WriteFile(m, "/b/meta.properties", b)
		}, "have the same directory.id"},
		"not formatted": {func(_ *vfs.Mem, o *logdir.Options) { o.Paths, o.Format = []string{"/new"}, false }, "/new: the folder is not formatted"},
		"lost meta.properties": {func(m *vfs.Mem, o *logdir.Options) {
			m.MkdirAll("/a/orders-0")
			m.Remove("/a/meta.properties")
		}, `holds "orders-0": not formatting over it`},
		"corrupt meta.properties": {func(m *vfs.Mem, _ *logdir.Options) {
			checkpoint.WriteFile(m, "/a/meta.properties", []byte("\x00\x00"))
		}, "/a/meta.properties: corrupt file"},
		"somebody's folder": {func(m *vfs.Mem, o *logdir.Options) {
			m.MkdirAll("/home/letters")
			o.Paths = []string{"/home"}
		}, `holds "letters": not formatting over it`},
		"a file":  {func(m *vfs.Mem, o *logdir.Options) { m.Create("/f"); o.Paths = []string{"/f"} }, "/f is a file"},
		"nothing": {func(_ *vfs.Mem, o *logdir.Options) { o.Paths = nil }, "log.dirs names no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			m := vfs.NewMem()
			d, err := logdir.Open(options(m, "/a"))
			must(t, err)
			must(t, d.Close())
			o := options(m, "/a")
			c.prepare(m, &o)
			if _, err := logdir.OpenAll(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if name == "somebody's folder" {
				if names, err := m.List("/home"); err != nil || !slices.Equal(names, []string{"letters"}) {
					t.Errorf("a folder that was refused holds %q, %v", names, err)
				}
			}
			if name == "in use" {
				return
			}
			// Nothing stays locked.
			d, err = logdir.Open(logdir.Options{FS: m, Paths: []string{"/a"}, NodeID: 1, Random: random(5)})
			if err == nil {
				must(t, d.Close())
			} else if strings.Contains(err.Error(), "in use") {
				t.Error(err)
			}
		})
	}
}

func TestSecondProcessOnARealFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := logdir.Open(options(vfs.OS(), dir))
	must(t, err)
	if _, err := logdir.Open(options(vfs.OS(), dir)); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	must(t, d.CloseClean(7))
	d, err = logdir.Open(options(vfs.OS(), dir))
	must(t, err)
	if !d.CleanStart || d.BrokerEpoch != 7 {
		t.Errorf("%+v", d)
	}
	must(t, d.Close())
	must(t, d.Close())
	if err := d.CloseClean(8); err == nil {
		t.Error("a closed folder took a marker")
	}
}

// A folder that Kafka formatted before KIP-858 gets an id and keeps the rest.
func TestOldFolderGetsADirectoryID(t *testing.T) {
	m := vfs.NewMem()
	must(t, m.MkdirAll("/a/orders-0"))
	must(t, checkpoint.WriteFile(m, "/a/meta.properties", []byte("version=1\nnode.id=1\ncluster.id=abc\n")))
	d, err := logdir.Open(options(m, "/a"))
	must(t, err)
	meta, err := logdir.ReadMetaProperties(m, "/a")
	must(t, err)
	if meta.ClusterID != "abc" || meta.DirectoryID != d.ID || d.ID.IsZero() {
		t.Errorf("%+v, %s", meta, d.ID)
	}
}

// D6, JBOD: a folder that fails goes offline once, says why, and gets no marker.
func TestD6_Offline(t *testing.T) {
	m := vfs.NewMem()
	var heard []string
	o := options(m, "/a")
	var mu sync.Mutex
	o.OnOffline = func(d *logdir.Dir, err error) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, d.Path+": "+err.Error())
	}
	d, err := logdir.Open(o)
	must(t, err)
	if d.Err() != nil || d.IsOffline() {
		t.Error("a new folder is offline")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { d.Offline(syscall.EIO) })
	}
	wg.Wait()
	d.Offline(errors.New("later"))
	if len(heard) != 1 {
		t.Errorf("heard %q", heard)
	}
	if err := d.Err(); kerrors.CodeOf(err) != kerrors.KafkaStorageError || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "/a") {
		t.Errorf("%v", err)
	}
	if err := d.CloseClean(3); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v", err)
	}
	if _, err := m.Stat("/a/" + logdir.CleanShutdownFile); err == nil {
		t.Error("a failed folder got a marker")
	}
	if d, err = logdir.Open(options(m, "/a")); err != nil || d.CleanStart {
		t.Errorf("%+v, %v", d, err)
	}
}

// D20: an error at operation i, for all i: the folder is in Failed or the open
// fails; never a panic, never a folder that is half open.
func TestD20_OpenErrors(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		for i := int64(0); ; i++ {
			mem := vfs.NewMem()
			if !fresh {
				s, err := logdir.OpenAll(options(mem, "/good", "/bad"))
				must(t, err)
				must(t, errors.Join(s.Dirs[0].CloseClean(1), s.Dirs[1].CloseClean(1)))
			}
			bad := func(op errfs.Op) bool { return strings.HasPrefix(op.Path, "/bad") }
			fsys := errfs.Wrap(mem, errfs.Hooks{Before: errfs.FailNth(i, syscall.EIO, bad)})
			s, err := logdir.OpenAll(options(fsys, "/good", "/bad"))
			if err != nil {
				t.Fatalf("operation %d: one failing folder stopped the start: %v", i, err)
			}
			if s.Failed["/bad"] == nil {
				if len(s.Dirs) != 2 {
					t.Fatalf("operation %d: %+v", i, s)
				}
				break
			}
			if len(s.Dirs) != 1 || s.Dirs[0].Path != "/good" || !errors.Is(s.Failed["/bad"], syscall.EIO) || s.PreviousBrokerEpoch() != logdir.NoBrokerEpoch {
				t.Fatalf("operation %d: %+v", i, s)
			}
			must(t, s.Dirs[0].Close())
			s, err = logdir.OpenAll(options(mem, "/good", "/bad"))
			if err != nil || len(s.Dirs) != 2 {
				t.Fatalf("operation %d: the next start: %v", i, err)
			}
		}
	}
	fsys := errfs.Wrap(vfs.NewMem(), errfs.Hooks{Before: errfs.FailFrom(0, syscall.EIO, nil)})
	if _, err := logdir.OpenAll(options(fsys, "/a")); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "no data folder is usable") {
		t.Errorf("all folders fail: %v", err)
	}
}

// D19: whenever the power goes during first start, close and second start, the
// next start works and the identity that was once reported stays.
func TestD19_StartAndCloseSurviveCrashes(t *testing.T) {
	mem := vfs.NewMem()
	var ids []types.UUID // of the opens that returned
	clean := []bool{}
	err := errfs.EachCrash(mem, func(fsys vfs.FS, acked func()) error {
		for i := range 3 {
			d, err := logdir.Open(options(fsys, "/var/data"))
			if err != nil {
				return err
			}
			ids = append(ids, d.ID)
			clean = append(clean, d.CleanStart)
			acked() // 1: open
			if err := d.CloseClean(int64(i)); err != nil {
				return err
			}
			acked() // 2: closed
		}
		return nil
	}, func(c errfs.Crash) {
		o := options(c.Left, "/var/data")
		o.Random = random(1000 + c.Seed)
		d, err := logdir.Open(o)
		if err != nil {
			t.Fatalf("after %v %s (%d%%): %v", c.After.Kind, c.After.Path, c.Percent, err)
		}
		if c.Acked > 0 && d.ID != ids[0] {
			t.Errorf("after %v (%d%%): the directory id changed", c.After.Kind, c.Percent)
		}
		if c.Acked%2 == 1 && c.Percent == 0 && d.CleanStart && c.After.Kind != errfs.SyncDir {
			t.Errorf("after %v %s: an open folder looks cleanly closed", c.After.Kind, c.After.Path)
		}
		if c.Acked > 0 && c.Acked%2 == 0 && c.After.Kind == errfs.Lock && !d.CleanStart {
			t.Errorf("after %v (%d%%): a clean close was forgotten", c.After.Kind, c.Percent)
		}
		must(t, d.Close())
	})
	must(t, err)
	if !slices.Equal(clean, []bool{false, true, true}) {
		t.Errorf("clean starts %v", clean)
	}
}

func FuzzDecodeMetaProperties(f *testing.F) {
	b, err := os.ReadFile(filepath.Join(golden, logdir.MetaPropertiesFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("version=1\nnode.id=7\ncluster.id=\\ a\\\\b\\n\\=c\\:\n"))
	f.Add([]byte("version = 1\nnode.id: 7\ncluster.id \\u0041\\\n  b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := logdir.DecodeMetaProperties(data)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := logdir.DecodeMetaProperties(logdir.EncodeMetaProperties(m, time.Unix(0, 0)))
		if err != nil || again != m {
			t.Fatalf("%q: %+v, then %+v, %v", data, m, again, err)
		}
	})
}

func FuzzDecodeCleanShutdown(f *testing.F) {
	f.Add([]byte(`{"version":0,"brokerEpoch":13}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		epoch, err := logdir.DecodeCleanShutdown(data)
		if (err != nil) && epoch != logdir.NoBrokerEpoch {
			t.Fatalf("%q: error %v and epoch %d", data, err, epoch)
		}
		if err == nil {
			again, err := logdir.DecodeCleanShutdown(logdir.EncodeCleanShutdown(epoch))
			if err != nil || again != epoch {
				t.Fatalf("%q: %d, then %d, %v", data, epoch, again, err)
			}
		}
	})
}

func FuzzDecodePartitionMetadata(f *testing.F) {
	f.Add([]byte("version: 0\ntopic_id: 9RxT7mraS3S70N3PVSD3Qw"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := logdir.DecodePartitionMetadata(data)
		if err != nil {
			return
		}
		again, err := logdir.DecodePartitionMetadata(logdir.EncodePartitionMetadata(id))
		if err != nil || again != id {
			t.Fatalf("%q: %s, then %s, %v", data, id, again, err)
		}
	})
}
