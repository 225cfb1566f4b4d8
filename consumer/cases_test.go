package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-io/tidemark/consumer/beacon"
)

// steps is a handler that finishes records when it is told to.
type steps struct {
	mu   sync.Mutex
	wait map[int64]chan struct{}
}

func (s *steps) of(offset int64) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait == nil {
		s.wait = map[int64]chan struct{}{}
	}
	if s.wait[offset] == nil {
		s.wait[offset] = make(chan struct{})
	}
	return s.wait[offset]
}

func (s *steps) handle(_ context.Context, r Record) Outcome {
	<-s.of(r.Offset)
	return Done
}

func (s *steps) finish(offset int64) { close(s.of(offset)) }

// TestC022_StartInsideABatch is the runtime's half of field case C022: the broker
// returns the whole batch, and the handler gets what lies at and behind the offset.
func TestC022_StartInsideABatch(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		five := make([]*kgo.Record, 5)
		for i := range five {
			five[i] = &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(i))}
		}
		if err := cl.client(t, kgo.ProducerLinger(time.Second)).ProduceSync(ctxOf(t), five...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		cl.produce(t, topic, 0, 5, 1, 0)
		if base := cl.firstBase(t, topic, 3); base != 0 {
			t.Fatalf("a fetch at 3 begins with a batch at %d: the five records are not one batch", base)
		}
		if err := cl.admin(t).CommitAllOffsets(ctxOf(t), group, offsets(topic, 0, 3)); err != nil {
			t.Fatal(err)
		}
		var got seen
		c, _ := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done })
		eventually(t, "3, 4 and 5 are committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 6 })
		if ln, _ := lineOf(t, c, topic, 0); ln.Position != 6 {
			t.Errorf("the next fetch is at %d, want 6", ln.Position)
		}
		if s, _ := c.Stats(ctxOf(t)); s.Delivered != 3 || got.of("3")+got.of("4")+got.of("5") != 3 {
			t.Errorf("%d records were delivered, %d different ones, want 3, 4, 5", s.Delivered, got.distinct())
		}
	})
}

// TestC037_MoreMembersThanPartitions is the runtime's half of field case C037: the
// member that gets nothing is idle, and not waiting.
func TestC037_MoreMembersThanPartitions(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		protocols(t, cl, func(t *testing.T, p Protocol) {
			topic, group := cl.topic(t, 2), unique(t, "g")
			cfg := cl.config(group, topic)
			cfg.Protocol = p
			unused, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if s, _ := unused.Stats(ctxOf(t)); s.Membership != MembershipWaiting {
				t.Errorf("a consumer that has not joined is %q", s.Membership)
			}
			stop(t, unused)
			var members []*Consumer
			are := func(want map[Membership]int) func() bool {
				return func() bool {
					got, parts := map[Membership]int{}, 0
					for _, c := range members {
						s, _ := c.Stats(ctxOf(t))
						got[s.Membership]++
						lines, _ := c.Line(ctxOf(t))
						parts += len(lines)
					}
					return maps.Equal(got, want) && parts == 2
				}
			}
			for n := range 3 {
				c, _ := start(t, cfg, func(context.Context, Record) Outcome { return Done })
				members = append(members, c)
				want := map[Membership]int{MembershipAssigned: min(n+1, 2)}
				if n == 2 {
					want[MembershipIdle] = 1
				}
				eventually(t, fmt.Sprintf("%d members: %v", n+1, want), are(want))
			}
			var b strings.Builder
			if err := members[0].WriteMetrics(ctxOf(t), &b); err != nil || !strings.Contains(b.String(), `membership{group="`+group) {
				t.Errorf("%v\n%s", err, b.String())
			}
			for i, c := range members { // one with a partition leaves
				if s, _ := c.Stats(ctxOf(t)); s.Membership == MembershipAssigned {
					stop(t, c)
					members = slices.Delete(members, i, i+1)
					break
				}
			}
			eventually(t, "the idle one gets the free partition", are(map[Membership]int{MembershipAssigned: 2}))
		})
	})
}

// firstBase is the base offset of the first batch that a fetch of partition 0 gets.
func (cl *cluster) firstBase(t *testing.T, topic string, offset int64) int64 {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 11, 1000, 1, 1<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	client := cl.client(t, kgo.MaxVersions(kversion.V2_4_0())) // topics by name
	resp, err := client.Request(ctxOf(t), req)
	if err != nil {
		t.Fatal(err)
	}
	batches := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
	if len(batches) < 8 {
		t.Fatalf("a fetch at %d has no batch", offset)
	}
	return int64(binary.BigEndian.Uint64(batches))
}

