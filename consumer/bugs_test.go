package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/consumer/beacon"
)

// The tests of this file and the next are the bugs that consumer runtimes had and
// that cost their users data, one test a report. Each says what went wrong there.

// TestBug01_CommitIsTheFirstUnfinished: the commit was taken from the highest
// polled offset, and a record was lost on revoke (confluentinc/parallel-consumer#826).
func TestBug01_CommitIsTheFirstUnfinished(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 100, 100)
		g := hold("7")
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.DrainTimeout = 200 * time.Millisecond
		c, _ := start(t, cfg, g.handle)
		eventually(t, "all but 7 are finished", func() bool { return g.finished.distinct() == 99 })
		eventually(t, "7 is committed", func() bool { at, _ := cl.committed(t, group, topic, 0); return at == 7 })
		stop(t, c)
		if at, _ := cl.committed(t, group, topic, 0); at != 7 {
			t.Errorf("after the close: committed %d, want 7", at)
		}
	})
}

// bounce takes partition 0 away from the only member and gives it back: it makes
// the group forget the member, which then joins again. Records that run meanwhile
// become results of a dropped assignment.
func bounce(t *testing.T, c *Consumer, topic string) {
	t.Helper()
	before, ok := lineOf(t, c, topic, 0)
	if !ok {
		t.Fatal("the partition is not assigned")
	}
	c.loop.Load().cl.ForceRebalance()
	eventually(t, "the partition came back as a new assignment", func() bool {
		ln, ok := lineOf(t, c, topic, 0)
		return ok && ln.Generation > before.Generation
	})
}

// TestBug02_FreshRecordAtTheSameOffset: an entry of a stale epoch was kept, the
// fresh record at the same offset was dropped, and the commit stood still until a
// restart (confluentinc/parallel-consumer#909, #875).
func TestBug02_FreshRecordAtTheSameOffset(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 10, 10)
		g := hold("3")
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.Protocol, cfg.DrainTimeout = ProtocolEager, 100*time.Millisecond
		c, ev := start(t, cfg, g.handle)
		eventually(t, "9 are finished", func() bool { return g.finished.distinct() == 9 })
		bounce(t, c, topic)
		eventually(t, "3 is delivered again", func() bool { return g.started.of("3") == 2 })
		g.free("3") // both runs end: one of them is late
		eventually(t, "the commit goes on", func() bool { at, _ := cl.committed(t, group, topic, 0); return at == 10 })
		eventually(t, "the late result is counted", func() bool { return ev.count(EventStale) == 1 })
	})
}

// TestBug03_StaleWorkTakesNoRoom: counters of in-flight work leaked when work
// became stale, and fetching stayed paused for ever
// (confluentinc/parallel-consumer#606, #547).
func TestBug03_StaleWorkTakesNoRoom(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 8, 0)
		g := hold("0", "1", "2", "3")
		defer g.free()
		cfg := cl.config(group, topic)
		cfg.Protocol, cfg.DrainTimeout, cfg.Order = ProtocolEager, 100*time.Millisecond, OrderNone
		cfg.PartitionRecords, cfg.TotalRecords, cfg.Concurrency = 4, 4, 4
		c, _ := start(t, cfg, g.handle)
		eventually(t, "4 run", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Running == 4 })
		old := g.held
		g.mu.Lock()
		g.held = map[string]chan struct{}{} // the second run of these is not held
		g.mu.Unlock()
		bounce(t, c, topic)
		eventually(t, "all 8 are finished while the old 4 still run", func() bool { return g.finished.distinct() == 8 })
		eventually(t, "nothing counts", func() bool {
			ln, ok := lineOf(t, c, topic, 0)
			return ok && ln.Committed == 8 && ln.Running+ln.Queued+ln.RetryWait == 0 && ln.Bytes == 0 && ln.Paused == ""
		})
		for _, ch := range old {
			close(ch)
		}
	})
}

