package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// TestD6_FsyncFailure takes one of two folders offline: its partition answers
// KAFKA_STORAGE_ERROR, the other goes on, and the failure is reported once.
func TestD6_FsyncFailure(t *testing.T) {
	var broken atomic.Value // the path prefix whose syncs fail
	broken.Store("none")
	fs := errfs.Wrap(vfs.NewMem(), errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
		if op.Kind == errfs.Sync && strings.HasPrefix(op.Path, broken.Load().(string)) {
			return &errfs.Fault{Err: errors.New("injected")}
		}
		return nil
	}})
	r := newRig(t, fs, "/d1", "/d2")
	failed := make(chan types.UUID, 2)
	r.opts.OnDirFailed = func(d types.UUID, _ error) { failed <- d }
	r.start()
	defer r.stop(true)
	id := topicID(1)
	recs := []recordschema.MetadataRecord{&recordschema.TopicRecord{Name: "t", TopicID: id}}
	for p, d := range r.set.Dirs {
		recs = append(recs, &recordschema.PartitionRecord{
			PartitionID: int32(p), TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: []types.UUID{d.ID},
		})
	}
	r.apply(recs...)
	tp0, tp1 := tpID("t", id, 0), tpID("t", id, 1)
	r.mustProduce(-1, tp0, batchOf(t, 1, "a"))
	r.mustProduce(-1, tp1, batchOf(t, 1, "a"))
	dir := r.m.table.Load().get("t", 0).view.Load().log.Dir()
	if other := r.m.table.Load().get("t", 1).view.Load().log.Dir(); other == dir {
		t.Fatal("both partitions are in one folder")
	}
	if dir != r.set.Dirs[0] {
		t.Fatalf("partition 0 is in %s, not where it is assigned", dir.Path)
	}
	parked := make(chan []FetchResult, 1)
	r.m.Fetch(consumerFetch(60_000, fetchPart(tp0, 1)), func(res []FetchResult) { parked <- res })

	broken.Store(dir.Path + "/")
	if got := r.produce(-1, tp0, batchOf(t, 1, "b")); kerrors.CodeOf(got.Err) != kerrors.KafkaStorageError {
		t.Fatalf("produce over a failing fsync: %v", got.Err)
	}
	if d := <-failed; d != dir.ID {
		t.Fatalf("reported %v", d)
	}
	if res := <-parked; res[0].Code() != kerrors.KafkaStorageError {
		t.Fatalf("parked fetch: %v", res[0].Code())
	}
	broken.Store("none") // a disk that recovers does not come back by itself
	if got := r.produce(1, tp0, batchOf(t, 1, "c")); kerrors.CodeOf(got.Err) != kerrors.KafkaStorageError {
		t.Fatalf("produce to an offline folder: %v", got.Err)
	}
	if res := r.fetchAll(consumerFetch(0, fetchPart(tp0, 0)))[0]; res.Code() != kerrors.KafkaStorageError {
		t.Fatalf("fetch from an offline folder: %v", res.Code())
	}
	r.mustProduce(-1, tp1, batchOf(t, 1, "d"))
	if got := r.readAll(tp1); !slices.Equal(got, []string{"a", "d"}) {
		t.Fatalf("the other folder holds %q", got)
	}
	r.changeLeader(id, 0, self) // a new epoch does not bring it back either
	if got := r.produce(1, tp0, batchOf(t, 1, "e")); kerrors.CodeOf(got.Err) != kerrors.KafkaStorageError {
		t.Fatalf("after a new epoch: %v", got.Err)
	}
	if len(failed) != 0 {
		t.Fatal("the failure is reported twice")
	}
	// A new partition that is assigned to the failed folder, or to one that
	// nobody knows while a folder is missing, stays offline; another one is made.
	for n, where := range []types.UUID{dir.ID, {9, 9}, types.UnassignedDir} {
		id := topicID(byte(10 + n))
		r.apply(&recordschema.TopicRecord{Name: fmt.Sprint("new", n), TopicID: id}, &recordschema.PartitionRecord{
			TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: []types.UUID{where},
		})
		got := r.produce(-1, tpID(fmt.Sprint("new", n), id, 0), batchOf(t, 1, "x"))
		if offline := kerrors.CodeOf(got.Err) == kerrors.KafkaStorageError; offline != (n < 2) {
			t.Fatalf("new partition in %v: %v", where, got.Err)
		}
	}
}

