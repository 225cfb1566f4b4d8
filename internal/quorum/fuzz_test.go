package quorum

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-io/tidemark/internal/vfs"
)

func writeFile(t testing.TB, fsys vfs.FS, path string, data []byte) {
	t.Helper()
	if err := fsys.MkdirAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// FuzzSnapshotReader reads anything as a snapshot: an error or records, never a
// panic.
func FuzzSnapshotReader(f *testing.F) {
	for _, name := range []string{"00000000000000000000-0000000000.checkpoint", "00000000000000000027-0000000001.checkpoint", bootstrapFile} {
		data, err := os.ReadFile(filepath.Join("testdata", "kafka-4.3.1", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := vfs.NewMem()
		writeFile(t, fsys, "/s", data)
		r, err := openSnapshot(fsys, "/s", SnapshotID{})
		if err != nil {
			return
		}
		n := 0
		for rec, err := range r.Records() {
			if err == nil && rec == nil {
				t.Fatal("neither a record nor an error")
			}
			n++
		}
		if n > len(data) {
			t.Fatalf("%d records in %d bytes", n, len(data))
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzOpenLog opens a folder whose log is anything: what is good of it can be
// read, or Open says what is wrong.
func FuzzOpenLog(f *testing.F) {
	for _, dir := range []string{"kafka-4.3.1", "kafka-4.3.1-log-only"} {
		data, err := os.ReadFile(filepath.Join("testdata", dir, "00000000000000000000.log"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte("0\n1\n5 1 3\n"))
	}
	f.Fuzz(func(t *testing.T, data, indexes []byte) {
		fsys := vfs.NewMem()
		format(t, fsys)
		dir := filepath.Join(testDir, logDirName)
		writeFile(t, fsys, filepath.Join(dir, "00000000000000000000.log"), data)
		writeFile(t, fsys, filepath.Join(dir, raftIndexFile), indexes)
		n, err := Open(testOptions(fsys))
		if err != nil {
			return
		}
		// Not Start: goroutines would make the fuzzer's coverage noisy.
		for i, _ := n.meta.FirstIndex(); i <= n.meta.lastIndexLocked(); i++ {
			e, err := n.meta.entry(i)
			if err != nil {
				t.Fatalf("entry %d of an open log: %v", i, err)
			}
			if _, err := decodeBatch(e.GetData()); err != nil {
				break
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzRaftIndexes reads anything as the checkpoint and writes it back.
func FuzzRaftIndexes(f *testing.F) {
	f.Add([]byte("0\n2\n27 1 10\n67 4 27\n"))
	f.Add([]byte("0\n0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := vfs.NewMem()
		writeFile(t, fsys, "/d/"+raftIndexFile, data)
		m, err := readRaftIndexes(fsys, "/d")
		if err != nil {
			return
		}
		if err := writeRaftIndexes(fsys, "/d", m); err != nil {
			t.Fatal(err)
		}
		again, err := readRaftIndexes(fsys, "/d")
		if err != nil || len(again) != len(m) {
			t.Fatalf("read back %v, %v; wrote %v", again, err, m)
		}
	})
}

// FuzzQuorumState reads anything as quorum-state.
func FuzzQuorumState(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "kafka-4.3.1", quorumStateFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, int32(1))
	f.Fuzz(func(t *testing.T, data []byte, lastEpoch int32) {
		fsys := vfs.NewMem()
		writeFile(t, fsys, "/d/"+quorumStateFile, data)
		st, err := loadQuorumState(fsys, "/d")
		if err != nil {
			return
		}
		set := &voterSet{voters: []Voter{testVoter()}, version: 1}
		if hs := hardState(st, set, lastEpoch, 0); hs != nil && int64(hs.GetTerm()) < int64(lastEpoch) {
			t.Fatalf("term %d below the log's epoch %d", hs.GetTerm(), lastEpoch)
		}
	})
}