// TestBug04_CommitAnswers: an exception of a commit during a rebalance killed the
// poll thread, and a rejected commit was booked as a success
// (confluentinc/parallel-consumer#857).
func TestBug04_CommitAnswers(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.RebalanceInProgress, kerr.OffsetMetadataTooLarge, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.GroupAuthorizationFailed} {
		t.Run(e.Message, func(t *testing.T) {
			cl, fk := fake(t)
			topic, group := cl.topic(t, 1), unique(t, "g")
			var refuse atomic.Bool
			fk.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
				fk.KeepControl()
				if !refuse.Load() {
					return nil, nil, false
				}
				return refusal(req.(*kmsg.OffsetCommitRequest), e.Code), nil, true
			})
			cl.produce(t, topic, 0, 0, 5, 0)
			var got seen
			c, ev := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done })
			eventually(t, "5 are committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 5 })
			refuse.Store(true)
			cl.produce(t, topic, 0, 5, 5, 0)
			eventually(t, "the refusal is reported", func() bool { return ev.count(EventCommitLost)+ev.count(EventCommitDeferred) > 0 })
			if ln, ok := lineOf(t, c, topic, 0); !ok || ln.Committed != 5 || ln.Effect != 10 {
				t.Errorf("a refused commit was booked: %+v", ln)
			}
			refuse.Store(false)
			if e == kerr.IllegalGeneration || e == kerr.UnknownMemberID {
				// Not as this generation: as the next one.
				c.loop.Load().cl.ForceRebalance()
			}
			eventually(t, "10 are committed", func() bool { at, _ := cl.committed(t, group, topic, 0); return at == 10 })
		})
	}
}

func refusal(req *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, rt := range req.Topics {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = rp.Partition, code
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// TestBug05_RetriesCountInTheBound: the retry queue was outside the bound and
// memory ran out (confluentinc/parallel-consumer#832, #817, #834).
func TestBug05_RetriesCountInTheBound(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.produce(t, topic, 0, 0, 3000, 0)
		cfg := cl.config(group, topic)
		cfg.Order, cfg.PartitionRecords = OrderNone, 50
		var fail atomic.Bool
		fail.Store(true)
		var got seen
		c, _ := start(t, cfg, func(_ context.Context, r Record) Outcome {
			if fail.Load() {
				return Retry(200 * time.Millisecond)
			}
			got.add(r.Value)
			return Done
		})
		eventually(t, "the partition is paused by records that wait for a retry", func() bool {
			ln, _ := lineOf(t, c, topic, 0)
			return ln.Paused == "records" && ln.RetryWait >= 40
		})
		s, _ := c.Stats(ctxOf(t))
		again, rounds := s.Retried, 0
		eventually(t, "some rounds of retries took nothing in", func() bool {
			s, _ := c.Stats(ctxOf(t))
			if ln, _ := lineOf(t, c, topic, 0); ln.Queued+ln.Running+ln.RetryWait > 50+pollRecords || ln.Queued < 0 || ln.RetryWait < 0 {
				t.Fatalf("beyond the bound and one poll: %+v", ln)
			}
			if s.Retried > again+200 {
				again, rounds = s.Retried, rounds+1
			}
			return rounds > 3
		})
		fail.Store(false)
		eventually(t, "all 3000 are finished", func() bool { return got.distinct() == 3000 })
	})
}

// TestBug06_TooManyCompletedAhead: an offset map above 4096 characters was
// stripped and consumption stalled (confluentinc/parallel-consumer#647, #831).
func TestBug06_TooManyCompletedAhead(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		topic, group := cl.topic(t, 1), unique(t, "g")
		const n = 40_000
		cl.produce(t, topic, 0, 0, n, 0)
		cfg := cl.config(group, topic)
		cfg.Order, cfg.Concurrency, cfg.MetadataLimit = OrderNone, 64, beacon.BrokerLimit
		cfg.PartitionRecords, cfg.TotalRecords, cfg.PartitionWindow = n+1, n+1, n+1
		coin, rng := make([]bool, n), rand.New(rand.NewPCG(3, 4)) // without any pattern
		for i := range coin {
			coin[i] = i == 0 || rng.IntN(2) == 0
		}
		var freed atomic.Bool
		var later atomic.Int64
		var got seen
		c, _ := start(t, cfg, func(_ context.Context, r Record) Outcome {
			if !freed.Load() && coin[r.Offset] {
				later.Add(1)
				return Retry(time.Hour / 8)
			}
			got.add(r.Value)
			return Done
		})
		eventually(t, "everything was tried once", func() bool { return int(later.Load())+got.distinct() == n })
		var b beacon.Beacon
		eventually(t, "a beacon that left the highest out is committed", func() bool {
			at, text := cl.committed(t, group, topic, 0)
			var err error
			b, err = beacon.Decode(text)
			return at == 0 && err == nil && len(text) <= 4096 && len(text) > 3500 && b.Cut > 0 && b.Done.Len() > 1000
		})
		stop(t, c)
		_, text := cl.committed(t, group, topic, 0) // the last one: what fits depends on its other fields too
		if b, _ = beacon.Decode(text); b.Cut == 0 {
			t.Fatalf("the last beacon is %q", text)
		}
		freed.Store(true)
		var second seen
		c2, _ := start(t, cfg, func(_ context.Context, r Record) Outcome { second.add(r.Value); return Done })
		eventually(t, "the rest is done by the next owner", func() bool { ln, _ := lineOf(t, c2, topic, 0); return ln.Committed == n })
		// What was carried is not run again, what was cut is.
		if run, want := second.distinct(), n-int(b.Done.Len()); run != want {
			t.Errorf("the next owner ran %d records, want %d (%d were carried)", run, want, b.Done.Len())
		}
	})
}

