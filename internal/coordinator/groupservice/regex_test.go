package groupservice

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// TestRegexIsResolvedBesideTheShard: while all that may look at expressions are
// busy the shard answers, and the member gets its partitions when they are not.
func TestRegexIsResolvedBesideTheShard(t *testing.T) {
	n := startNode(t, vfs.NewMem(), 1)
	defer n.stop(true)
	n.publish(2, topicRecords("t", types.UUID{1}, 0, 3)...)
	for range maxResolving {
		n.s.resolving <- struct{}{}
	}
	beat := func(epoch int32) (int32, int) {
		t.Helper()
		for {
			req := consumerRequest("m", epoch)
			if epoch == 0 {
				regex := "t|u"
				req.SubscribedTopicNames, req.SubscribedTopicRegex = nil, &regex
			}
			r := n.s.ConsumerHeartbeat(context.Background(), req, "c", "/h")
			switch kerrors.Code(r.ErrorCode) {
			case kerrors.None:
				partitions := 0
				if r.Assignment != nil {
					for _, at := range r.Assignment.Topics {
						partitions += len(at.Partitions)
					}
				}
				return r.MemberEpoch, partitions
			case kerrors.CoordinatorLoadInProgress:
				time.Sleep(time.Millisecond)
			default:
				t.Fatal(kerrors.Code(r.ErrorCode))
			}
		}
	}
	epoch, got := beat(0)
	if got != 0 {
		t.Fatalf("%d partitions before anybody looked", got)
	}
	if _, got = beat(epoch); got != 0 {
		t.Fatalf("%d partitions before anybody looked", got)
	}
	for range maxResolving {
		<-n.s.resolving
	}
	for deadline := time.Now().Add(time.Minute); got == 0; time.Sleep(time.Millisecond) {
		if epoch, got = beat(epoch); time.Now().After(deadline) {
			t.Fatal("the expression is not resolved")
		}
	}
	if got != 3 {
		t.Fatalf("%d partitions of 3", got)
	}
}
