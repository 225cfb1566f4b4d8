package record

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
)

// scriptNowMs is the leader's clock in the scripts; timestamps are relative to it.
const scriptNowMs = 1_700_000_000_000

// scriptCase is one batch with its lies, and the log it is offered to.
type scriptCase struct {
	raw  []byte
	opts ValidateOptions
}

// TestValidate runs testdata/validate: batches that lie, one at a time, and the
// code that the producer gets (reliability B4, Kafka's LogValidator). An
// argument kafka=CODE marks where Apache Kafka 4.3.1 answers otherwise; the
// oracle test asks it.
func TestValidate(t *testing.T) {
	datadriven.RunTest(t, "testdata/validate", func(t *testing.T, d *datadriven.TestData) string {
		c := buildCase(t, d, scriptNowMs)
		before := append([]byte(nil), c.raw...)
		v, err := Validate(c.raw, c.opts)
		if err != nil {
			if string(before) != string(c.raw) {
				t.Errorf("%s: a refused batch was changed", d.Pos)
			}
			return describeRefusal(t, err)
		}
		if err := v.Batch.Verify(); err != nil {
			t.Errorf("%s: accepted, but %v", d.Pos, err)
		}
		return describeAccepted(t, v)
	})
}

func describeRefusal(t *testing.T, err error) string {
	var e *InvalidError
	if !errors.As(err, &e) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	var w strings.Builder
	fmt.Fprintf(&w, "%s\n", e.Code.Name())
	for _, r := range e.RecordErrors {
		fmt.Fprintf(&w, "  record %d: %s\n", r.BatchIndex, r.Message)
	}
	return w.String()
}

func describeAccepted(t *testing.T, v Validated) string {
	var stamps []string
	for _, r := range allRecords(t, v.Batch) {
		stamps = append(stamps, relative(r.Timestamp))
	}
	return fmt.Sprintf("ok [%d, %d] epoch %d %v rebuilt=%v max=%s at %d append=%s timestamps %s\n", v.Batch.BaseOffset(), v.Batch.LastOffset(),
		v.Batch.PartitionLeaderEpoch(), v.Batch.Codec(), v.Rebuilt, relative(v.MaxTimestampMs), v.OffsetOfMaxTimestamp,
		relative(v.LogAppendTimeMs), strings.Join(stamps, " "))
}

func relative(ts int64) string {
	if ts == NoTimestamp {
		return "none"
	}
	return fmt.Sprintf("%+d", ts-scriptNowMs)
}

// buildCase reads the arguments of one script command.
func buildCase(t *testing.T, d *datadriven.TestData, nowMs int64) scriptCase {
	c := scriptCase{opts: ValidateOptions{
		TargetCodec: CodecProducer, TimestampBeforeMaxMs: 1<<63 - 1, TimestampAfterMaxMs: 3600000, NowMs: nowMs,
		MaxMessageBytes: 1048588, SegmentBytes: 1 << 30, ProduceVersion: 11, BaseOffset: 100, LeaderEpoch: 9,
	}}
	b := buildScriptBatch(t, d, nowMs)
	crc := true
	for _, arg := range d.CmdArgs {
		for _, val := range arg.Vals {
			crc = applyLie(t, d, &b, arg.Key, val) && crc
			applyOption(t, d, &c.opts, arg.Key, val)
		}
	}
	if crc && len(b) >= HeaderSize {
		b.setCRC()
	}
	c.raw = b
	for _, arg := range d.CmdArgs {
		for _, val := range arg.Vals {
			c.raw = applyTail(t, d, c.raw, arg.Key, val)
		}
	}
	return c
}

// buildScriptBatch builds an honest batch: three records unless ts= lists more.
func buildScriptBatch(t *testing.T, d *datadriven.TestData, nowMs int64) Batch {
	o := BuilderOptions{LeaderEpoch: NoLeaderEpoch}
	stamps := []int64{-30, -10, -20}
	nullKey := -1
	valueBytes := 10
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "codec":
			o.Codec = parseCodec(t, arg.Vals[0])
		case "pid":
			o.HasProducer, o.ProducerID = true, number(t, d, arg.Vals[0])
		case "ts":
			stamps = nil
			for _, v := range arg.Vals {
				stamps = append(stamps, number(t, d, v))
			}
		case "nullkey":
			nullKey = int(number(t, d, arg.Vals[0]))
		case "value":
			valueBytes = int(number(t, d, arg.Vals[0]))
		}
	}
	b := NewBuilder(o)
	for i, ts := range stamps {
		key := []byte(fmt.Sprintf("k%d", i))
		if i == nullKey {
			key = nil
		}
		if ts == 999 { // "no timestamp"
			ts = NoTimestamp - nowMs
		}
		b.Append(nowMs+ts, key, []byte(strings.Repeat("v", valueBytes)))
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return batch
}