// TestBug07_ForeignMetadata: metadata of other software killed the consumer on
// assignment; a branch of the fix then skipped exactly one record
// (confluentinc/parallel-consumer#326).
func TestBug07_ForeignMetadata(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		for _, text := range []string{"", "bAAA=", "kgo-member-1", "tm1 at=never", "tm1 at=2026-11-30T16:12:33.123Z pos=9 eff=9 run=0 wait=0 gen=1 | done=r:AQU", "\x00\xff"} {
			t.Run(fmt.Sprintf("%.12q", text), func(t *testing.T) {
				topic, group := cl.topic(t, 1), unique(t, "g")
				cl.produce(t, topic, 0, 0, 20, 0)
				var os kadm.Offsets
				os.Add(kadm.Offset{Topic: topic, Partition: 0, At: 5, LeaderEpoch: -1, Metadata: text})
				if err := cl.admin(t).CommitAllOffsets(ctxOf(t), group, os); err != nil {
					t.Fatal(err)
				}
				var got seen
				c, ev := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done })
				eventually(t, "the end is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 20 })
				if got.distinct() != 15 || got.of("5") != 1 || got.of("4") != 0 {
					t.Errorf("%d records, 5 %d times, 4 %d times: want 5..19 once each", got.distinct(), got.of("5"), got.of("4"))
				}
				if text != "" && ev.count(EventForeign)+ev.count(EventMoved) == 0 {
					t.Error("foreign metadata was not reported")
				}
			})
		}
	})
}

// TestBug08_OffsetAndMapOfOneMoment: offset and map were read at two moments, and
// the commit was wrong (confluentinc/parallel-consumer#894).
func TestBug08_OffsetAndMapOfOneMoment(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 1), unique(t, "g")
	var commits, wrong atomic.Int64
	fk.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fk.KeepControl()
		for _, rt := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range rt.Partitions {
				commits.Add(1)
				b, err := beacon.Decode(*p.Metadata)
				if err != nil || b.Effect != p.Offset || b.Done.Contains(p.Offset) || b.Position < b.Effect {
					wrong.Add(1)
				}
			}
		}
		return nil, nil, false
	})
	cl.produce(t, topic, 0, 0, 20_000, 50)
	cfg := cl.config(group, topic)
	cfg.CommitInterval = time.Millisecond
	var got seen
	c, _ := start(t, cfg, func(_ context.Context, r Record) Outcome {
		if r.Offset%37 == 0 && r.Attempt == 1 {
			return Retry(time.Millisecond)
		}
		got.add(r.Value)
		return Done
	})
	eventually(t, "all are committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 20_000 })
	if commits.Load() < 5 || wrong.Load() > 0 {
		t.Errorf("%d of %d commits were not of one moment", wrong.Load(), commits.Load())
	}
}

