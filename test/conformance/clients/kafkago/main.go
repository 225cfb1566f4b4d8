// Command kafkago produces and consumes with github.com/segmentio/kafka-go, for
// the conformance suite: kafkago produce|consume BOOTSTRAP TOPIC CODEC COUNT.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, "kafka-go:", err)
		os.Exit(1)
	}
}

var codecs = map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

func run(verb, bootstrap, topic, codec, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if verb == "produce" {
		w := &kafka.Writer{
			Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll,
			Compression: codecs[codec], BatchSize: 100, BatchTimeout: 10 * time.Millisecond,
		}
		defer w.Close()
		var msgs []kafka.Message
		for i := 1; i <= n; i++ {
			msgs = append(msgs, kafka.Message{Value: []byte(strconv.Itoa(i))})
		}
		return w.WriteMessages(ctx, msgs...)
	}
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: 0, MaxWait: 100 * time.Millisecond})
	defer r.Close()
	sum := 0
	for range n {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return err
		}
		v, err := strconv.Atoi(string(m.Value))
		if err != nil {
			return err
		}
		sum += v
	}
	fmt.Println(sum)
	return nil
}
