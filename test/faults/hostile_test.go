package faults

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestHostileFrames sends 100,000 mutated requests of every API and version: no
// panic, memory rise under 64 MiB, a healthy client unaffected (rows B1 to B5).
func TestHostileFrames(t *testing.T) {
	total := 100_000
	if testing.Short() {
		total = 5_000
	}
	s := testkit.StartServer(t, "")
	const topic = "healthy"
	newTopic(t, s.Bootstrap(), topic, 1)
	seeds := seedFrames(topic)
	stop, done := make(chan struct{}), make(chan error, 1)
	go healthyClient(testkit.Dial(t, s.Bootstrap()), topic, stop, done)
	hostile(s.Bootstrap(), seeds, total/20, 1) // warm pools before memory is measured
	before := rss(t, s.Pid())
	hostile(s.Bootstrap(), seeds, total, 2)
	after := rss(t, s.Pid())
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("the healthy client was disturbed: %v", err)
	}
	if rise := after - before; rise > 64<<20 {
		t.Errorf("memory rose by %d MiB (%d to %d)", rise>>20, before>>20, after>>20)
	}
	if log := s.Log(); strings.Contains(log, "panic") {
		t.Errorf("a handler panicked:\n%.2000s", log[strings.Index(log, "panic"):])
	}
	t.Logf("%d frames, memory %d MiB before, %d MiB after", total, before>>20, after>>20)
	s.Stop()
}

// seedFrames builds one plain request of every served API and version.
func seedFrames(topic string) [][]byte {
	var out [][]byte
	bld := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	bld.Append(1, []byte("k"), []byte("v"))
	batch, _ := bld.Build()
	conn := &testkit.RawConn{ClientID: "hostile"}
	for _, a := range apis.Advertised(apis.Broker) {
		for v := a.Min; v <= a.Max; v++ {
			req := kmsg.RequestForKey(a.Key)
			req.SetVersion(v)
			fillRequest(req, topic, batch)
			out = append(out, conn.Frame(req, int32(v)))
		}
	}
	return out
}

// fillRequest gives the array-heavy requests something to mutate.
func fillRequest(req kmsg.Request, topic string, batch []byte) {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks, r.TimeoutMillis = -1, 100
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = batch
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic, rt.Partitions = "hostile-target", append(rt.Partitions, p)
		r.Topics = append(r.Topics, rt)
	case *kmsg.FetchRequest:
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes = 10, 1, 1<<20
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1 << 20
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
		r.Topics = append(r.Topics, rt)
	case *kmsg.MetadataRequest:
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &topic
		r.Topics = append(r.Topics, rt)
		r.AllowAutoTopicCreation = false
	case *kmsg.OffsetCommitRequest:
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
		r.Group, r.Topics = "hostile", append(r.Topics, rt)
	case *kmsg.CreateTopicsRequest:
		r.ValidateOnly = true
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "hostile", 1, 1
		r.Topics = append(r.Topics, rt)
	}
}

// hostile sends n mutated frames over connections that it gives up on as soon
// as they are closed or silent.
func hostile(addr string, seeds [][]byte, n int, seed uint64) {
	const workers = 8
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := 0; i < n/workers; {
				i += hostileConn(addr, seeds, rng, min(50, n/workers-i))
			}
		})
	}
	wg.Wait()
}

// hostileConn sends up to n frames on one connection and returns how many it
// wrote, at least one.
func hostileConn(addr string, seeds [][]byte, rng *rand.Rand, n int) int {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return 1
	}
	defer c.Close()
	buf := make([]byte, 64<<10)
	for i := range n {
		if _, err := c.Write(mutate(seeds[rng.IntN(len(seeds))], rng)); err != nil {
			return i + 1
		}
		if rng.IntN(4) == 0 {
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
			if _, err := c.Read(buf); err != nil && !os.IsTimeout(err) {
				return i + 1
			}
		}
	}
	return n
}

// mutate changes a frame in one to four places; the size mostly stays true, so
// that the decoder is reached.
func mutate(frame []byte, rng *rand.Rand) []byte {
	b := append([]byte{}, frame...)
	for range 1 + rng.IntN(4) {
		at := 4 + rng.IntN(len(b)-4)
		switch rng.IntN(6) {
		case 0:
			b[at] = byte(rng.Uint32())
		case 1:
			b[at] ^= 1 << rng.IntN(8)
		case 2: // a huge length
			binary.BigEndian.PutUint32(b[min(at, len(b)-4):], []uint32{0x7fffffff, 0xffffffff, 0x00ffffff, 0x80000000}[rng.IntN(4)])
		case 3: // cut
			b = b[:max(5, at)]
		case 4: // grow
			b = append(b, b[at:]...)
		case 5: // overlong varints
			for i := at; i < min(at+10, len(b)); i++ {
				b[i] = 0xff
			}
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if rng.IntN(20) == 0 {
		binary.BigEndian.PutUint32(b, rng.Uint32())
	}
	return b
}

func healthyClient(c *testkit.RawConn, topic string, stop chan struct{}, done chan error) {
	bld := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	bld.Append(time.Now().UnixMilli(), nil, []byte("v"))
	batch, err := bld.Build()
	for corr := int32(1); err == nil; corr++ {
		req := kmsg.NewPtrProduceRequest()
		req.Version = 9
		fillRequest(req, topic, append([]byte{}, batch...))
		req.Topics[0].Topic = topic
		if _, err = c.C.Write(c.Frame(req, corr)); err != nil {
			break
		}
		var frame []byte
		if frame, err = c.ReadFrame(); err != nil {
			break
		}
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		if err = resp.ReadFrom(frame[5:]); err == nil && resp.Topics[0].Partitions[0].ErrorCode != 0 {
			err = fmt.Errorf("produce answered error %d", resp.Topics[0].Partitions[0].ErrorCode)
		}
		select {
		case <-stop:
			done <- err
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	done <- err
}

func rss(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	t.Fatal("no VmRSS in /proc")
	return 0
}
