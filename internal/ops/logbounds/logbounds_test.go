package logbounds

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// scripted is a cluster whose topic "busy" grows by one record with every
// request. The topic "denied" may not be described; partition 1 of "busy" has no
// answer, and partition 2 an error.
type scripted struct {
	end      int64
	unstable int64 // the first offset of an open transaction, -1 without one
}

func (s *scripted) RequestCachedMetadata(_ context.Context, req *kmsg.MetadataRequest, _ time.Duration) (*kmsg.MetadataResponse, error) {
	resp := kmsg.NewPtrMetadataResponse()
	for _, want := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = want.Topic
		if *want.Topic == "denied" {
			t.ErrorCode = kerr.TopicAuthorizationFailed.Code
		} else {
			for p := range int32(3) {
				rp := kmsg.NewMetadataResponseTopicPartition()
				rp.Partition = p
				t.Partitions = append(t.Partitions, rp)
			}
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func (s *scripted) RequestSharded(_ context.Context, r kmsg.Request) []kgo.ResponseShard {
	s.end++
	req := r.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	lost := kmsg.NewPtrListOffsetsRequest()
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset = p.Partition, 0
			switch {
			case p.Partition == 1:
				lt.Partitions = append(lt.Partitions, p)
				continue
			case p.Partition == 2:
				rp.Offset, rp.ErrorCode = -1, kerr.TopicAuthorizationFailed.Code
			case p.Timestamp == latest && req.IsolationLevel == readCommitted && s.unstable >= 0:
				rp.Offset = s.unstable
			case p.Timestamp == latest:
				rp.Offset = s.end
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		lost.Topics = append(lost.Topics, lt)
	}
	return []kgo.ResponseShard{{Req: req, Resp: resp}, {Req: lost, Err: errGone}}
}

var errGone = errors.New("the broker is gone")

// TestNoOpenTransactionByReadingOrder: records arrive between the two readings of
// an end. Without a transaction the last stable offset is never below the high
// watermark; with one it is.
func TestNoOpenTransactionByReadingOrder(t *testing.T) {
	for _, c := range []struct {
		unstable       int64
		wantHW, wantSO int64
	}{
		{-1, 103, 103}, // the third request saw 103: the high watermark has been there too
		{90, 102, 90},
	} {
		b, err := Read(t.Context(), &scripted{end: 100, unstable: c.unstable}, "busy")
		if err != nil {
			t.Fatal(err)
		}
		hw, _ := b.HighWatermark.Lookup("busy", 0)
		so, _ := b.LastStable.Lookup("busy", 0)
		if hw.Offset != c.wantHW || so.Offset != c.wantSO {
			t.Errorf("open transaction at %d: HW %d, LSO %d, want %d and %d", c.unstable, hw.Offset, so.Offset, c.wantHW, c.wantSO)
		}
	}
}

// TestErrorsStayWhereTheyAre: a topic that may not be described, a broker that is
// gone and a partition with an error cost nobody else an answer.
func TestErrorsStayWhereTheyAre(t *testing.T) {
	for range 20 { // maps have no order: it must not matter which comes first
		b, err := Read(t.Context(), &scripted{end: 100, unstable: -1}, "denied", "busy")
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := b.LogStart.Lookup("busy", 0); !ok || o.Err != nil || o.Offset != 0 {
			t.Fatalf("partition 0 starts at %+v", o)
		}
		for partition, want := range map[int32]error{1: errGone, 2: kerr.TopicAuthorizationFailed} {
			if o, ok := b.HighWatermark.Lookup("busy", partition); !ok || !errors.Is(o.Err, want) || o.Offset != -1 {
				t.Fatalf("partition %d ends at %+v, want %v", partition, o, want)
			}
		}
		if o, ok := b.LastStable.Lookup("denied", -1); !ok || !errors.Is(o.Err, kerr.TopicAuthorizationFailed) {
			t.Fatalf("the denied topic: %+v", o)
		}
		if err := b.Err(); !errors.Is(err, errGone) || !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Fatalf("all errors: %v", err)
		}
	}
}

func TestUnknownTopic(t *testing.T) {
	b, err := Read(t.Context(), silent{}, "none")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := b.LogStart.Lookup("none", -1); !ok || !errors.Is(o.Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("%+v", o)
	}
}

// silent answers metadata without the topic that was asked for.
type silent struct{}

func (silent) RequestCachedMetadata(context.Context, *kmsg.MetadataRequest, time.Duration) (*kmsg.MetadataResponse, error) {
	return kmsg.NewPtrMetadataResponse(), nil
}

func (silent) RequestSharded(context.Context, kmsg.Request) []kgo.ResponseShard { return nil }
