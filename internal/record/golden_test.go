package record

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dumpLog renders a segment in the words of kafka-dump-log --print-data-log.
func dumpLog(t *testing.T, log []byte) string {
	t.Helper()
	var w strings.Builder
	w.WriteString("Log starting offset: 0\n")
	pos := 0
	for b, err := range Batches(log) {
		if err != nil {
			t.Fatalf("batch at %d: %v", pos, err)
		}
		fmt.Fprintf(&w, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "+
			"partitionLeaderEpoch: %d isTransactional: %v isControl: %v deleteHorizonMs: OptionalLong.empty position: %d %v: %d size: %d "+
			"magic: %d compresscodec: %v crc: %d isvalid: %v\n", b.BaseOffset(), b.LastOffset(), b.Count(), b.BaseSequence(), b.LastSequence(),
			b.ProducerID(), b.ProducerEpoch(), b.PartitionLeaderEpoch(), b.IsTransactional(), b.IsControl(), pos, b.TimestampType(),
			b.MaxTimestamp(), b.LengthBytes(), b.Magic(), b.Codec(), b.CRC(), b.Verify() == nil)
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				t.Fatalf("records at %d: %v", pos, err)
			}
			dumpRecord(&w, b, r)
		}
		pos += len(b)
	}
	return w.String()
}

func dumpRecord(w *strings.Builder, b Batch, r Record) {
	seq := NoSequence
	if b.BaseSequence() >= 0 {
		seq = IncrementSequence(b.BaseSequence(), int32(r.Offset-b.BaseOffset()))
	}
	size := func(f []byte) int {
		if f == nil {
			return -1
		}
		return len(f)
	}
	var keys []string
	for _, h := range r.Headers {
		keys = append(keys, h.Key)
	}
	fmt.Fprintf(w, "| offset: %d %v: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%s]", r.Offset, b.TimestampType(), r.Timestamp,
		size(r.Key), size(r.Value), seq, strings.Join(keys, ","))
	if b.IsControl() {
		marker := "ABORT"
		if binary.BigEndian.Uint16(r.Key[2:]) == 1 {
			marker = "COMMIT"
		}
		fmt.Fprintf(w, " endTxnMarker: %s coordinatorEpoch: %d\n", marker, binary.BigEndian.Uint32(r.Value[2:]))
		return
	}
	if r.Key != nil {
		fmt.Fprintf(w, " key: %s", r.Key)
	}
	if r.Value != nil {
		fmt.Fprintf(w, " payload: %s", r.Value)
	}
	w.WriteString("\n")
}

// TestKafkaWrote: segments of Apache Kafka 4.3.1 in every codec read exactly as
// Kafka's own tool reads them.
func TestKafkaWrote(t *testing.T) {
	for _, path := range goldenLogs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			log := readFile(t, path)
			want := string(readFile(t, strings.TrimSuffix(path, ".log")+".dump"))
			if diff := cmp.Diff(want, dumpLog(t, log)); diff != "" {
				t.Errorf("kafka-dump-log (-) and we (+) differ:\n%s", diff)
			}
		})
	}
}

// TestKafkaAccepts: what Kafka accepted, Validate accepts, in place and with
// nothing but offset and epoch changed; recompressed to every codec it still
// holds the same records.
func TestKafkaAccepts(t *testing.T) {
	for _, path := range goldenLogs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			for b, err := range Batches(readFile(t, path)) {
				if err != nil {
					t.Fatal(err)
				}
				for target := CodecProducer; target <= Zstd; target++ {
					checkAccepted(t, b, target)
				}
			}
		})
	}
}

func checkAccepted(t *testing.T, b Batch, target Codec) {
	t.Helper()
	raw := append(Batch(nil), b...)
	o := ValidateOptions{
		TargetCodec: target, TimestampType: b.TimestampType(), NowMs: b.MaxTimestamp(), TimestampBeforeMaxMs: 1 << 62, TimestampAfterMaxMs: 1000,
		Origin: OriginCoordinator, BaseOffset: b.BaseOffset(), LeaderEpoch: 7, MaxMessageBytes: 1 << 20,
	}
	if b.TimestampType() == LogAppendTime {
		return // no producer sends it; the leader's stamp is tested elsewhere
	}
	v, err := Validate(raw, o)
	if err != nil {
		t.Fatalf("as %v: %v", target, err)
	}
	if err := v.Batch.Verify(); err != nil {
		t.Fatalf("as %v: %v", target, err)
	}
	inPlace := target == CodecProducer || target == b.Codec() || b.IsControl()
	if inPlace == v.Rebuilt || v.Batch.PartitionLeaderEpoch() != 7 {
		t.Errorf("as %v: rebuilt %v, leader epoch %d", target, v.Rebuilt, v.Batch.PartitionLeaderEpoch())
	}
	if inPlace && v.Batch.CRC() != b.CRC() {
		t.Errorf("as %v: CRC changed although nothing it covers had to", target)
	}
	if diff := cmp.Diff(allRecords(t, b), allRecords(t, v.Batch)); diff != "" {
		t.Errorf("as %v: records changed:\n%s", target, diff)
	}
}

func allRecords(t *testing.T, b Batch) []Record {
	t.Helper()
	var out []Record
	for r, err := range b.Records(64 << 20) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func goldenLogs(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/kafka-4.3.1/*.log")
	if err != nil || len(paths) < 12 {
		t.Fatalf("golden segments: %v, %v", paths, err)
	}
	return paths
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
