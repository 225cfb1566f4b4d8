package groupservice

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/coordinator/group"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/replica"
	"github.com/tidemark-io/tidemark/internal/storage/log"
	"github.com/tidemark-io/tidemark/internal/storage/logdir"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = 5

// node is a broker as far as offsets need it: logs, replicas, coordinator.
type node struct {
	t    testing.TB
	set  *logdir.Set
	logs *log.Manager
	m    *replica.Manager
	s    *Service
	now  atomic.Int64
	im   *image.Image
}

var offsetsID = types.UUID{0: 0x42, 15: 7}

// startNode starts a node that leads all of __consumer_offsets in a cluster that
// also has what more says.
func startNode(t testing.TB, fs vfs.FS, epoch int32, more ...recordschema.MetadataRecord) *node {
	t.Helper()
	n := &node{t: t, im: image.Empty()}
	n.now.Store(1_000_000)
	// A cluster default below strict must not reach internal topics.
	relaxed := config.DefaultTopicConfig()
	relaxed.Durability = config.Relaxed
	n.m = replica.New(replica.Options{NodeID: 1, TopicConfig: func(*image.Image, string) config.TopicConfig { return relaxed }})
	var err error
	n.set, err = logdir.OpenAll(logdir.Options{FS: fs, Paths: []string{"/d"}, NodeID: 1, ClusterID: "c", Format: true, Random: rand.Reader, Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	n.logs, err = log.OpenManager(log.ManagerOptions{FS: fs, Dirs: n.set.Dirs, OnDurable: n.m.OnDurable, OnDirOffline: n.m.OnDirOffline})
	if err != nil {
		t.Fatal(err)
	}
	cfg := group.DefaultConfig()
	cfg.NewPartitionsEarliest = true
	n.s = New(Options{
		Log: n.m, Group: cfg, Partitions: func() int { return partitions }, NowMs: n.now.Load, LingerMs: -1,
	})
	n.m.SetLeadership(n.s)
	n.m.Start(n.logs)
	recs := []recordschema.MetadataRecord{&recordschema.TopicRecord{Name: types.ConsumerOffsetsTopic, TopicID: offsetsID}}
	for p := range int32(partitions) {
		recs = append(recs, &recordschema.PartitionRecord{
			PartitionID: p, TopicID: offsetsID, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, LeaderEpoch: epoch, PartitionEpoch: epoch,
			Directories: []types.UUID{types.UnassignedDir},
		})
	}
	n.publish(1, append(recs, more...)...)
	return n
}

func (n *node) apply(recs ...recordschema.MetadataRecord) *image.Delta {
	n.t.Helper()
	d := image.NewDelta(n.im)
	for _, r := range recs {
		if err := d.Replay(r, 1); err != nil {
			n.t.Fatal(err)
		}
	}
	n.im = d.Apply(1, 1)
	n.m.ApplyDelta(d, n.im)
	return d
}

func (n *node) stop(clean bool) {
	n.s.Close()
	n.m.Close()
	if _, err := n.logs.Close(clean); err != nil {
		n.t.Log(err)
	}
	for _, d := range n.set.Dirs {
		_ = d.Close()
	}
}

func (n *node) commit(g, topic string, p int32, offset int64) kerrors.Code {
	n.t.Helper()
	return n.commitAs("", -1, g, topic, p, offset)
}

func (n *node) commitAs(member string, epoch int32, g, topic string, p int32, offset int64) kerrors.Code {
	n.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 9, g, member, epoch
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, types.UUID{1}
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = p, offset
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	for {
		resp := n.s.Commit(context.Background(), req)
		code := kerrors.Code(resp.Topics[0].Partitions[0].ErrorCode)
		if code != kerrors.CoordinatorLoadInProgress {
			return code
		}
		time.Sleep(time.Millisecond)
	}
}

func (n *node) fetch(g, topic string, p int32, stable bool) int64 {
	n.t.Helper()
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = g
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = topic, []int32{p}
	req.Topics = append(req.Topics, t)
	for {
		resp := n.s.Fetch(context.Background(), &req, stable)
		switch code := kerrors.Code(resp.ErrorCode); code {
		case kerrors.None:
			return resp.Topics[0].Partitions[0].Offset
		case kerrors.CoordinatorLoadInProgress:
			time.Sleep(time.Millisecond)
		default:
			n.t.Fatal(code)
		}
	}
}

// TestCommittedOffsetsSurvivePowerCuts: what was acknowledged is read back
// after a crash that keeps nothing that was not synced, though the cluster's
// default durability is relaxed.
func TestCommittedOffsetsSurvivePowerCuts(t *testing.T) {
	mem := vfs.NewMem()
	want := map[string]int64{}
	for round := range 3 {
		n := startNode(t, mem, int32(round*2))
		for g, off := range want {
			if got := n.fetch(g, "t", 0, round%2 == 0); got != off {
				t.Fatalf("round %d: group %s at %d, acknowledged %d", round, g, got, off)
			}
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 25 {
					g := fmt.Sprintf("g%d-%d", w, i%7)
					if code := n.commit(g, "t", 0, int64(round*1000+i)); code != kerrors.None {
						t.Error(code)
						return
					}
					mu.Lock()
					want[g] = int64(round*1000 + i)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		crashed := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: 0, Seed: uint64(round)})
		n.stop(false)
		mem = crashed
	}
}

func TestExpiryAndTopicDeletion(t *testing.T) {
	n := startNode(t, vfs.NewMem(), 0)
	defer n.stop(true)
	for i := range 10 {
		if code := n.commit(fmt.Sprint("g", i), "t", 0, 5); code != kerrors.None {
			t.Fatal(code)
		}
	}
	d := n.apply(&recordschema.TopicRecord{Name: "t", TopicID: types.UUID{1}})
	n.s.OnTopicsDeleted(d)
	if got := n.fetch("g1", "t", 0, true); got != 5 {
		t.Fatalf("a new topic took the offset: %d", got)
	}
	d = n.apply(&recordschema.RemoveTopicRecord{TopicID: types.UUID{1}})
	n.s.OnTopicsDeleted(d)
	for i := range 10 {
		if got := n.fetch(fmt.Sprint("g", i), "t", 0, true); got != -1 {
			t.Fatalf("group %d still has %d", i, got)
		}
	}
	if code := n.commit("late", "u", 0, 9); code != kerrors.None {
		t.Fatal(code)
	}
	n.now.Add(8 * 86_400_000)
	n.s.Expire()
	if got := n.fetch("late", "u", 0, true); got != -1 {
		t.Fatalf("not expired: %d", got)
	}
}

func TestNoTopicAndNoShard(t *testing.T) {
	m := replica.New(replica.Options{})
	defer m.Close()
	s := New(Options{Log: m, Partitions: func() int { return 0 }})
	defer s.Close()
	n := &node{t: t, s: s}
	if code := n.commit("g", "t", 0, 1); code != kerrors.CoordinatorNotAvailable {
		t.Fatal(code)
	}
	s.opts.Partitions = func() int { return 1 }
	if code := n.commit("g", "t", 0, 1); code != kerrors.NotCoordinator {
		t.Fatal(code)
	}
	if err := s.DeleteGroup(context.Background(), "g"); kerrors.CodeOf(err) != kerrors.NotCoordinator {
		t.Fatal(err)
	}
}
