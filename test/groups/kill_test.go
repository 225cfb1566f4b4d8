package groups

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

const kills = 30

// TestKillDuringRebalance kills the server in the middle of a rebalance thirty
// times, in all protocols. No commit that was acknowledged may be lost or go
// back, and the group must come together again by itself.
func TestKillDuringRebalance(t *testing.T) {
	t.Parallel()
	s, p := startTidemark(t)
	rnd := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	groups := []*killGroup{}
	for _, protocol := range []string{"eager", "cooperative", "consumer"} {
		g := &killGroup{t: t, p: p, protocol: protocol, name: "kill-" + protocol, adm: admin(t, p), acked: map[int32]int64{}, alive: map[int32]time.Time{}}
		createTopic(t, p, g.name, partitions)
		f := startFeed(t, p, g.name, kgo.RecordRetries(1<<30), kgo.RetryTimeout(patience))
		t.Cleanup(f.stop)
		for range 3 {
			g.add()
		}
		groups = append(groups, g)
	}
	for _, g := range groups {
		g.await("start")
	}
	for i := range kills {
		for _, g := range groups {
			g.rebalance(i)
		}
		// A rebalance of these groups lasts some tenths of a second; somewhere in it.
		pause(rnd.IntN(400))
		s.Kill()
		s.Start()
		for _, g := range groups {
			g.check(i)
		}
		for _, g := range groups {
			g.await(fmt.Sprintf("kill %d", i+1))
		}
	}
}

// pause lets a rebalance come so far before the kill; nothing is checked by it.
func pause(ms int) { <-time.After(time.Duration(ms) * time.Millisecond) }

// killGroup is a group in this process whose acknowledged commits are known.
type killGroup struct {
	t        *testing.T
	p        peer
	protocol string
	name     string
	members  []*killMember
	adm      *kadm.Client

	mu    sync.Mutex
	acked map[int32]int64     // newest commit that the server acknowledged
	alive map[int32]time.Time // last record by partition
}

type killMember struct {
	cl   *kgo.Client
	stop context.CancelFunc
	loop sync.WaitGroup
}

func (g *killGroup) add() {
	g.t.Helper()
	cl, err := kgo.NewClient(append(balance(g.protocol),
		kgo.SeedBrokers(g.p.bootstrap), kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(g.name), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(2*time.Second), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))...)
	if err != nil {
		g.t.Fatal(err)
	}
	m := &killMember{cl: cl}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	g.members = append(g.members, m)
	m.loop.Go(func() {
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			g.read(fetches)
			g.commit(ctx, cl, fetches)
			cl.AllowRebalance()
		}
	})
	g.t.Cleanup(m.end)
}

func (m *killMember) end() {
	m.stop()
	m.loop.Wait()
	m.cl.CloseAllowingRebalance()
}

func (g *killGroup) read(fetches kgo.Fetches) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) { g.alive[r.Partition] = time.Now() })
}

// commit remembers what the server acknowledged. Two members never commit the
// same partition at once: the poll loop holds rebalances off until it is through.
func (g *killGroup) commit(parent context.Context, cl *kgo.Client, fetches kgo.Fetches) {
	offsets := map[string]map[int32]kgo.EpochOffset{g.name: {}}
	fetches.EachRecord(func(r *kgo.Record) {
		offsets[g.name][r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	})
	if len(offsets[g.name]) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(parent, 3*time.Second)
	defer cancel()
	cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, topic := range resp.Topics {
			for _, part := range topic.Partitions {
				if part.ErrorCode == 0 {
					g.acked[part.Partition] = max(g.acked[part.Partition], offsets[g.name][part.Partition].Offset)
				}
			}
		}
	})
}

// rebalance sets one off: a member joins, the oldest leaves, in turn.
func (g *killGroup) rebalance(i int) {
	if i%2 == 0 {
		g.add()
		return
	}
	m := g.members[0]
	g.members = g.members[1:]
	go m.end() // it may be caught by the kill while leaving
}

// check reads the commits that the restarted server has: before any member has
// had the chance to commit over them they may only be where they were or ahead.
func (g *killGroup) check(i int) {
	g.t.Helper()
	g.mu.Lock()
	acked := map[int32]int64{}
	for part, o := range g.acked {
		acked[part] = o
	}
	g.mu.Unlock()
	var got kadm.OffsetResponses
	ctx := deadline(g.t)
	wait(g.t, "the restarted server answers OffsetFetch", func() bool {
		var err error
		got, err = g.adm.FetchOffsets(ctx, g.name)
		return err == nil && got.Error() == nil
	})
	for part, want := range acked {
		o, ok := got.Lookup(g.name, part)
		if !ok || o.At < want {
			g.t.Fatalf("kill %d: %s partition %d: commit %d was acknowledged, the server has %d", i+1, g.name, part, want, o.At)
		}
	}
}

// await waits until records of every partition are read after now and the group
// is stable with the members that live.
func (g *killGroup) await(after string) {
	g.t.Helper()
	now := time.Now()
	ctx := deadline(g.t)
	wait(g.t, after+": "+g.name+" reads every partition and is stable", func() bool {
		g.mu.Lock()
		n := 0
		for _, at := range g.alive {
			if at.After(now) {
				n++
			}
		}
		g.mu.Unlock()
		return n == partitions && settled(ctx, g.adm, g.protocol, g.name, len(g.members), partitions)
	})
}
