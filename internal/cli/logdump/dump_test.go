package logdump

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// kafkaFiles were written by Apache Kafka 4.3.1: four codecs, idempotent and
// transactional batches, an aborted transaction, committed offsets, metadata
// log, snapshot and quorum state.
var kafkaFiles = []string{
	"orders-0/00000000000000000000.log", "orders-0/00000000000000000000.index", "orders-0/00000000000000000000.timeindex",
	"orders-0/00000000000000000128.snapshot", "orders-0/leader-epoch-checkpoint", "orders-0/partition.metadata",
	"txtopic-0/00000000000000000000.log", "txtopic-0/00000000000000000000.index", "txtopic-0/00000000000000000000.txnindex",
	"txtopic-0/00000000000000000000.timeindex", "txtopic-0/00000000000000000006.snapshot",
	"__consumer_offsets-29/00000000000000000000.log",
	"__cluster_metadata-0/00000000000000000000.log", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
	"__cluster_metadata-0/quorum-state", "replication-offset-checkpoint", "meta.properties", ".kafka_cleanshutdown",
}

func dumpAll(t *testing.T, format string, o options, files ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(&app.App{Out: &out, Err: &out, Format: format}, files, o)
	return out.String(), err
}

// TestDumpKafkaFiles: every file of a Kafka data folder is readable and sound.
func TestDumpKafkaFiles(t *testing.T) {
	var files []string
	for _, f := range kafkaFiles {
		files = append(files, filepath.Join("testdata/kafka", f))
	}
	for _, format := range []string{"text", "json"} {
		got, err := dumpAll(t, format, options{records: true, limit: 1 << 20}, files...)
		if err != nil {
			t.Errorf("%s: %v", format, err)
		}
		golden := "testdata/kafka." + format
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestJSONLinesAreJSON(t *testing.T) {
	out, err := dumpAll(t, "json", options{records: true, limit: 1 << 20}, "testdata/kafka/txtopic-0/00000000000000000000.log")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["kind"] == nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestDamage: each kind of damage is found, said, and makes a finding.
func TestDamage(t *testing.T) {
	log := "orders-0/00000000000000000000.log"
	second := int64(1671) // where the second batch of that file starts
	for _, tc := range []struct {
		name, file string
		change     func([]byte) []byte
		want       string
	}{
		{"crc", log, flip(second + 100), "DAMAGE at byte 1671: record batch is corrupt"},
		{"torn", log, func(b []byte) []byte { return b[:len(b)-5] }, "a torn write"},
		{"tail", log, func(b []byte) []byte { return append(b, 1, 2, 3) }, "3 bytes at the end are no whole batch"},
		{"length", log, flip(second + 8), "is impossible"},
		{"twice", log, func(b []byte) []byte { return append(b, b[:second]...) }, "offset 0 comes after offset 127"},
		{"hole", log, func(b []byte) []byte { return append(append(b, make([]byte, 100)...), 9) }, "bytes behind a stretch of zeros"},
		{"index", "orders-0/00000000000000000000.index", flip(7), "the log has another batch there"},
		{"index size", "orders-0/00000000000000000000.index", func(b []byte) []byte { return append(b, 1) }, "DAMAGE"},
		{"snapshot", "orders-0/00000000000000000128.snapshot", flip(20), "DAMAGE"},
		{"txnindex", "txtopic-0/00000000000000000000.txnindex", func(b []byte) []byte { return b[:30] }, "DAMAGE"},
		{"checkpoint", "replication-offset-checkpoint", func([]byte) []byte { return []byte("0\n9\n") }, "DAMAGE"},
		{"epochs", "orders-0/leader-epoch-checkpoint", func([]byte) []byte { return []byte("x") }, "DAMAGE"},
		{"quorum state", "__cluster_metadata-0/quorum-state", func([]byte) []byte { return []byte("{") }, "DAMAGE"},
		{"metadata", "__cluster_metadata-0/00000000000000000000.log", flip(150), "DAMAGE"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := dumpAll(t, "text", options{limit: 1 << 20}, damaged(t, tc.file, tc.change))
			if app.Code(err) != app.ExitFinding {
				t.Errorf("exit code %d (%v), want %d", app.Code(err), err, app.ExitFinding)
			}
			if !strings.Contains(out, tc.want) {
				t.Errorf("output lacks %q:\n%s", tc.want, out)
			}
		})
	}
}

func flip(at int64) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 0xff; return b }
}

// damaged copies a file, with the log beside it, into a folder of the same name and changes it.
func damaged(t *testing.T, file string, change func([]byte) []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Dir(file))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(file))
	for _, name := range []string{filepath.Base(file), "00000000000000000000.log"} {
		data, err := os.ReadFile(filepath.Join("testdata/kafka", filepath.Dir(file), name))
		if err != nil {
			continue
		}
		if filepath.Base(file) == name {
			data = change(data)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestPreallocatedTailIsNoDamage(t *testing.T) {
	path := damaged(t, "orders-0/00000000000000000000.log", func(b []byte) []byte { return append(b, make([]byte, 100000)...) })
	out, err := dumpAll(t, "text", options{limit: 1 << 20}, path)
	if err != nil || !strings.Contains(out, "97.7 KiB of reserved space") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestKindByName(t *testing.T) {
	for path, want := range map[string]string{
		"a-0/00000000000000000000.log": kindLog, "__consumer_offsets-3/0.log": kindOffsets, "__cluster_metadata-0/0.log": kindMetadata,
		"x/0.log.deleted": kindLog, "x/0.timeindex.swap": kindTimeIndex, "x/recovery-point-offset-checkpoint": kindCheckpoint, "x/y": "",
	} {
		if got := kindOf(path); got != want {
			t.Errorf("kindOf(%q) = %q, want %q", path, got, want)
		}
	}
	_, err := dumpAll(t, "text", options{}, "testdata/kafka.text")
	if err == nil || app.Code(err) != app.ExitError {
		t.Errorf("a file of no known kind: %v", err)
	}
	out, err := dumpAll(t, "text", options{}, "testdata")
	var e *app.Error
	if !errors.As(err, &e) || out != "" || e.Message != "testdata is a folder" || e.Hint != "name its files: testdata/*.log" {
		t.Errorf("a folder: %v\n%s", err, out)
	}
	_, err = dumpAll(t, "text", options{as: "novel"}, "testdata/kafka.text")
	if err == nil || !strings.Contains(err.Error(), `--as "novel" is unknown`) {
		t.Errorf("an unknown kind: %v", err)
	}
}

// TestOwnBatches: what our own builder writes is sound, headers and nulls included.
func TestOwnBatches(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Zstd, BaseOffset: 7, LeaderEpoch: 3})
	b.Append(1000, nil, []byte("v"), record.Header{Key: "h", Value: []byte("x")})
	b.Append(1001, []byte("k"), nil)
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "00000000000000000007.log")
	if err := os.WriteFile(path, batch, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := dumpAll(t, "text", options{records: true, limit: 1 << 20}, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`7 time 1000 key null value "v" header h="x"`, `8 time 1001 key "k" value null`, "offsets 7..8, 2 records", "zstd, leader epoch 3"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}

// FuzzDump: no bytes of any kind of file make the dumper panic.
func FuzzDump(f *testing.F) {
	for i, name := range kafkaFiles {
		data, err := os.ReadFile(filepath.Join("testdata/kafka", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i%len(kinds)), data)
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		path := filepath.Join(t.TempDir(), "00000000000000000000.x")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _ = dumpAll(t, "text", options{as: kinds[int(kind)%len(kinds)], records: true, limit: 1 << 20}, path)
	})
}
