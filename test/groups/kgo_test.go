package groups

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// memberEnv names the protocol of a franz-go member; with it set this binary is
// such a member and no test.
const memberEnv = "TESTKIT_GROUPS_MEMBER"

func TestMain(m *testing.M) {
	if protocol := os.Getenv(memberEnv); protocol != "" {
		if err := kgoMember(protocol, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Groups wait for timers most of the time: more of them at once than there
	// are processors.
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// balance picks a protocol's options.
func balance(protocol string) []kgo.Opt {
	switch protocol {
	case "eager":
		return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}
	case "cooperative":
		return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	}
	return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
}

func kgoMember(protocol, bootstrap, topic, group, instance string) error {
	say := func(verb string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			fmt.Println(verb, strings.ReplaceAll(strings.Trim(fmt.Sprint(parts[topic]), "[]"), " ", ","))
		}
	}
	opts := append(balance(protocol),
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(4*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.OnPartitionsAssigned(say("assigned")), kgo.OnPartitionsRevoked(say("revoked")), kgo.OnPartitionsLost(say("lost")))
	if instance != "" {
		opts = append(opts, kgo.InstanceID(instance), kgo.SessionTimeout(staticSession))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) { fmt.Println("record", r.Partition, r.Offset) })
		commit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := cl.CommitRecords(commit, fetches.Records()...); err != nil {
			fmt.Fprintln(os.Stderr, "commit:", err)
		}
		cancel()
		cl.AllowRebalance()
	}
	cl.CloseAllowingRebalance()
	return nil
}
