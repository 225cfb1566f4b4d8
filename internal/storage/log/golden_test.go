package log

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// goldenDir is a partition folder that Apache Kafka 4.3.1 wrote and closed: 30
// records of 20 bytes with each codec from idempotent producers, then 20 in
// committed transactions; index.interval.bytes=256.
const goldenDir = "testdata/kafka-4.3.1/gold-0"

var goldenTP = types.TopicPartition{Topic: "gold", Partition: 0}

// goldenDisk copies the folder into memory, without the files skip names.
func goldenDisk(t *testing.T, skip ...string) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/data/gold-0"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.ContainsFunc(skip, func(s string) bool { return strings.HasSuffix(e.Name(), s) }) {
			continue
		}
		f, err := fs.Create("/data/gold-0/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(goldenFile(t, e.Name()), 0); err != nil {
			t.Fatal(err)
		}
	}
	f, err := fs.Create("/data/meta.properties")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("version=1\nnode.id=1\ncluster.id=cGVlcnNwZWVyc3BlZXJzMQ\ndirectory.id=peerpeerpeerpeerpeer1A\n"), 0); err != nil {
		t.Fatal(err)
	}
	return fs
}

func goldenFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(goldenDir + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func memFile(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		t.Fatal(err)
	}
	return b
}

// TestKafkaFolder opens a folder that Kafka wrote: as it is, and with
// everything missing that can be rebuilt, which must then become the bytes that
// Kafka had written.
func TestKafkaFolder(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes, cfg.IndexIntervalBytes, cfg.SegmentIndexBytes = 1<<20, 256, 10<<20
	for _, skip := range [][]string{nil, {"index"}, {"index", ".snapshot", "leader-epoch-checkpoint"}} {
		t.Run(strings.Join(skip, "+"), func(t *testing.T) {
			fs := goldenDisk(t, skip...)
			h := mustStart(t, fs, cfg)
			l, ok := h.m.Get(goldenTP)
			if !ok {
				t.Fatal("not loaded")
			}
			if l.LogStartOffset() != 0 || l.LogEndOffset() != 173 || l.LatestEpoch() != 0 {
				t.Fatalf("[%d, %d) epoch %d", l.LogStartOffset(), l.LogEndOffset(), l.LatestEpoch())
			}
			if got := l.TopicID().String(); got != "GOYsYu5WSEa3dzo7vy1khg" {
				t.Errorf("topic id %s", got)
			}
			if got, err := readAll(l, 0, 173); err != nil || len(got) != 173 {
				t.Errorf("%d records, %v", len(got), err)
			}
			want, err := producerstate.DecodeSnapshot(goldenFile(t, "00000000000000000173.snapshot"))
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(want, func(a, b producerstate.Entry) int { return int(a.ProducerID - b.ProducerID) })
			for i, p := range l.Producers() {
				w := &want[i]
				if p.ProducerID != w.ProducerID || p.Epoch != w.Epoch || p.LastSequence() != w.LastSequence() ||
					p.LastOffset() != w.LastOffset() || p.LastTimestampMs != w.LastTimestampMs || p.CoordinatorEpoch != w.CoordinatorEpoch {
					t.Errorf("producer %+v, Kafka has %+v", p, *w)
				}
			}
			if err := h.stop(true); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex", "leader-epoch-checkpoint"} {
				if d := cmp.Diff(goldenFile(t, name), memFile(t, fs, "/data/gold-0/"+name)); d != "" {
					t.Errorf("%s differs from Kafka's: %s", name, d)
				}
			}
		})
	}
}
