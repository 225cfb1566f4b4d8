package producerstate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
)

const golden = "testdata/kafka-4.3.1"

func goldenFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(golden, name))
	must(t, err)
	return b
}

// What Apache Kafka 4.3.1 wrote at a clean shutdown decodes, encodes to the
// same bytes, and equals our replay of the log beside it: idempotent batches,
// committed, aborted and open transactions.
func TestGoldenSnapshots(t *testing.T) {
	for log, snapshot := range map[string]string{
		"orders-0.log": "00000000000000000022.snapshot",
		"orders-1.log": "00000000000000000005.snapshot",
		"idle-0.log":   "00000000000000000004.snapshot",
	} {
		t.Run(snapshot, func(t *testing.T) {
			raw := goldenFile(t, snapshot)
			want, err := producerstate.DecodeSnapshot(raw)
			must(t, err)
			if got := producerstate.EncodeSnapshot(want); !bytes.Equal(raw, got) {
				t.Errorf("not byte for byte Kafka's:\n%x\n%x", raw, got)
			}
			s := producerstate.NewState()
			replay(t, s, goldenFile(t, log), func(producerstate.AbortedTxn) {})
			// Kafka writes entries in the order of a hash map.
			if d := cmp.Diff(byID(newest(entries(list(want)))), byID(newest(entries(s))), cmpopts.IgnoreUnexported(producerstate.Entry{})); d != "" {
				t.Errorf("replay of %s (-Kafka +ours):\n%s", log, d)
			}
			offset, ok := producerstate.ParseSnapshotName(snapshot)
			if !ok || offset != s.EndOffset() || producerstate.SnapshotName(offset) != snapshot {
				t.Errorf("name %s, end %d", snapshot, s.EndOffset())
			}
		})
	}
}

// newest keeps what Kafka's snapshots hold: one batch a producer.
func newest(l []seen) []seen {
	for i := range l {
		l[i].Batches = l[i].Batches[max(0, len(l[i].Batches)-1):]
	}
	return l
}

func byID(l []seen) map[int64]seen {
	out := map[int64]seen{}
	for _, s := range l {
		out[s.Entry.ProducerID] = s
	}
	return out
}

func replay(t *testing.T, s *producerstate.State, log []byte, aborted func(producerstate.AbortedTxn)) {
	t.Helper()
	for b, err := range record.Batches(log) {
		must(t, err)
		v, err := producerstate.BatchOf(b)
		must(t, err)
		_, done, err := s.Apply(v, record.OriginReplication)
		must(t, err)
		for _, c := range done {
			if a, ok := s.Aborted(c); ok {
				aborted(a)
			}
			must(t, s.CompleteTxn(c))
		}
		s.SetEndOffset(v.LastOffset + 1)
	}
}

// The transaction index that Kafka wrote holds what Aborted says.
func TestGoldenAbortedTransactions(t *testing.T) {
	var got []byte
	replay(t, producerstate.NewState(), goldenFile(t, "orders-0.log"), func(a producerstate.AbortedTxn) {
		got = binary.BigEndian.AppendUint16(got, 0)
		for _, v := range []int64{a.ProducerID, a.FirstOffset, a.LastOffset, a.LastStableOffset} {
			got = binary.BigEndian.AppendUint64(got, uint64(v))
		}
	})
	if want := goldenFile(t, "orders-0.txnindex"); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

// The five batches that a retry may repeat outlive a restart: each is an entry of
// its own, oldest first. Kafka keeps the last entry of a producer, so it reads what
// it would have written.
func TestSnapshotKeepsTheWindow(t *testing.T) {
	s := producerstate.NewState()
	for pid := range int64(3) {
		for i := range int32(7) {
			b := producerstate.Batch{ProducerID: pid, ProducerEpoch: 2, BaseSequence: 10 * i, LastSequence: 10*i + 9,
				BaseOffset: int64(100*i) + 10*pid, LastOffset: int64(100*i) + 10*pid + 9, MaxTimestampMs: int64(i)}
			if _, _, err := s.Apply(b, record.OriginClient); err != nil {
				t.Fatal(err)
			}
		}
	}
	raw := producerstate.EncodeSnapshot(s.Entries())
	got, err := producerstate.DecodeSnapshot(raw)
	must(t, err)
	if d := diff(entries(s), entries(list(got))); d != "" {
		t.Errorf("(-state +snapshot):\n%s", d)
	}
	if n := binary.BigEndian.Uint32(raw[6:]); n != 15 {
		t.Errorf("%d entries in the file, want 5 of each producer", n)
	}
	// As Kafka reads it: a map that each entry is put into.
	for pid := range int64(3) {
		last := raw[10+46*(5*pid+4):]
		if id, seq := binary.BigEndian.Uint64(last), binary.BigEndian.Uint32(last[10:]); id != uint64(pid) || seq != 69 {
			t.Errorf("the last entry of producer %d is of producer %d with sequence %d", pid, id, seq)
		}
	}
}

func TestDecodeSnapshotRefuses(t *testing.T) {
	raw := goldenFile(t, "00000000000000000022.snapshot")
	for name, c := range map[string]struct {
		edit func([]byte) []byte
		want string
	}{
		"empty":         {func([]byte) []byte { return nil }, "shorter than a header"},
		"version":       {func(b []byte) []byte { b[1] = 2; return b }, "version 2, expected 1"},
		"version 0":     {func(b []byte) []byte { b[1] = 0; return b }, "version 0"},
		"cut":           {func(b []byte) []byte { return b[:len(b)-1] }, "CRC"},
		"longer":        {func(b []byte) []byte { return append(b, 0) }, "CRC"},
		"zeros":         {func(b []byte) []byte { return make([]byte, len(b)) }, "version 0"},
		"flip":          {func(b []byte) []byte { b[50] ^= 1; return b }, "CRC"},
		"count too big": {func(b []byte) []byte { b[9] = 200; return producerstate.Reseal(b) }, "200 entries announced in 92 bytes"},
		"count < 0":     {func(b []byte) []byte { b[6] = 0xff; return producerstate.Reseal(b) }, "entries announced"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := producerstate.DecodeSnapshot(c.edit(bytes.Clone(raw)))
			if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestParseSnapshotName(t *testing.T) {
	for name, want := range map[string]bool{
		"00000000000000000007.snapshot": true, "7.snapshot": false, "00000000000000000007.log": false,
		"0000000000000000000x.snapshot": false, "-0000000000000000007.snapshot": false, "00000000000000000007.snapshot.tmp": false,
		"99999999999999999999.snapshot": false,
	} {
		if _, ok := producerstate.ParseSnapshotName(name); ok != want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func TestBatchOfRefusesOtherControlRecords(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{HasProducer: true, ProducerID: 3, ProducerEpoch: 1, BaseSequence: -1, Transactional: true, Control: true})
	b.Append(1, []byte{0, 0, 0, 9}, []byte{0, 0, 0, 0, 0, 1})
	raw, err := b.Build()
	must(t, err)
	if _, err := producerstate.BatchOf(raw); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("control type 9: %v", err)
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	for _, n := range []string{"00000000000000000022.snapshot", "00000000000000000005.snapshot"} {
		b, err := os.ReadFile(filepath.Join(golden, n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed && len(data) >= 10 { // get past the CRC
			data = producerstate.Reseal(bytes.Clone(data))
		}
		got, err := producerstate.DecodeSnapshot(data)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := producerstate.DecodeSnapshot(producerstate.EncodeSnapshot(got))
		must(t, err)
		if d := diff(entries(list(got)), entries(list(again))); d != "" {
			t.Fatal(d)
		}
	})
}
