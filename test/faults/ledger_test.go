package faults

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ledger remembers which numbered records were acknowledged, per partition.
type ledger struct {
	mu     sync.Mutex
	acked  map[int32]map[int]bool
	failed []error
}

func newLedger() *ledger { return &ledger{acked: map[int32]map[int]bool{}} }

func (l *ledger) ack(partition int32, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked[partition] == nil {
		l.acked[partition] = map[int]bool{}
	}
	l.acked[partition][n] = true
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, err)
}

// failures returns the sends that failed for good.
func (l *ledger) failures() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.failed...)
}

func (l *ledger) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.acked {
		n += len(m)
	}
	return n
}

// newTopic makes a topic through the admin client.
func newTopic(t *testing.T, bootstrap, topic string, partitions int32) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	resp, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil || resp.Err != nil {
		t.Fatalf("create %s: %v, %v", topic, err, resp.Err)
	}
}

// writer produces numbered records with acks=all and the idempotent producer
// until its context ends, and enters each outcome in the ledger.
func writer(ctx context.Context, bootstrap, topic string, partitions int32, l *ledger) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20*time.Millisecond),
		kgo.MaxBufferedRecords(2000),
		kgo.RecordDeliveryTimeout(2*time.Minute),
	)
	if err != nil {
		return err
	}
	next := make([]int, partitions)
	for ctx.Err() == nil {
		for p := range partitions {
			n := next[p]
			next[p]++
			r := &kgo.Record{Partition: p, Value: []byte(strconv.Itoa(n) + ":" + strings.Repeat("x", 100))}
			cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
				if err != nil {
					l.fail(err)
					return
				}
				l.ack(r.Partition, n)
			})
		}
	}
	flush, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err = cl.Flush(flush)
	cl.Close()
	return err
}

// readAll returns the numbers in each partition, in offset order.
func readAll(t *testing.T, bootstrap, topic string, partitions int32) map[int32][]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	offsets := map[int32]kgo.Offset{}
	for p := range partitions {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	got, left := map[int32][]int{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatalf("end of %s-%d: %v", topic, o.Partition, o.Err)
		}
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("partitions not read to their end: %v", left)
		}
		fs.EachRecord(func(r *kgo.Record) {
			num, _, _ := strings.Cut(string(r.Value), ":")
			n, err := strconv.Atoi(num)
			if err != nil {
				t.Fatalf("record at %s-%d offset %d reads %q", topic, r.Partition, r.Offset, r.Value[:min(len(r.Value), 20)])
			}
			got[r.Partition] = append(got[r.Partition], n)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return got
}

// check compares what was acknowledged with what is there.
func (l *ledger) check(t *testing.T, got map[int32][]int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.failed[:min(len(l.failed), 3)] {
		t.Errorf("a send failed for good: %v", err)
	}
	lost, dup, disorder := 0, 0, 0
	for p, acked := range l.acked {
		seen, last := map[int]int{}, -1
		for _, n := range got[p] {
			seen[n]++
			if n <= last {
				disorder++
			}
			last = max(last, n)
		}
		for n := range acked {
			if seen[n] == 0 {
				lost++
			}
		}
		for _, c := range seen {
			dup += c - 1
		}
	}
	if lost+dup+disorder > 0 {
		t.Errorf("lost %d, duplicated %d, out of order %d", lost, dup, disorder)
	}
}

func (l *ledger) String() string { return fmt.Sprintf("%d records acknowledged", l.count()) }