// TestC068_ContiguousCompletionWithHoles is field case C068.
func TestC068_ContiguousCompletionWithHoles(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		run := func(t *testing.T, topic string, order, want []int64, final int64, more func()) {
			var s steps
			cfg := cl.config(unique(t, "g"), topic)
			cfg.Order = OrderNone
			c, _ := start(t, cfg, s.handle)
			eventually(t, "all of them run", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Running == len(order) })
			for i, o := range order {
				before, _ := c.Stats(ctxOf(t))
				s.finish(o)
				eventually(t, "the result is in", func() bool { st, _ := c.Stats(ctxOf(t)); return st.Done == before.Done+1 })
				if ln, _ := lineOf(t, c, topic, 0); ln.Effect != want[i] {
					t.Errorf("after %v: committable %d, want %d", order[:i+1], ln.Effect, want[i])
				}
			}
			more()
			s.finish(final)
			eventually(t, "the extra record arrives", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Effect > final && ln.Committed > final })
		}
		t.Run("transactions", func(t *testing.T) {
			cl.needTransactions(t)
			topic := cl.topic(t, 1)
			cl.transact(t, topic, 4, true)
			run(t, topic, []int64{0, 2, 6, 4}, []int64{2, 4, 4, 8}, 8, func() { cl.produce(t, topic, 0, 0, 1, 0) })
		})
		t.Run("plain", func(t *testing.T) {
			topic := cl.topic(t, 1)
			cl.produce(t, topic, 0, 0, 10, 0)
			run(t, topic, []int64{0, 1, 5, 9, 3, 2, 4, 6, 7, 8}, []int64{1, 2, 2, 2, 2, 4, 6, 7, 8, 10}, 10, func() { cl.produce(t, topic, 0, 10, 1, 0) })
		})
	})
}

// TestC072_WhatToCommitOnRevocation is field case C072: the second member has the
// smaller instance id, so that the range assignor gives it the only partition.
func TestC072_WhatToCommitOnRevocation(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 2008, 0)
		g := hold("4")
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.Protocol, cfg.Order = ProtocolEager, OrderNone
		cfg.DrainTimeout, cfg.CommitInterval, cfg.BeaconInterval = 2*time.Second, time.Minute, time.Minute
		cfg.InstanceID, cfg.PartitionRecords, cfg.TotalRecords = "b", 5000, 5000
		cfg.Concurrency = 8
		first, ev := start(t, cfg, func(ctx context.Context, r Record) Outcome {
			if r.Offset > 7 { // these fill the room: the rest is polled and never starts
				<-ctx.Done()
				return Retry(0)
			}
			return g.handle(ctx, r)
		})
		eventually(t, "0..7 but 4 are finished, the rest is polled", func() bool {
			ln, _ := lineOf(t, first, topic, 0)
			return g.finished.distinct() == 7 && ln.Position == 2008
		})
		s0, _ := first.Stats(ctxOf(t))
		cfg.InstanceID, cfg.Concurrency = "a", 1 // one at a time: the first is the lowest
		var mu sync.Mutex
		var firstOffset int64 = -1
		var again seen
		second, _ := start(t, cfg, func(_ context.Context, r Record) Outcome {
			mu.Lock()
			defer mu.Unlock()
			if firstOffset < 0 {
				firstOffset = r.Offset
				if at, _ := cl.committed(t, group, topic, 0); at != 4 {
					t.Errorf("when the new owner begins, %d is committed, want 4", at)
				}
			}
			again.add(r.Value)
			return Done
		})
		eventually(t, "the new owner finishes", func() bool { ln, _ := lineOf(t, second, topic, 0); return ln.Effect == 2008 })
		if firstOffset != 4 {
			t.Errorf("the new owner began with %d, want 4", firstOffset)
		}
		if again.of("5")+again.of("6")+again.of("7") != 0 {
			t.Error("records that the beacon carries as completed ran again")
		}
		if ev.count(EventRevoked) != 1 {
			t.Errorf("revoked %d times", ev.count(EventRevoked))
		}
		s1, err := first.Stats(ctxOf(t))
		// About the drain limit: the margin is for a slow machine's commit.
		if took := s1.RevokeTime - s0.RevokeTime; err != nil || took > 2*time.Second+commitGrace {
			t.Errorf("the revoke took %v (%v)", took, err)
		} else {
			t.Logf("the revoke took %v with a drain limit of 2s", took)
		}
	})
}

