package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
)

const rabbitBytes = 100

// rabbitMessages is how many messages each system gets.
func (r *Run) rabbitMessages() int {
	if r.o.Quick {
		return 50_000
	}
	return 200_000
}

// rabbit is P12: messages of 100 B handed to a client library one by one, each
// confirmed by the broker, then consumed. RabbitMQ with a quorum queue and a
// stream over AMQP 0-9-1, the Kafka brokers with franz-go, one partition or queue
// each.
func (r *Run) rabbit() error {
	r.up()
	client := filepath.Join(r.o.Dir, "rabbitclient")
	build := exec.Command("go", "build", "-o", client, ".")
	build.Dir = filepath.Join(r.o.Root, "bench", "rabbitclient")
	node, err := peer.NewRabbitMQ(r.o.Root, r.o.Dir)
	if err == nil {
		if out, buildErr := build.CombinedOutput(); buildErr != nil {
			err = fmt.Errorf("client: %w: %s", buildErr, tail(out))
		}
	}
	if err != nil {
		r.Out.Absent["RabbitMQ"] = err.Error()
	} else if err := node.Start(); err != nil {
		r.fail("start of RabbitMQ", err)
		node = nil
	} else {
		r.rabbitNode.Store(node)
		defer func() {
			r.rabbitNode.Store(nil)
			node.Stop()
		}()
	}
	for range r.rounds("P12", max(r.o.Pairs/2, 1)) {
		if node != nil && err == nil {
			r.rabbitOnce(client, "quorum", node.AMQP(), peer.RabbitQ)
			r.rabbitOnce(client, "stream", node.AMQP(), peer.RabbitS)
		}
		for _, p := range r.running {
			if isCeiling(p) {
				continue
			}
			if r.over("P12 on " + p.Name()) {
				return nil
			}
			if err := r.sameWork(p); err != nil {
				r.fail("P12 on "+p.Name(), err)
			}
		}
	}
	return nil
}

func (r *Run) addWork(system string, publish, consume float64) {
	for what, took := range map[string]float64{"publish, confirmed": publish, "consume": consume} {
		r.add(report.Series{Row: "P12", Case: what + ", 100 B one by one", Metric: "throughput", Unit: "thousand msg/s", System: system},
			float64(r.rabbitMessages())/took/1e3)
	}
}

func (r *Run) rabbitOnce(client, mode, url, system string) {
	cmd := exec.Command(client, mode, url, r.topic(), strconv.Itoa(r.rabbitMessages()), strconv.Itoa(rabbitBytes))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var took struct{ Publish, Consume float64 }
	if err == nil {
		err = json.Unmarshal(out, &took)
	}
	if err != nil {
		r.fail("P12 on "+system, fmt.Errorf("%w: %s", err, tail(said.Bytes())))
		return
	}
	r.addWork(system, took.Publish, took.Consume)
}

// sameWork is what the RabbitMQ client does, with franz-go.
func (r *Run) sameWork(p peer.Peer) error {
	topic := r.topic()
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: topic, Partitions: 1}); err != nil {
		return err
	}
	defer func() { _ = load.DeleteTopic(p.Addr(), topic) }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr()), kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	value := make([]byte, rabbitBytes)
	at := time.Now()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range r.rabbitMessages() {
		wg.Add(1)
		cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	publish := time.Since(at)
	if err := failed.Load(); err != nil {
		return *err
	}
	at = time.Now()
	for got := 0; got < r.rabbitMessages(); {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		got += fetches.NumRecords()
	}
	r.addWork(p.Name(), publish.Seconds(), time.Since(at).Seconds())
	return nil
}
