package quorum

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// kafkaFolder loads a metadata folder that Apache Kafka 4.3.1 wrote.
func kafkaFolder(t *testing.T, from string) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	dir := filepath.Join(testDir, logDirName)
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join("testdata", from))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join("testdata", from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, e.Name())
		if e.Name() == bootstrapFile {
			to = filepath.Join(testDir, e.Name())
		}
		f, err := fsys.Create(to)
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
	return fsys
}

func kafkaOptions(t *testing.T, fsys vfs.FS) Options {
	t.Helper()
	id, err := types.ParseUUID("peerpeerpeerpeerpeer1A")
	if err != nil {
		t.Fatal(err)
	}
	o := testOptions(fsys)
	o.DirectoryID, o.Endpoints = id, nil
	return o
}

// TestOpensWhatKafkaWrote leads on from a log of Kafka's, with and without a
// snapshot, and again after a restart.
func TestOpensWhatKafkaWrote(t *testing.T) {
	cases := []struct {
		folder   string
		topics   []string
		snapshot SnapshotID
	}{
		{"kafka-4.3.1", []string{"later", "golden"}, SnapshotID{27, 1}},
		{"kafka-4.3.1-log-only", []string{"golden", "gone"}, SnapshotID{}},
	}
	for _, c := range cases {
		t.Run(c.folder, func(t *testing.T) {
			fsys := kafkaFolder(t, c.folder)
			n, l := start(t, kafkaOptions(t, fsys))
			if l.snapshot != c.snapshot || len(l.gaps) > 0 {
				t.Errorf("snapshot %v, gaps %v", l.snapshot, l.gaps)
			}
			if got := l.topicNames(); !slices.Equal(got, c.topics) {
				t.Errorf("topics %v, want %v", got, c.topics)
			}
			if lead := l.leads[len(l.leads)-1]; lead.Epoch != 2 {
				t.Errorf("epoch %d after Kafka's 1", lead.Epoch)
			}
			base := mustPropose(t, n, "ours")
			l.await(t, "commit", func() bool { return l.next == base+1 })
			mustClose(t, n)
			n, l = start(t, kafkaOptions(t, fsys))
			if !slices.Contains(l.topicNames(), "ours") {
				t.Errorf("topics after a restart %v", l.topicNames())
			}
			mustClose(t, n)
		})
	}
}

func TestReadsKafkasBootstrap(t *testing.T) {
	records, err := ReadBootstrap(kafkaFolder(t, "kafka-4.3.1"), testDir)
	if err != nil || len(records) != 6 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	first, ok := records[0].(*recordschema.FeatureLevelRecord)
	if !ok || first.Name != "metadata.version" || first.FeatureLevel != 30 {
		t.Fatalf("first record %+v", records[0])
	}
}
