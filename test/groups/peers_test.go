package groups

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// patience bounds every wait: a group that has not come to rest by then will
// not without a human.
const patience = 90 * time.Second

// props make groups quick on both brokers; the rules stay the same.
var props = []string{
	"group.initial.rebalance.delay.ms=100", "group.min.session.timeout.ms=500",
	"group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=4000",
	"group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=500",
	"offsets.topic.num.partitions=4",
}

// peer is one of the brokers that a scenario runs against.
type peer struct {
	name      string
	bootstrap string
}

func startTidemark(t *testing.T) (*testkit.Server, peer) {
	t.Helper()
	args := []string{"--set", "node.id=1"}
	for _, p := range props {
		args = append(args, "--set", p)
	}
	s := testkit.StartServer(t, "", args...)
	return s, peer{"tidemark", s.Bootstrap()}
}

func startKafka(t *testing.T) peer {
	t.Helper()
	if b := os.Getenv("TESTKIT_GROUPS_BOOTSTRAP"); b != "" { // a node that is already up
		return peer{"kafka", b}
	}
	return peer{"kafka", testkit.StartKafka(t, props...).Bootstrap()}
}

// eachPeer runs a test on Tidemark, and on Apache Kafka where that is asked for.
func eachPeer(t *testing.T, run func(t *testing.T, p peer)) {
	t.Run("tidemark", func(t *testing.T) {
		if os.Getenv("TESTKIT_GROUPS_ONLY") == "kafka" {
			t.Skip("left out: TESTKIT_GROUPS_ONLY=kafka")
		}
		_, p := startTidemark(t)
		run(t, p)
	})
	t.Run("kafka", func(t *testing.T) {
		if os.Getenv("TESTKIT_GROUPS_KAFKA") == "" {
			t.Skip("left out: set TESTKIT_GROUPS_KAFKA=1 to run the clients on Apache Kafka as well")
		}
		run(t, startKafka(t))
	})
}

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// client connects in this process and closes with the test.
func client(t testing.TB, p peer, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.bootstrap)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

func admin(t testing.TB, p peer) *kadm.Client {
	t.Helper()
	return kadm.NewClient(client(t, p))
}

func createTopic(t testing.TB, p peer, topic string, partitions int32) {
	t.Helper()
	if r, err := admin(t, p).CreateTopic(deadline(t), partitions, 1, nil, topic); err != nil || r.Err != nil {
		t.Fatalf("create %s: %v, %v", topic, err, r.Err)
	}
}

// staticSession is how long static members have to come back: a JVM starts in
// it even on a busy machine.
const staticSession = 45 * time.Second

// groupSession sets the session timeout of a KIP-848 group, which lives on the
// broker.
func groupSession(t testing.TB, p peer, group string, d time.Duration) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	kv := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	kv.Name, kv.Value = "consumer.session.timeout.ms", kmsg.StringPtr(fmt.Sprint(d.Milliseconds()))
	res.Configs = append(res.Configs, kv)
	req.Resources = append(req.Resources, res)
	resp, err := req.RequestWith(deadline(t), client(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		t.Fatalf("session timeout of group %s: %v", group, err)
	}
}

// unique makes a topic and group name of a test's name; the process id keeps
// runs against a node that stays up apart.
func unique(t testing.TB) string {
	return strings.NewReplacer("/", "-", " ", "-", "_", "-").Replace(t.Name()) + "-" + fmt.Sprint(os.Getpid())
}

// wait polls until ok; what says what it waited for.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		<-tick.C
	}
}
