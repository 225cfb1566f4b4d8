package record

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestValidateAsKafka offers every batch of testdata/validate to a running
// Apache Kafka and compares its code with ours, or with the kafka= argument
// where we differ on purpose.
func TestValidateAsKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("comparison with Apache Kafka left out: -short")
	}
	k := newOracle(t, testkit.StartKafka(t).Bootstrap())
	var wrong []string // the harness stops at the first error of a case
	datadriven.RunTest(t, "testdata/validate", func(t *testing.T, d *datadriven.TestData) string {
		if skipOracle(d) {
			return d.Expected
		}
		nowMs := time.Now().UnixMilli()
		want, _, _ := strings.Cut(d.Expected, "\n")
		if strings.HasPrefix(want, "ok ") {
			want = "NONE"
		}
		if d.HasArg("kafka") {
			d.ScanArgs(t, "kafka", &want)
		}
		got := k.produce(t, k.topic(t, d), buildCase(t, d, nowMs))
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %v: Kafka answers %s, expected %s", d.Pos, d.CmdArgs, got, want))
		}
		return d.Expected
	})
	for _, w := range wrong {
		t.Error(w)
	}
}

// skipOracle says which cases cannot reach Kafka through a Produce request.
func skipOracle(d *datadriven.TestData) bool {
	return d.HasArg("origin") || d.HasArg("limit") || d.HasArg("segment") || d.HasArg("exact-clock")
}

type oracle struct {
	addr   string
	client *kgo.Client
	admin  *kadm.Client
	topics map[string]string // config -> topic
}

func newOracle(t *testing.T, addr string) *oracle {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &oracle{addr: addr, client: cl, admin: kadm.NewClient(cl), topics: map[string]string{}}
}

// topic returns a topic with the configuration that the case asks for.
func (k *oracle) topic(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	configs := map[string]*string{}
	for arg, key := range map[string]string{"before": "message.timestamp.before.max.ms", "after": "message.timestamp.after.max.ms", "max": "max.message.bytes", "target": "compression.type"} {
		if d.HasArg(arg) {
			var v string
			d.ScanArgs(t, arg, &v)
			if v == "none" {
				v = "uncompressed"
			}
			configs[key] = &v
		}
	}
	if d.HasArg("compacted") {
		v := "compact"
		configs["cleanup.policy"] = &v
	}
	if d.HasArg("append-time") {
		v := "LogAppendTime"
		configs["message.timestamp.type"] = &v
	}
	id := ""
	for _, key := range []string{"cleanup.policy", "message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "max.message.bytes", "compression.type"} {
		if v := configs[key]; v != nil {
			id += key + "=" + *v + ";"
		}
	}
	if name, ok := k.topics[id]; ok {
		return name
	}
	name := fmt.Sprintf("oracle-%d-%d", time.Now().UnixNano(), len(k.topics))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := k.admin.CreateTopic(ctx, 1, 1, configs, name); err != nil {
		t.Fatal(err)
	}
	k.topics[id] = name
	return name
}

// produce sends the records as they are and returns the name of the code.
func (k *oracle) produce(t *testing.T, topic string, c scriptCase) string {
	t.Helper()
	req := kmsg.NewProduceRequest()
	req.Version = c.opts.ProduceVersion
	req.Acks, req.TimeoutMillis = -1, 10000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = c.raw
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	for {
		resp := roundTrip(t, k.addr, &req)
		code := kerrors.Code(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		// A topic that was just created answers so until its leader is up.
		if code != kerrors.UnknownTopicOrPartition && code != kerrors.NotLeaderOrFollower {
			return code.Name()
		}
	}
}
