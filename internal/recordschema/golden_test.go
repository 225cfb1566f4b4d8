package recordschema

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// rawBatch is one v2 batch of a golden file, read by hand so that this package
// depends on no other.
type rawBatch struct {
	control bool
	records []rawRecord
}

type rawRecord struct{ key, value []byte }

// readBatches reads an uncompressed log segment or snapshot.
func readBatches(t testing.TB, b []byte) []rawBatch {
	t.Helper()
	var out []rawBatch
	for len(b) > 0 {
		size := int(binary.BigEndian.Uint32(b[8:])) + 12
		body := b[:size]
		b = b[size:]
		batch := rawBatch{control: binary.BigEndian.Uint16(body[21:])&0x20 != 0}
		rest := body[61:]
		for range int(binary.BigEndian.Uint32(body[57:])) {
			n, w := binary.Varint(rest)
			batch.records = append(batch.records, readRecord(t, rest[w:w+int(n)]))
			rest = rest[w+int(n):]
		}
		out = append(out, batch)
	}
	return out
}

func readRecord(t testing.TB, b []byte) rawRecord {
	t.Helper()
	b = b[1:]     // attributes
	for range 2 { // timestamp and offset deltas
		_, w := binary.Varint(b)
		b = b[w:]
	}
	take := func() []byte {
		n, w := binary.Varint(b)
		b = b[w:]
		if n < 0 {
			return nil
		}
		v := b[:n]
		b = b[n:]
		return v
	}
	return rawRecord{key: take(), value: take()}
}

// TestGoldenKafka431 reads every record of a metadata log and of snapshots that
// Apache Kafka 4.3.1 wrote, and writes each one back byte for byte.
func TestGoldenKafka431(t *testing.T) {
	dir := filepath.Join("testdata", "kafka-4.3.1")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int16]int{}
	control := map[ControlType]int{}
	for _, f := range files {
		if f.Name() == "quorum-state" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for bi, b := range readBatches(t, data) {
			for ri, r := range b.records {
				if b.control {
					control[checkControl(t, f.Name(), bi, ri, r)]++
					continue
				}
				seen[checkMetadata(t, f.Name(), bi, ri, r)]++
			}
		}
	}
	for _, key := range []int16{
		KeyRegisterBroker, KeyTopic, KeyPartition, KeyConfig, KeyRemoveTopic, KeyUserScramCredential,
		KeyFeatureLevel, KeyClientQuota, KeyProducerIds, KeyBrokerRegistrationChange, KeyAccessControlEntry,
		KeyRemoveAccessControlEntry, KeyNoOp, KeyBeginTransaction, KeyEndTransaction, KeyRegisterController, KeyClearElr,
	} {
		if seen[key] == 0 {
			t.Errorf("no %s in the golden files", infos[key].name)
		}
	}
	for ct := ControlLeaderChange; ct <= ControlKRaftVoters; ct++ {
		if control[ct] == 0 {
			t.Errorf("no control record of type %d in the golden files", ct)
		}
	}
}

func checkMetadata(t *testing.T, file string, batch, rec int, r rawRecord) int16 {
	t.Helper()
	m, err := ParseFrame(r.value)
	if err != nil {
		t.Fatalf("%s batch %d record %d: %v", file, batch, rec, err)
	}
	if got := AppendFrame(nil, m); !bytes.Equal(got, r.value) {
		t.Errorf("%s batch %d record %d (%s):\n got %x\nwant %x", file, batch, rec, Name(m), got, r.value)
	}
	return m.Key()
}

func checkControl(t *testing.T, file string, batch, rec int, r rawRecord) ControlType {
	t.Helper()
	c, err := ParseControlRecord(r.key, r.value)
	if err != nil {
		t.Fatalf("%s batch %d record %d: %v", file, batch, rec, err)
	}
	if got := AppendControlKey(nil, c.Type()); !bytes.Equal(got, r.key) {
		t.Errorf("%s batch %d record %d: key %x, want %x", file, batch, rec, got, r.key)
	}
	if got := AppendControlValue(nil, c); !bytes.Equal(got, r.value) {
		t.Errorf("%s batch %d record %d (control %d):\n got %x\nwant %x", file, batch, rec, c.Type(), got, r.value)
	}
	return c.Type()
}

// TestGoldenQuorumState writes back what Kafka 4.3.1 wrote, byte for byte.
func TestGoldenQuorumState(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "kafka-4.3.1", "quorum-state"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseQuorumState(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := AppendQuorumState(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
