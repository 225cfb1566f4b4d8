// Command sarama produces and consumes with github.com/IBM/sarama, for the
// conformance suite: sarama produce|consume BOOTSTRAP TOPIC CODEC COUNT.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, "sarama:", err)
		os.Exit(1)
	}
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func run(verb, bootstrap, topic, codec, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	cfg := sarama.NewConfig()
	cfg.Version = sarama.MaxVersion
	cfg.Producer.Return.Successes = true
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Compression = codecs[codec]
	cfg.Producer.Idempotent = true
	cfg.Net.MaxOpenRequests = 1
	if verb == "produce" {
		p, err := sarama.NewSyncProducer([]string{bootstrap}, cfg)
		if err != nil {
			return err
		}
		defer p.Close()
		var msgs []*sarama.ProducerMessage
		for i := 1; i <= n; i++ {
			msgs = append(msgs, &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(strconv.Itoa(i))})
		}
		return p.SendMessages(msgs)
	}
	c, err := sarama.NewConsumer([]string{bootstrap}, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	pc, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer pc.Close()
	sum := 0
	for range n {
		select {
		case m := <-pc.Messages():
			v, err := strconv.Atoi(string(m.Value))
			if err != nil {
				return err
			}
			sum += v
		case err := <-pc.Errors():
			return err
		case <-time.After(20 * time.Second):
			return fmt.Errorf("no message for 20 s")
		}
	}
	fmt.Println(sum)
	return nil
}
