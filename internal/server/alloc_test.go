package server

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/record"
)

// TestProduceAllocations counts the heap allocations of a produce request, from
// the socket to the answer, in a whole server: none for a record, ten at most for a
// request (design section 5). The client here allocates nothing.
func TestProduceAllocations(t *testing.T) {
	for _, durability := range []string{"replicated", "strict"} {
		t.Run(durability, func(t *testing.T) {
			n := startNode(t, t.TempDir(), "durability="+durability)
			defer n.end(t)
			addr := n.out.find(t, `clients +(\S+)`)
			oneTopic(t, addr)
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			few, many := produceAllocs(t, c, 10), produceAllocs(t, c, 600)
			t.Logf("%.1f allocations a request with 10 records, %.1f with 600", few, many)
			if raceEnabled {
				return // the detector allocates too
			}
			if few > 10 || many > 10 {
				t.Errorf("%.1f and %.1f allocations a request, 10 are allowed", few, many)
			}
			if many-few > 1 {
				t.Errorf("590 more records cost %.1f more allocations", many-few)
			}
		})
	}
}

func oneTopic(t *testing.T, addr string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
}

// produceAllocs sends a batch of so many records again and again. What the server
// does on the side (timers, checkpoints) counts too, so the least of a few tries
// does.
func produceAllocs(t *testing.T, c net.Conn, records int) float64 {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	for range records {
		b.Append(time.Now().UnixMilli(), nil, make([]byte, 100))
	}
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(9)
	req.Acks, req.TimeoutMillis = -1, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("allocations")).AppendRequest(nil, req, 1)
	answer := make([]byte, 4096)
	once := func() {
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer[:4]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer[:binary.BigEndian.Uint32(answer)]); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		once()
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(9)
	if err := resp.ReadFrom(answer[5:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	least := testing.AllocsPerRun(500, once)
	for range 4 {
		least = min(least, testing.AllocsPerRun(500, once))
	}
	return least
}
