package wire

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// kmsgProduce converts what kmsg decoded to our form.
func kmsgProduce(req *kmsg.ProduceRequest) ProduceRequest {
	out := ProduceRequest{TransactionID: req.TransactionID, Acks: req.Acks, TimeoutMs: req.TimeoutMillis}
	for _, t := range req.Topics {
		ours := ProduceTopic{Topic: t.Topic, TopicID: t.TopicID}
		if req.Version >= produceTopicIDs {
			ours.Topic = ""
		} else {
			ours.TopicID = [16]byte{}
		}
		for _, p := range t.Partitions {
			ours.Partitions = append(ours.Partitions, ProducePartition{p.Partition, p.Records})
		}
		out.Topics = append(out.Topics, ours)
	}
	return out
}

func drawProduce(t *rapid.T) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = rapid.Int16Range(3, 13).Draw(t, "version")
	if rapid.Bool().Draw(t, "txn") {
		id := rapid.StringN(0, 20, 60).Draw(t, "txnid")
		req.TransactionID = &id
	}
	req.Acks = rapid.Int16().Draw(t, "acks")
	req.TimeoutMillis = rapid.Int32().Draw(t, "timeout")
	for range rapid.IntRange(0, 4).Draw(t, "topics") {
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = rapid.StringN(0, 20, 60).Draw(t, "topic")
		copy(rt.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		for range rapid.IntRange(0, 4).Draw(t, "partitions") {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition = rapid.Int32().Draw(t, "partition")
			rp.Records = rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 50)).Draw(t, "records")
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// TestDecodeProduceEqualsKmsg: our decoder reads every version as kmsg does,
// into fresh and into used structs, and refuses cuts and trailing bytes.
func TestDecodeProduceEqualsKmsg(t *testing.T) {
	var used ProduceRequest
	rapid.Check(t, func(t *rapid.T) {
		req := drawProduce(t)
		body := req.AppendTo(nil)
		decoded := kmsg.NewPtrProduceRequest()
		decoded.Version = req.Version
		if err := decoded.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		want := kmsgProduce(decoded)
		for name, into := range map[string]*ProduceRequest{"fresh": {}, "used": &used} {
			if err := DecodeProduce(req.Version, body, into); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(normalize(want), normalize(*into)); diff != "" {
				t.Fatalf("%s v%d: kmsg (-) and we (+) differ:\n%s", name, req.Version, diff)
			}
		}
		cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut")
		var scratch ProduceRequest
		if err := DecodeProduce(req.Version, body[:cut], &scratch); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut at %d of %d: %v", cut, len(body), err)
		}
		if err := DecodeProduce(req.Version, append(bytes.Clone(body), 0), &scratch); !errors.Is(err, ErrMalformed) {
			t.Fatalf("a trailing byte: %v", err)
		}
	})
}

// normalize makes empty and nil slices of topics alike; null records stay null.
func normalize(r ProduceRequest) ProduceRequest {
	out := r
	out.Topics = nil
	for _, t := range r.Topics {
		t.Partitions = append([]ProducePartition(nil), t.Partitions...)
		out.Topics = append(out.Topics, t)
	}
	return out
}

func TestDecodeProduceVersions(t *testing.T) {
	for _, v := range []int16{-1, 0, 1, 2, 14, 99} {
		if err := DecodeProduce(v, nil, new(ProduceRequest)); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("v%d: %v", v, err)
		}
	}
}

func produceBody(version int16, topics, partitions, recordBytes int) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	id := "txn"
	req.TransactionID = &id
	for i := range topics {
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = fmt.Sprintf("topic-%d", i)
		for j := range partitions {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = int32(j), make([]byte, recordBytes)
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req.AppendTo(nil)
}

// TestDecodeProduceAllocates: a reused struct takes no allocation, and records
// alias the frame.
func TestDecodeProduceAllocates(t *testing.T) {
	for _, version := range []int16{3, 8, 9, 12, 13} {
		body := produceBody(version, 5, 7, 100)
		var into ProduceRequest
		n := testing.AllocsPerRun(20, func() {
			if err := DecodeProduce(version, body, &into); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("v%d: %v allocations, want none", version, n)
		}
		into.Topics[2].Partitions[3].Records[50] = 9
		if !bytes.Contains(body, []byte{9}) {
			t.Errorf("v%d: records were copied", version)
		}
	}
}

func BenchmarkDecodeProduce(b *testing.B) {
	body := produceBody(9, 1, 1, 16<<10)
	var into ProduceRequest
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeProduce(9, body, &into); err != nil {
			b.Fatal(err)
		}
	}
}