// TestDiskFull refuses writes while there is no space, reads on, and writes
// again when space returns. Nothing that was refused is ever visible.
func TestDiskFull(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, mem).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	tp := tpID("t", id, 0)
	var want []string
	for i := range 10 {
		r.mustProduce(-1, tp, batchOf(t, 1, number(i)))
		want = append(want, number(i))
	}
	mem.SetCapacity(1)
	for range 3 {
		if got := r.produce(-1, tp, batchOf(t, 1, "lost")); kerrors.CodeOf(got.Err) != kerrors.KafkaStorageError {
			t.Fatalf("on a full disk: %v", got.Err)
		}
	}
	if got := r.readAll(tp); !slices.Equal(got, want) {
		t.Fatalf("on a full disk %d records are readable", len(got))
	}
	mem.SetCapacity(0)
	r.mustProduce(-1, tp, batchOf(t, 1, "after"))
	if got := r.readAll(tp); !slices.Equal(got, append(want, "after")) {
		t.Fatalf("with space again: %q", got)
	}
}

// TestCrashKeepsAcknowledged cuts the power under load and starts again: what
// was acknowledged is there, once and in order, however much of the unsynced
// bytes survived, and the high watermark is at the end at once.
func TestCrashKeepsAcknowledged(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("keep%d/seed%d", percent, seed), func(t *testing.T) { crashOnce(t, percent, seed) })
		}
	}
}

func crashOnce(t *testing.T, percent int, seed uint64) {
	mem := vfs.NewMem()
	r := newRig(t, mem).start()
	const partitions, producers = 4, 3
	id := topicID(1)
	r.topic("t", id, partitions, 0)
	var mu sync.Mutex
	acked := map[int32][]string{} // in order of acknowledgement, per partition
	var stop atomic.Bool
	var wg sync.WaitGroup
	enough := make(chan struct{})
	var total atomic.Int64
	for w := range producers {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				p := int32((w + i) % partitions)
				v := fmt.Sprintf("%d-%d", w, i)
				if res := r.produce(-1, tpID("t", id, p), batchOf(t, 1, v)); res.Err == nil {
					mu.Lock()
					acked[p] = append(acked[p], v)
					mu.Unlock()
					if total.Add(1) == 100+int64(seed)*7 {
						close(enough)
					}
				}
			}
		})
	}
	<-enough
	mu.Lock() // what is noted now was acknowledged before the cut
	before := map[int32][]string{}
	for p, vs := range acked {
		before[p] = slices.Clone(vs)
	}
	mu.Unlock()
	image := mem.CrashClone(vfs.CrashOptions{UnsyncedPercent: percent, Seed: seed})
	stop.Store(true)
	wg.Wait()
	im, offset := r.im, r.offset
	r.stop(false)

	r2 := newRig(t, image).start()
	defer r2.stop(true)
	r2.im, r2.offset = im, offset
	r2.replayAll()
	for p := range int32(partitions) {
		tp := tpID("t", id, p)
		got := r2.readAll(tp)
		checkKept(t, p, before[p], got)
		r2.changeLeader(id, p, self)
		r2.mustProduce(-1, tp, batchOf(t, 1, "again"))
	}
}

// checkKept wants every acknowledged value once, in order of the log.
func checkKept(t *testing.T, p int32, acked, got []string) {
	t.Helper()
	seen := map[string]int{}
	for i, v := range got {
		if _, twice := seen[v]; twice {
			t.Fatalf("partition %d has %s twice", p, v)
		}
		seen[v] = i
	}
	for _, v := range acked {
		if _, ok := seen[v]; !ok {
			t.Fatalf("partition %d lost the acknowledged %s (%d acknowledged, %d found)", p, v, len(acked), len(got))
		}
	}
}