// applyLie patches one header field; false keeps the CRC from being repaired.
func applyLie(t *testing.T, d *datadriven.TestData, b *Batch, key, val string) bool {
	h := *b
	be := binary.BigEndian
	switch key {
	case "base":
		h.SetBaseOffset(number(t, d, val))
	case "epoch":
		h.SetPartitionLeaderEpoch(int32(number(t, d, val)))
	case "magic":
		h[magicPos] = byte(number(t, d, val))
	case "attrs": // set these bits
		be.PutUint16(h[attributesPos:], uint16(h.Attributes())|uint16(number(t, d, val)))
	case "lastdelta":
		be.PutUint32(h[lastOffsetDeltaPos:], uint32(number(t, d, val)))
	case "count":
		be.PutUint32(h[countPos:], uint32(number(t, d, val)))
	case "seq":
		be.PutUint32(h[baseSequencePos:], uint32(number(t, d, val)))
	case "maxts":
		be.PutUint64(h[maxTimestampPos:], uint64(h.MaxTimestamp()+number(t, d, val)))
	case "length":
		be.PutUint32(h[lengthPos:], uint32(number(t, d, val)))
		return false
	case "crc":
		h[crcPos]++
		return false
	case "records": // replace the record section by these bytes
		raw, err := hex.DecodeString(val)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		*b = append(h[:HeaderSize:HeaderSize], raw...)
		be.PutUint32((*b)[lengthPos:], uint32(len(*b)-LogOverhead))
	case "flip": // invert one byte of the record section, from its start or end
		i := int(number(t, d, val))
		if i < 0 {
			i += len(h) - HeaderSize
		}
		h[HeaderSize+i] ^= 0xff
	}
	return true
}

func applyTail(t *testing.T, d *datadriven.TestData, raw []byte, key, val string) []byte {
	switch key {
	case "cut":
		return raw[:len(raw)-int(number(t, d, val))]
	case "keep":
		return raw[:number(t, d, val)]
	case "append":
		if val == "batch" {
			return append(raw, raw...)
		}
		tail, err := hex.DecodeString(val)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return append(raw, tail...)
	}
	return raw
}

func applyOption(t *testing.T, d *datadriven.TestData, o *ValidateOptions, key, val string) {
	switch key {
	case "version":
		o.ProduceVersion = int16(number(t, d, val))
	case "compacted":
		o.Compacted = val == "true"
	case "append-time":
		o.TimestampType = LogAppendTime
	case "before":
		o.TimestampBeforeMaxMs = number(t, d, val)
	case "after":
		o.TimestampAfterMaxMs = number(t, d, val)
	case "target":
		o.TargetCodec = parseCodec(t, val)
	case "max":
		o.MaxMessageBytes = int(number(t, d, val))
	case "segment":
		o.SegmentBytes = int(number(t, d, val))
	case "limit":
		o.DecompressLimitBytes = int(number(t, d, val))
	case "origin":
		o.Origin = map[string]Origin{"coordinator": OriginCoordinator, "raft": OriginRaftLeader}[val]
	}
}

func number(t *testing.T, d *datadriven.TestData, s string) int64 {
	var n int64
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatalf("%s: %q: %v", d.Pos, s, err)
	}
	return n
}

func parseCodec(t *testing.T, s string) Codec {
	c, ok := ParseCodec(s)
	if !ok {
		t.Fatalf("codec %q", s)
	}
	return c
}

// TestRecompressAfterRefusal: a compressor that was left in the middle of a bad
// batch starts afresh for the next good one.
func TestRecompressAfterRefusal(t *testing.T) {
	for target := Gzip; target <= Zstd; target++ {
		for range 3 {
			good := benchBatch(t, None, 40)
			bad := append(Batch(nil), good...)
			bad[len(bad)-1] = 2 // a header count that is not true
			bad.setCRC()
			o := benchOptions()
			o.TargetCodec = target
			if _, err := Validate(bad, o); err == nil {
				t.Fatal("the bad batch was accepted")
			}
			want := allRecords(t, good)
			v, err := Validate(good, o)
			if err != nil || v.Batch.Verify() != nil || v.Batch.Codec() != target {
				t.Fatalf("%v: %v", target, err)
			}
			if diff := cmp.Diff(want, allRecords(t, v.Batch)); diff != "" {
				t.Fatalf("%v:\n%s", target, diff)
			}
		}
	}
}
