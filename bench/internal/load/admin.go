package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is what CreateTopics makes.
type Topic struct {
	Name       string
	Partitions int
	Configs    map[string]string
}

const adminTimeoutMs = 120_000

// CreateTopics makes topics with one request and waits until each partition of
// each has a leader that serves.
func CreateTopics(addr string, topics ...Topic) error {
	c, err := Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(5)
	req.TimeoutMillis = adminTimeoutMs
	for _, t := range topics {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.Name, int32(t.Partitions), 1
		for k, v := range t.Configs {
			cfg := kmsg.NewCreateTopicsRequestTopicConfig()
			cfg.Name, cfg.Value = k, &v
			rt.Configs = append(rt.Configs, cfg)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	if err := c.Do(req, resp); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 {
			return fmt.Errorf("create topic %s: error %d", t.Topic, t.ErrorCode)
		}
	}
	for _, t := range topics {
		if err := awaitLeaders(c, t); err != nil {
			return err
		}
		if err := awaitServed(c, t); err != nil {
			return err
		}
	}
	return nil
}

// awaitServed waits until each leader serves: Apache Kafka answers Metadata
// with a leader that does not know of it yet.
func awaitServed(c *Conn, t Topic) error {
	deadline := time.Now().Add(adminTimeoutMs * time.Millisecond)
	for {
		_, err := ends(c, t.Name, t.Partitions)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func awaitLeaders(c *Conn, want Topic) error {
	deadline := time.Now().Add(adminTimeoutMs * time.Millisecond)
	for {
		req := kmsg.NewPtrMetadataRequest()
		req.SetVersion(5)
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &want.Name
		req.Topics = append(req.Topics, rt)
		resp := kmsg.NewPtrMetadataResponse()
		if err := c.Do(req, resp); err != nil {
			return err
		}
		led := 0
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 {
					led++
				}
			}
		}
		if led == want.Partitions {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d partitions of %s have a leader", led, want.Partitions, want.Name)
		}
		time.Sleep(time.Millisecond)
	}
}

// DeleteTopic removes a topic.
func DeleteTopic(addr, name string) error {
	c, err := Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.SetVersion(5)
	req.TimeoutMillis = adminTimeoutMs
	req.TopicNames = []string{name}
	resp := kmsg.NewPtrDeleteTopicsResponse()
	if err := c.Do(req, resp); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 {
			return fmt.Errorf("delete topic %s: error %d", name, t.ErrorCode)
		}
	}
	return nil
}

// ProduceOnce writes one batch to each of partitions 0 to n-1 with one request
// and returns when all are acknowledged.
func ProduceOnce(c *Conn, topic string, n int, batch []byte) error {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	if err := c.Write(Frame(produceRequest(topic, ids, batch))); err != nil {
		return err
	}
	b, err := c.Read()
	if err != nil {
		return err
	}
	return checkProduced(b)
}

// AwaitAck tries until one batch is acknowledged for partitions 0 to n-1, and
// returns the moment of that answer.
func AwaitAck(addr, topic string, n int, batch []byte, within time.Duration) (time.Time, error) {
	deadline := time.Now().Add(within)
	var last error
	for time.Now().Before(deadline) {
		c, err := Dial(addr)
		if err == nil {
			err = ProduceOnce(c, topic, n, batch)
			at := time.Now()
			c.Close()
			if err == nil {
				return at, nil
			}
		}
		last = err
		time.Sleep(time.Millisecond)
	}
	return time.Time{}, errors.Join(fmt.Errorf("no acknowledgement within %v", within), last)
}

// fetchVersion is the newest that names topics.
const fetchVersion = 12

func fetchRequest(topic string, next map[int32]int64, maxBytes, partitionBytes, maxWaitMs int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(fetchVersion)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = maxWaitMs, 1, maxBytes
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for id, offset := range next {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = id, offset, partitionBytes
		p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// nextOffset walks over the whole batches in b and returns the offset after the
// last, and how many bytes they take.
func nextOffset(b []byte, next int64) (after int64, size int) {
	for len(b) >= 61 {
		n := int(binary.BigEndian.Uint32(b[8:])) + 12
		if n > len(b) {
			break
		}
		next = int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[23:])) + 1
		size += n
		b = b[n:]
	}
	return next, size
}

// Ends returns the log end offsets of partitions 0 to n-1.
func Ends(addr, topic string, n int) ([]int64, error) {
	c, err := Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return ends(c, topic, n)
}

func ends(c *Conn, topic string, n int) ([]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(4)
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for i := range n {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = int32(i), -1, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp := kmsg.NewPtrListOffsetsResponse()
	if err := c.Do(req, resp); err != nil {
		return nil, err
	}
	out := make([]int64, n)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("list offsets of %s-%d: error %d", topic, p.Partition, p.ErrorCode)
			}
			out[p.Partition] = p.Offset
		}
	}
	return out, nil
}
