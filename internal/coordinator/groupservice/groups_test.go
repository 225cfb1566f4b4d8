package groupservice

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// publish applies metadata records to the replicas and the coordinator.
func (n *node) publish(offset int64, recs ...recordschema.MetadataRecord) {
	n.t.Helper()
	d := n.apply(recs...)
	n.im.Offset = offset
	n.s.OnMetadata(d, n.im)
}

func topicRecords(name string, id types.UUID, from, to int32) []recordschema.MetadataRecord {
	var recs []recordschema.MetadataRecord
	if from == 0 {
		recs = append(recs, &recordschema.TopicRecord{Name: name, TopicID: id})
	}
	for p := from; p < to; p++ {
		recs = append(recs, &recordschema.PartitionRecord{
			PartitionID: p, TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []types.UUID{types.UnassignedDir},
		})
	}
	return recs
}

func joinRequest(group, memberID string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 3, group, memberID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 30_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{1}
	req.Protocols = append(req.Protocols, p)
	return req
}

// join joins until the coordinator has loaded the group.
func (n *node) join(group, memberID string) *kmsg.JoinGroupResponse {
	n.t.Helper()
	for {
		ch := make(chan *kmsg.JoinGroupResponse, 1)
		n.s.JoinGroup(joinRequest(group, memberID), "c", "/h", func(r *kmsg.JoinGroupResponse) { ch <- r })
		select {
		case r := <-ch:
			if r.ErrorCode != int16(kerrors.CoordinatorLoadInProgress) {
				return r
			}
			time.Sleep(time.Millisecond)
		case <-time.After(time.Minute):
			n.t.Fatal("JoinGroup was not answered")
		}
	}
}

// TestParkedJoinIsAnswered: the initial rebalance ends by the runtime's own
// timer, and whoever waits when the shard moves away is told to look elsewhere.
func TestParkedJoinIsAnswered(t *testing.T) {
	n := startNode(t, vfs.NewMem(), 1)
	defer n.stop(true)
	first := n.join("g", "")
	if first.ErrorCode != 0 || first.Generation != 1 || first.LeaderID != first.MemberID {
		t.Fatalf("%+v", first)
	}
	answered := make(chan *kmsg.JoinGroupResponse, 1)
	n.s.JoinGroup(joinRequest("g", ""), "c", "/h", func(r *kmsg.JoinGroupResponse) { answered <- r })
	ctx := context.Background()
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.Generation = 4, "g", first.MemberID, 1
	for n.s.Heartbeat(ctx, beat).ErrorCode != int16(kerrors.RebalanceInProgress) {
		time.Sleep(time.Millisecond)
	}
	tp, err := n.s.shardOf("g")
	if err != nil {
		t.Fatal(err)
	}
	n.s.OnResigned(tp)
	select {
	case r := <-answered:
		if r.ErrorCode != int16(kerrors.NotCoordinator) {
			t.Fatalf("answered %v", kerrors.Code(r.ErrorCode))
		}
	case <-time.After(time.Minute):
		t.Fatal("the parked member was forgotten")
	}
	if code := n.s.Heartbeat(ctx, beat).ErrorCode; code != int16(kerrors.NotCoordinator) {
		t.Fatalf("heartbeat after the resignation: %v", kerrors.Code(code))
	}
}

// TestNewPartitionsAreNotSkipped: a group with commits on a topic has the start
// of its new partitions committed before any member can be given them.
func TestNewPartitionsAreNotSkipped(t *testing.T) {
	n := startNode(t, vfs.NewMem(), 1)
	defer n.stop(true)
	id := types.UUID{1}
	n.publish(2, topicRecords("t", id, 0, 2)...)
	if code := n.commit("g", "t", 0, 7); code != kerrors.None {
		t.Fatal(code)
	}
	n.publish(3, topicRecords("t", id, 2, 4)...)
	for deadline := time.Now().Add(time.Minute); n.fetch("g", "t", 3, true) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the start of the new partition is not committed")
		}
	}
	if at := n.fetch("g", "t", 0, true); at != 7 {
		t.Fatalf("the old partition is at %d", at)
	}
	if at := n.fetch("other", "t", 3, true); at != -1 {
		t.Fatalf("a group without commits is at %d", at)
	}
}

// TestGrownWhileNobodyLed: a topic grew and the coordinator died before it wrote
// what that means; the next one does, before any member can be given partitions.
func TestGrownWhileNobodyLed(t *testing.T) {
	fs, id := vfs.NewMem(), types.UUID{1}
	n := startNode(t, fs, 1, topicRecords("t", id, 0, 2)...)
	beat := func(epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
		for {
			r := n.s.ConsumerHeartbeat(context.Background(), consumerRequest("m", epoch), "c", "/h")
			if r.ErrorCode != int16(kerrors.CoordinatorLoadInProgress) {
				return r
			}
			time.Sleep(time.Millisecond)
		}
	}
	member := beat(0)
	if code := n.commitAs("m", member.MemberEpoch, "g", "t", 1, 7); code != kerrors.None {
		t.Fatal(code)
	}
	n.stop(false)
	n = startNode(t, fs, 2, topicRecords("t", id, 0, 3)...)
	defer n.stop(true)
	if r := beat(member.MemberEpoch); r.ErrorCode != 0 {
		t.Fatal(kerrors.Code(r.ErrorCode))
	}
	for p, want := range []int64{-1, 7, 0} {
		if at := n.fetch("g", "t", int32(p), true); at != want {
			t.Errorf("partition %d is at %d, want %d", p, at, want)
		}
	}
}

// TestGrownWhileNobodyLedNorRead: the same for a group without members, by the
// time that the metadata keeps with partitions that were added.
func TestGrownWhileNobodyLedNorRead(t *testing.T) {
	fs, id := vfs.NewMem(), types.UUID{1}
	n := startNode(t, fs, 1, topicRecords("t", id, 0, 2)...)
	for code := kerrors.Code(-1); code != kerrors.None; code = n.commit("g", "t", 1, 7) {
		time.Sleep(time.Millisecond)
	}
	n.stop(false)
	grown := topicRecords("t", id, 0, 3)
	grown[3].(*recordschema.PartitionRecord).GrownTimeMs = n.now.Add(1)
	n = startNode(t, fs, 2, grown...)
	defer n.stop(true)
	for p, want := range []int64{-1, 7, 0} {
		if at := n.fetch("g", "t", int32(p), true); at != want {
			t.Errorf("partition %d is at %d, want %d", p, at, want)
		}
	}
}

// consumerRequest is the heartbeat of a member; epoch 0 joins.
func consumerRequest(id string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, "g", id, epoch, -1
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return req
}

// BenchmarkService is heartbeats that change nothing, from eight connections, in
// a group of 1,000 members: shard, queue and answer included.
func BenchmarkService(b *testing.B) {
	t := b
	n := startNode(t, vfs.NewMem(), 1)
	defer n.stop(true)
	n.publish(2, topicRecords("t", types.UUID{1}, 0, 1000)...)
	ctx := context.Background()
	const members = 1000
	epochs := make([]int32, members)
	beat := func(i int, epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
		return n.s.ConsumerHeartbeat(ctx, consumerRequest(fmt.Sprint("m", i), epoch), "c", "/h")
	}
	for i := range members {
		for epochs[i] == 0 {
			epochs[i] = beat(i, 0).MemberEpoch
		}
	}
	var next atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				m := int(i) % members
				if r := beat(m, epochs[m]); r.ErrorCode == 0 {
					epochs[m] = r.MemberEpoch
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "heartbeats/s")
}