// TestC075_OnePartitionOutOfRange is field case C075.
func TestC075_OnePartitionOutOfRange(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		set := func(t *testing.T) (string, string) {
			topic, group := cl.topic(t, 4), unique(t, "g")
			for p := range int32(4) {
				cl.produce(t, topic, p, int(p)*1000, 100, 0)
			}
			var os kadm.Offsets
			for p, at := range []int64{10, 999, 20} {
				os.Add(kadm.Offset{Topic: topic, Partition: int32(p), At: at, LeaderEpoch: -1})
			}
			if err := cl.admin(t).CommitAllOffsets(ctxOf(t), group, os); err != nil {
				t.Fatal(err)
			}
			if _, err := cl.admin(t).DeleteRecords(ctxOf(t), offsets(topic, 0, 50)); err != nil {
				t.Fatal(err)
			}
			return topic, group
		}
		t.Run("earliest", func(t *testing.T) {
			topic, group := set(t)
			var got seen
			c, ev := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done })
			eventually(t, "50 + 100 + 80 + 100 are handled", func() bool { return got.distinct() == 330 })
			for p := range int32(4) {
				cl.produce(t, topic, p, 9000+int(p), 1, 0)
				eventually(t, "all four keep going", func() bool { at, _ := cl.committed(t, group, topic, p); return at == 101 })
			}
			for _, v := range []string{"49", "2019"} {
				if got.of(v) > 0 {
					t.Errorf("%s was handled", v)
				}
			}
			if ev.count(EventExpired) != 1 || ev.count(EventTruncated) != 1 {
				t.Errorf("expired %d, truncated %d events", ev.count(EventExpired), ev.count(EventTruncated))
			}
			if ln, _ := lineOf(t, c, topic, 0); ln.Expired != 40 {
				t.Errorf("expired %d, want 40", ln.Expired)
			}
		})
		t.Run("none", func(t *testing.T) {
			topic, group := set(t)
			var got seen
			cfg := cl.config(group, topic)
			cfg.Start = StartNone
			c, ev := start(t, cfg, func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done })
			eventually(t, "p2 is consumed", func() bool { ln, _ := lineOf(t, c, topic, 2); return ln.Committed == 100 })
			cl.produce(t, topic, 2, 9000, 1, 0)
			eventually(t, "p2 goes on", func() bool { ln, _ := lineOf(t, c, topic, 2); return ln.Committed == 101 })
			if got.distinct() != 81 {
				t.Errorf("%d records, want the 81 of p2", got.distinct())
			}
			held := ev.of(EventHeld)
			if len(held) != 3 {
				t.Fatalf("%d partitions are held, want 3", len(held))
			}
			want := map[int32]string{0: "committed offset 10", 1: "committed offset 999", 3: "no committed offset"}
			for _, e := range held {
				var se *StartError
				if !errors.As(e.Err, &se) || se.Topic != topic || !strings.Contains(se.Error(), want[se.Partition]) || !strings.Contains(se.Error(), fmt.Sprintf("%s-%d", topic, se.Partition)) {
					t.Errorf("held: %v", e.Err)
				}
			}
			stop(t, c)
			// Nothing is skipped: what was held is as it was.
			for p, at := range map[int32]int64{0: 10, 1: 999, 3: Absent} {
				if got, _ := cl.committed(t, group, topic, p); got != at {
					t.Errorf("partition %d: committed %d, was %d", p, got, at)
				}
			}
		})
	})
}

// TestPositionFallsBelowTheLogStart: retention overtakes a paused partition. The
// records in hand stay, the ones in between are counted, fetching goes on.
func TestPositionFallsBelowTheLogStart(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 2000, 0)
		g := hold("0")
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.Order, cfg.PartitionRecords, cfg.BeaconInterval = OrderPartition, 10, 100*time.Millisecond
		c, ev := start(t, cfg, g.handle)
		eventually(t, "it is paused", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Paused == "records" })
		ln, _ := lineOf(t, c, topic, 0)
		inHand := ln.Position
		if _, err := cl.admin(t).DeleteRecords(ctxOf(t), offsets(topic, 0, 1500)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the lost source of the head is reported", func() bool { return ev.count(EventSourceGone) == 1 })
		g.free()
		eventually(t, "the end is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 2000 })
		ln, _ = lineOf(t, c, topic, 0)
		if want := 1500 - inHand; ln.Expired != want || int64(g.finished.distinct()) != 2000-want {
			t.Errorf("expired %d, want %d; finished %d", ln.Expired, want, g.finished.distinct())
		}
	})
}

// TestBeaconStoryOfTheSeed: what another program reads while the seed's example
// happens.
func TestBeaconStoryOfTheSeed(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 13, 0)
		var s steps
		cfg := cl.config(group, topic)
		cfg.Order, cfg.BeaconInterval = OrderNone, 50*time.Millisecond
		start(t, cfg, s.handle)
		for o := range int64(13) {
			if o != 10 {
				s.finish(o)
			}
		}
		eventually(t, "a tool reads position 13, effect 10, 11 and 12 completed", func() bool {
			at, text := cl.committed(t, group, topic, 0)
			b, err := beacon.Decode(text)
			return err == nil && at == 10 && b.Effect == 10 && b.Position == 13 && b.Running == 1 && b.OldestOffset == 10 && b.Done.Contains(11) && b.Done.Contains(12) && b.Done.Len() == 2
		})
		s.finish(10)
		eventually(t, "then everything is done", func() bool {
			at, text := cl.committed(t, group, topic, 0)
			b, err := beacon.Decode(text)
			return err == nil && at == 13 && b.Effect == 13 && b.OldestOffset == -1 && len(b.Done) == 0
		})
	})
}