// TestBug09_GapsAndMarkers: compaction, transaction markers and retention broke
// the encoders and left ghosts (confluentinc/parallel-consumer#52, #329, #409).
func TestBug09_GapsAndMarkers(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		cl.needTransactions(t)
		topic, group := cl.topic(t, 1), unique(t, "g")
		cl.transact(t, topic, 3, true)    // 0 m 2 m 4 m
		cl.transact(t, topic, 2, false)   // aborted: 6 m 8 m
		cl.produce(t, topic, 0, 10, 4, 0) // 10..13
		if _, err := cl.admin(t).DeleteRecords(ctxOf(t), offsets(topic, 0, 1)); err != nil {
			t.Fatal(err)
		}
		var got seen
		c, _ := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome {
			got.add([]byte(fmt.Sprint(r.Offset)))
			return Done
		})
		eventually(t, "the end is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 14 && ln.LogEnd == 14 })
		for _, o := range []string{"2", "4", "10", "11", "12", "13"} {
			if got.of(o) != 1 {
				t.Errorf("offset %s: %d times", o, got.of(o))
			}
		}
		if got.distinct() != 6 {
			t.Errorf("%d records, want 6", got.distinct())
		}
		// The log may end with a marker: the line must not stay one behind it.
		cl.transact(t, topic, 1, true)
		eventually(t, "the marker is passed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 16 && ln.Effect == 16 })
	})
}

// TestBug09_Compaction: a compacted log in process, read with a completed set.
func TestBug09_Compaction(t *testing.T) {
	cl, fk := fake(t)
	topic, group := cl.topic(t, 1, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0", "segment.bytes", "1024"), unique(t, "g")
	cl.produce(t, topic, 0, 0, 300, 5)
	fk.Compact()
	var got seen
	c, _ := start(t, cl.config(group, topic), func(_ context.Context, r Record) Outcome { got.add(r.Value); return Done })
	eventually(t, "the end is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 300 })
	if r := got.repeated(); len(r) > 0 || got.distinct() < 5 {
		t.Errorf("%d records, repeated %v", got.distinct(), r)
	}
}

// transact writes one-record transactions.
func (cl *cluster) transact(t testing.TB, topic string, n int, commit bool) {
	t.Helper()
	c := cl.client(t, kgo.TransactionalID(unique(t, "tx")))
	for i := range n {
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := c.ProduceSync(ctxOf(t), &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "tx%d", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := c.EndTransaction(ctxOf(t), kgo.TransactionEndTry(commit)); err != nil {
			t.Fatal(err)
		}
	}
}

func offsets(topic string, partition int32, at int64) kadm.Offsets {
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1})
	return os
}

// TestBug10_KeyLanes: the key shard left the topic out; records without a key
// were mixed in; keys were compared by identity
// (confluentinc/parallel-consumer#184, #318, #579).
func TestBug10_KeyLanes(t *testing.T) {
	everywhere(t, func(t *testing.T, cl *cluster) {
		one, two, group := cl.topic(t, 1), cl.topic(t, 1), unique(t, "g")
		kc := cl.client(t)
		for i := range 6 {
			for _, topic := range []string{one, two} {
				for _, key := range [][]byte{nil, {}, []byte("k")} {
					if err := kc.ProduceSync(ctxOf(t), &kgo.Record{Topic: topic, Key: key, Value: fmt.Appendf(nil, "%d", i)}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		var mu sync.Mutex
		inFlight, most, last := map[string]int{}, 0, map[string]int64{}
		release := make(chan struct{})
		c, _ := start(t, cl.config(group, one, two), func(_ context.Context, r Record) Outcome {
			lane := fmt.Sprintf("%s/%q/%v", r.Topic, r.Key, r.Key == nil)
			mu.Lock()
			inFlight[lane]++
			if inFlight[lane] > 1 || r.Offset < last[lane] {
				t.Errorf("lane %s: %d at a time, offset %d after %d", lane, inFlight[lane], r.Offset, last[lane])
			}
			last[lane] = r.Offset
			most = max(most, len(inFlight))
			mu.Unlock()
			<-release
			mu.Lock()
			delete(inFlight, lane)
			mu.Unlock()
			return Done
		})
		eventually(t, "2 topics x 3 lanes run at once", func() bool { mu.Lock(); defer mu.Unlock(); return most == 6 })
		close(release)
		for _, topic := range []string{one, two} {
			eventually(t, "all is committed", func() bool { ln, _ := lineOf(t, c, topic, 0); return ln.Committed == 18 })
		}
	})
}
