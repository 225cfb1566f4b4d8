package drill

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRebalance runs the whole drill on a fake cluster; what real brokers answer
// is in test/groups.
func TestRebalance(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond), kfake.BrokerConfigs(map[string]string{
		"group.consumer.session.timeout.ms": "4000", "group.consumer.heartbeat.interval.ms": "100",
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := Defaults()
	o.Bootstrap = c.ListenAddrs()
	o.Members, o.Partitions, o.Rate = 2, 6, 100
	// Long enough that no live member is expelled when the machine stands still.
	o.Session, o.Heartbeat, o.Settle = 4*time.Second, 100*time.Millisecond, 300*time.Millisecond
	o.Progress = t.Logf
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	res, err := Rebalance(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Protocols) != 3 {
		t.Fatalf("%d protocols", len(res.Protocols))
	}
	for _, p := range res.Protocols {
		if p.Missed != 0 || p.ProduceErrors != 0 || p.Produced == 0 || len(p.Events) != 3 {
			t.Errorf("%s: %+v", p.Protocol, p)
		}
		for _, e := range p.Events {
			if !e.Settled || e.Commits.Accepted == 0 {
				t.Errorf("%s %s: %+v", p.Protocol, e.Event, e)
			}
			if p.Protocol != Eager && e.KeptStopped > 0 {
				t.Errorf("%s %s: %d partitions stopped without moving: %+v", p.Protocol, e.Event, e.KeptStopped, e.Stops)
			}
		}
		if join := p.Events[0]; p.Protocol == Eager && join.StoppedPartitions != o.Partitions {
			t.Errorf("eager join stopped %d of %d partitions", join.StoppedPartitions, o.Partitions)
		}
	}
	wantClean(t, o.Bootstrap)
}

// wantClean: a drill leaves neither topic nor group behind.
func wantClean(t *testing.T, bootstrap []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topics, err := adm.ListTopics(ctx)
	if err != nil || len(topics) > 0 {
		t.Errorf("topics %v, %v", topics.Names(), err)
	}
	groups, err := adm.ListGroups(ctx)
	if err != nil || len(groups) > 0 {
		t.Errorf("groups %v, %v", groups.Groups(), err)
	}
}
