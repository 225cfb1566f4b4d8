package replica

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/partition"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// TestR1_Divergence holds what a leader tells a diverged follower against the
// rules of KIP-101, KIP-279, KIP-320 and KIP-595: the largest epoch not above
// the follower's, and where it ends. The leader's history is
//
//	epoch 0: [0, 5)   epoch 2: empty   epoch 4: [5, 9)   epoch 8: [9, 12)
func TestR1_Divergence(t *testing.T) {
	r := newRig(t, vfs.NewMem()).start()
	defer r.stop(true)
	id := topicID(1)
	r.topic("t", id, 1, 0)
	tp := tpID("t", id, 0)
	add := func(n int) {
		for range n {
			r.mustProduce(-1, tp, batchOf(t, 1, "x"))
		}
	}
	elect := func(times int) {
		for i := range times {
			r.changeLeader(id, 0, []int32{-1, self}[i%2])
		}
	}
	add(5)
	elect(2) // epoch 2, nothing written
	elect(2) // epoch 4
	add(4)
	elect(4) // epoch 8, with one without writes before it
	add(3)
	for _, tc := range []struct {
		what   string
		epoch  int32
		offset int64
		want   string
	}{
		{"in step", 8, 12, "ok"},
		{"behind in the newest epoch", 8, 10, "ok"},
		{"behind in an old epoch", 0, 3, "ok"},
		{"at the end of an old epoch", 4, 9, "ok"},
		{"longer in the same epoch", 4, 11, "diverging 4 ends at 9"},
		{"longer in the first epoch", 0, 7, "diverging 0 ends at 5"},
		{"an epoch that this leader never had", 5, 11, "diverging 4 ends at 9"},
		{"an epoch without writes here", 2, 5, "diverging 0 ends at 5"},
		{"an epoch without writes here, and longer", 2, 8, "diverging 0 ends at 5"},
		{"an epoch between, no offset beyond", 3, 4, "diverging 0 ends at 5"},
		{"an epoch above the leader's", 9, 12, "OFFSET_OUT_OF_RANGE"},
		{"past the end in the newest epoch", 8, 20, "diverging 8 ends at 12"},
	} {
		p := fetchPart(tp, tc.offset)
		p.LastFetchedEpoch, p.CurrentLeaderEpoch = tc.epoch, 8
		res := r.fetchAll(consumerFetch(0, p))[0]
		got := "ok"
		switch {
		case res.ErrorCode != 0:
			got = res.Code().Name()
		case res.DivergingEpoch != nil:
			got = fmt.Sprintf("diverging %d ends at %d", res.DivergingEpoch.Epoch, res.DivergingEpoch.EndOffset)
			if res.Records.SizeBytes() != 0 {
				t.Errorf("%s: records with a diverging epoch", tc.what)
			}
		}
		res.Records.Release()
		if got != tc.want {
			t.Errorf("%s (epoch %d, offset %d): %s, want %s", tc.what, tc.epoch, tc.offset, got, tc.want)
		}
	}
	// Below the log start is out of range whether it diverges or not.
	if err := r.m.table.Load().get("t", 0).view.Load().log.IncrementLogStartOffset(6); err != nil {
		t.Fatal(err)
	}
	p := fetchPart(tp, 3)
	p.LastFetchedEpoch = 0
	if res := r.fetchAll(consumerFetch(0, p))[0]; res.Code() != kerrors.OffsetOutOfRange {
		t.Errorf("below the log start: %+v", res.FetchPartition)
	}
}

// controller is a fake that answers proposals by hand.
type controller struct {
	asked chan partition.AlterPartition
	done  func(partition.AlterResult)
}

func (c *controller) AlterPartition(_ types.TopicIDPartition, a partition.AlterPartition, done func(partition.AlterResult)) {
	c.done = done
	c.asked <- a
}

// TestKIP497_ISRExpandAndShrink runs a proposal each way through the manager.
func TestKIP497_ISRExpandAndShrink(t *testing.T) {
	r := newRig(t, vfs.NewMem())
	ctl := &controller{asked: make(chan partition.AlterPartition, 10)}
	var now atomic.Int64
	now.Store(1_000_000)
	r.opts.Controller, r.opts.NowMs = ctl, now.Load
	r.start()
	defer r.stop(true)
	id := topicID(1)
	r.apply(
		&recordschema.RegisterBrokerRecord{BrokerID: 1, BrokerEpoch: 11, LogDirs: []types.UUID{{9}}},
		&recordschema.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: 22, LogDirs: []types.UUID{{8}}},
		&recordschema.TopicRecord{Name: "t", TopicID: id},
		&recordschema.PartitionRecord{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1, PartitionEpoch: 3,
			Directories: []types.UUID{types.UnassignedDir, types.UnassignedDir}})
	tp := tpID("t", id, 0)
	r.mustProduce(1, tp, batchOf(t, 1, "x"))
	follow := func(offset int64) FetchResult {
		in := consumerFetch(0, fetchPart(tp, offset))
		in.ReplicaID, in.ReplicaEpoch, in.Partitions[0].LogStartOffset = 2, 22, 0
		res := r.fetchAll(in)[0]
		res.Records.Release()
		return res
	}
	if res := follow(1); res.ErrorCode != 0 {
		t.Fatal(res.Code())
	}
	want := partition.AlterPartition{Token: 1, PartitionEpoch: 3, ISR: []partition.ISRMember{{ID: 1, BrokerEpoch: 11}, {ID: 2, BrokerEpoch: 22}}, Recovered: true}
	if d := cmp.Diff(want, <-ctl.asked); d != "" {
		t.Fatal(d)
	}
	ctl.done(partition.AlterResult{Token: 1, PartitionEpoch: 4, ISR: []int32{1, 2}})
	acked := make(chan []ProduceResult, 1)
	r.m.Produce(&ProduceInput{Acks: -1, TimeoutMs: 60_000, Version: 9, Partitions: []ProducePartition{{TP: tp, Records: batchOf(t, 1, "y")}}},
		func(res []ProduceResult) { acked <- res })
	if len(acked) != 0 {
		t.Fatal("acknowledged without the follower")
	}
	now.Add(40_000) // the follower is silent for longer than the lag limit
	r.m.shrinkISRs()
	a := <-ctl.asked
	if len(a.ISR) != 1 || a.PartitionEpoch != 4 {
		t.Fatalf("%+v", a)
	}
	ctl.done(partition.AlterResult{Token: a.Token, PartitionEpoch: 5, ISR: []int32{1}})
	if res := <-acked; res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	if end := r.fetchAll(consumerFetch(0, fetchPart(tp, 0)))[0]; end.HighWatermark != 2 {
		t.Fatalf("high watermark %d", end.HighWatermark)
	} else {
		end.Records.Release()
	}
}
