package group

import (
	"encoding/json"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestDeniedTopic: a topic that may not be described takes the rows of no other
// one away, its own numbers are absent and not 0, and the exit code says that
// something was not read.
func TestDeniedTopic(t *testing.T) {
	b := newBench(t)
	b.want(0, []string{"reset", "g", "--topic", "orders", "--topic", "stock", "--to", "start", "--execute"}, "moved 4 commits")
	cl := b.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders", "stock"), kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()))
	for n := 0; n < 20; { // until the member has its partitions
		n += cl.PollFetches(b.ctx()).NumRecords()
	}
	b.want(0, []string{"describe", "g"}, "stock           1          0          0         -        0")
	testkit.DenyTopic(t, b.fake, "stock")

	out := b.want(3, []string{"describe", "g", "--format", "json"}, "stock/0: TOPIC_AUTHORIZATION_FAILED")
	var got []description
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, p := range got[0].Partitions {
		seen[p.Topic]++
		switch {
		case p.Topic == "orders" && (p.LogEnd == nil || *p.LogEnd != 10 || p.Problem != ""):
			t.Errorf("orders: %+v", p)
		case p.Topic == "stock" && (p.LogStart != nil || p.LogEnd != nil || p.Problem == ""):
			t.Errorf("stock: %+v", p)
		}
	}
	if seen["orders"] != 2 || seen["stock"] != 2 {
		t.Errorf("rows: %v", seen)
	}
	b.want(3, []string{"offsets", "g"}, "orders          0          0")
	// A group that may not be described hides no other one.
	b.want(1, []string{"describe", "nobody", "g"}, "group g  classic", "nobody: GROUP_ID_NOT_FOUND")

	cl.CloseAllowingRebalance()
	b.want(0, []string{"reset", "g", "--topic", "orders", "--to", "@1000010", "--execute"}, "moved 2 commits")
	b.want(1, []string{"reset", "g", "--topic", "stock", "--to", "end"}, "TOPIC_AUTHORIZATION_FAILED")
	b.want(1, []string{"reset", "g", "--all-topics", "--to", "end"}, "stock-0: TOPIC_AUTHORIZATION_FAILED", "fix: leave it out with --topic")
}

// TestTimeNotRead: when the offset at a time cannot be read, nothing is moved. Going
// to the end instead would skip all records.
func TestTimeNotRead(t *testing.T) {
	b := newBench(t)
	b.want(0, []string{"reset", "g", "--topic", "orders", "--to", "start", "--execute"}, "moved 2 commits")
	b.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		list := req.(*kmsg.ListOffsetsRequest)
		if list.Topics[0].Partitions[0].Timestamp < 0 {
			return nil, nil, false
		}
		return testkit.FailedListing(list, kerr.UnknownServerError), nil, true
	})
	b.want(1, []string{"reset", "g", "--topic", "orders", "--to", "@1000010", "--execute"}, "UNKNOWN_SERVER_ERROR")
	b.want(0, []string{"offsets", "g"}, "orders          0          0", "orders          1          0")
}