// TestStress produces, fetches, deletes records, changes leaders and deletes
// topics at the same time; run it with -race.
func TestStress(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	cfg := config.DefaultTopicConfig()
	cfg.SegmentBytes = 4096
	cfg.Durability = config.Replicated
	r.cfg["fast"] = cfg
	r.start()
	defer r.stop(true)
	const partitions, rounds = 3, 150
	r.topic("fast", topicID(1), partitions, 0)
	r.topic("safe", topicID(2), partitions, 0)
	ids := map[string]types.UUID{"fast": topicID(1), "safe": topicID(2)}
	var wg sync.WaitGroup
	var stop atomic.Bool
	for topic, id := range ids {
		for p := range int32(partitions) {
			wg.Go(func() { stressProducer(t, r, tpID(topic, id, p), rounds) })
		}
		var readers sync.WaitGroup
		for p := range int32(partitions) {
			readers.Go(func() { stressReader(t, r, tpID(topic, id, p), &stop) })
		}
		defer readers.Wait()
	}
	wg.Go(func() {
		for range 20 {
			for p := range int32(partitions) {
				r.changeLeader(topicID(2), p, self) // leader epochs go up, the reign goes on
			}
		}
	})
	wg.Go(func() {
		for range rounds {
			ch := make(chan struct{})
			r.m.DeleteRecords(&DeleteRecordsInput{TimeoutMs: 1000, Partitions: []DeleteRecordsPartition{
				{TP: types.TopicPartition{Topic: "fast"}, Offset: -1},
			}}, func(res []DeleteRecordsResult) {
				if res[0].Code != kerrors.None {
					t.Error(res[0].Code)
				}
				close(ch)
			})
			<-ch
		}
	})
	wg.Wait()
	stop.Store(true)
}

func stressProducer(t *testing.T, r *rig, tp types.TopicIDPartition, rounds int) {
	last := int64(-1)
	for i := range rounds {
		res := r.produce([]int16{-1, 1, -1}[i%3], tp, batchOf(t, 1, number(i), number(i)))
		if res.Err != nil {
			t.Errorf("%v: %v", tp, res.Err)
			return
		}
		if res.BaseOffset <= last {
			t.Errorf("%v: offset %d after %d", tp, res.BaseOffset, last)
		}
		last = res.BaseOffset
	}
}

func stressReader(t *testing.T, r *rig, tp types.TopicIDPartition, stop *atomic.Bool) {
	next, hw := int64(0), int64(0)
	for !stop.Load() {
		res := r.fetchAll(consumerFetch(20, fetchPart(tp, next)))[0]
		switch res.Code() {
		case kerrors.None:
			if res.HighWatermark < hw {
				t.Errorf("%v: high watermark %d after %d", tp, res.HighWatermark, hw)
			}
			hw = res.HighWatermark
			if res.LogStartOffset > next {
				next = res.LogStartOffset
			}
			next += int64(len(r.values(&res))) // single-record skew below the start is fine here
			next = min(next, hw)
		case kerrors.OffsetOutOfRange:
			next = hw
		default:
			t.Errorf("%v: %v", tp, res.Code())
			return
		}
	}
}

// TestDiskFullAtCreation: a topic that is made, and a leader that is elected,
// while the disk is full serve once there is space, without a restart.
func TestDiskFullAtCreation(t *testing.T) {
	full := errfs.NoSpace()
	r := newRig(t, errfs.Wrap(vfs.NewMem(), errfs.Hooks{Before: full.Before})).start()
	defer r.stop(true)
	r.topic("old", topicID(1), 1, 0)
	r.mustProduce(-1, tpID("old", topicID(1), 0), batchOf(t, 1, "a"))
	full.Fill()
	r.topic("new", topicID(2), 1, 0)
	r.changeLeader(topicID(1), 0, self)
	for _, tp := range []types.TopicIDPartition{tpID("old", topicID(1), 0), tpID("new", topicID(2), 0)} {
		if got := r.produce(-1, tp, batchOf(t, 1, "b")); kerrors.CodeOf(got.Err) != kerrors.KafkaStorageError {
			t.Fatalf("%v on a full disk: %v", tp, got.Err)
		}
	}
	full.Off()
	r.m.retryMissing()
	for _, tp := range []types.TopicIDPartition{tpID("old", topicID(1), 0), tpID("new", topicID(2), 0)} {
		r.mustProduce(-1, tp, batchOf(t, 1, "c"))
	}
	if got := r.readAll(tpID("old", topicID(1), 0)); !slices.Equal(got, []string{"a", "c"}) {
		t.Fatalf("old holds %q", got)
	}
	got := r.m.OffsetsForLeaderEpoch([]EpochEndInput{{TP: types.TopicPartition{Topic: "old"}, CurrentLeaderEpoch: -1, LeaderEpoch: 0}})[0]
	if got.LeaderEpoch != 0 || got.EndOffset != 1 {
		t.Fatalf("epoch 0 ends at %+v", got)
	}
}
