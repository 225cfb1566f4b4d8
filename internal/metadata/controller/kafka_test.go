package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
	"github.com/tidemark-io/tidemark/internal/types"
)

// besideKafka are requests that Apache Kafka and the core must answer alike,
// word for word. Each state builds on the ones before.
var besideKafka = []struct{ command, text string }{
	{"create", "n1"},
	{"create", "n1"},
	{"create", "n2 partitions=0\nn3 partitions=1 rf=5\nn5\nn5\nok cleanup.policy:compact retention.ms:5 min.insync.replicas:1"},
	{"create", "a partitions=-2\nb rf=0\nc rf=-2\nd retention.ms:\n\"\"\n.\n..\nbad/name\nn_6\n" + strings.Repeat("x", 250)},
	{"create", "n.6\nn_6"},
	{"create", "p assign=1 rf=1\nq assign=1 partitions=1\nr assign=0:1,0:1\ns assign=0:1,2:1\nt assign=1/1\nu assign=9\nv assign=1,1/2\nw assign=1,1"},
	{"create", "big partitions=10001\nsmall"},
	{"create", "big partitions=10000\nsmall"},
	{"create", "__cluster_metadata\nz1"},
	{"grow", "n1 2\nnosuch 4\nok 3\nz1 4 1,1\nw 3 9"},
	{"grow", "n1 4 1/1\nok 5 1,1\nn1 5"},
	{"delete", "nosuch\n#nosuch\n-\nn1 #n1\nok\nok\n#z1\n#z1"},
	{"delete", "#n1\nn1"},
	{"delete", "n1\n#w"},
	{"incremental", "topic/ok retention.ms+=5\ntopic/nosuch retention.ms=5\ntopic/a/b retention.ms=5"},
	{"incremental", "topic/ retention.ms=5\ngroup/ x=1\nodd/x x=1"},
	{"incremental", "broker/ min.insync.replicas-"},
	{"incremental", "broker/1 min.insync.replicas=1"},
	{"incremental", "broker/ min.insync.replicas=1"},
	{"incremental", "topic/ok no.such=1"},
	{"incremental", "topic/ok retention.ms=1 retention.ms-"},
	{"incremental", "topic/ok retention.ms=null"},
	{"incremental", "topic/ok cleanup.policy+=delete no.such-"},
	{"elect", "ok 0,9\nnosuch 0"},
	{"elect-unclean", "ok 0,9\nnosuch 0"},
	{"elect-odd", "ok 0"},
	{"features", "no.such 1"},
	{"features", "group.version 2"},
	{"features", "group.version -1"},
	{"features", "group.version 0"},
	{"features", "group.version 1 9"},
	{"features", "group.version 0 2"},
	{"features", "group.version 1"},
	{"features", "eligible.leader.replicas.version 0 2"},
	{"incremental", "broker/1 min.insync.replicas=1"},
	{"features", "eligible.leader.replicas.version 1"},
	{"incremental", "broker/1 min.insync.replicas=1"},
}

// TestBesideKafka asks Apache Kafka 4.3.1 and the core the same and compares
// codes and messages.
func TestBesideKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("comparison with Apache Kafka left out: -short")
	}
	kafka := testkit.StartKafka(t, "num.partitions=3")
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := newWorld(Options{NodeID: 1, ClusterID: "cluster", Configs: testSchema{}, DefaultNumPartitions: 3}, true)
	w.mustRegister(t, 1, "i")
	w.beat(t, 1)
	for _, c := range besideKafka {
		theirs, ours := bothRequests(t, cl, w, c.command, c.text)
		want, err := cl.Request(context.Background(), theirs)
		if err != nil {
			t.Fatalf("%s %q: %v", c.command, c.text, err)
		}
		got, records := w.answer(ours)
		if err := w.append(records); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(showResponse(want), showResponse(got)); d != "" {
			t.Errorf("%s %s (-kafka +ours):\n%s", c.command, c.text, d)
		}
	}
}

// bothRequests builds the request for each side: topic ids differ between them.
func bothRequests(t *testing.T, cl *kgo.Client, w *world, command, text string) (theirs, ours kmsg.Request) {
	t.Helper()
	switch command {
	case "create":
		return createRequest(text), createRequest(text)
	case "grow":
		return growRequest(text), growRequest(text)
	case "delete":
		return deleteRequest(text, func(name string) types.UUID {
				_, exists := w.core.Image().Topics.ByName(name)
				return kafkaTopicID(t, cl, name, exists)
			}),
			deleteRequest(text, func(name string) types.UUID {
				if topic, ok := w.core.Image().Topics.ByName(name); ok {
					return topic.ID
				}
				return id(name)
			})
	case "incremental":
		return incrementalRequest(text), incrementalRequest(text)
	case "elect", "elect-unclean", "elect-odd":
		kind := map[string]int8{"elect-unclean": 1, "elect-odd": 7}[command]
		return electRequest(text, kind), electRequest(text, kind)
	case "features":
		return featuresRequest(text), featuresRequest(text)
	}
	t.Fatalf("no command %q", command)
	return nil, nil
}

// kafkaTopicID looks a name up; a name that does not exist gives an id that does
// not either. The controller answers before its broker has heard of a new topic,
// so one that exists is asked for until it is shown.
func kafkaTopicID(t *testing.T, cl *kgo.Client, name string, exists bool) types.UUID {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		switch topicID := lookUp(t, cl, name); {
		case topicID != [16]byte{}:
			return topicID
		case !exists:
			return id(name)
		case time.Now().After(deadline):
			t.Fatalf("Kafka does not show topic %s", name)
		}
	}
}

func lookUp(t *testing.T, cl *kgo.Client, name string) types.UUID {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &name
	req.Topics = append(req.Topics, rt)
	resp, err := cl.Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.MetadataResponse).Topics[0].TopicID
}

func (w *world) answer(req kmsg.Request) (kmsg.Response, recs) {
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		r := w.core.CreateTopics(CreateTopicsInput{Req: req, NewID: w.newID})
		return r.Response, r.Records
	case *kmsg.CreatePartitionsRequest:
		r := w.core.CreatePartitions(CreatePartitionsInput{Req: req})
		return r.Response, r.Records
	case *kmsg.DeleteTopicsRequest:
		r := w.core.DeleteTopics(req)
		return r.Response, r.Records
	case *kmsg.IncrementalAlterConfigsRequest:
		r := w.core.IncrementalAlterConfigs(req)
		return r.Response, r.Records
	case *kmsg.ElectLeadersRequest:
		r := w.core.ElectLeaders(req)
		return r.Response, r.Records
	case *kmsg.UpdateFeaturesRequest:
		r := w.core.UpdateFeatures(req)
		return r.Response, r.Records
	}
	panic(fmt.Sprintf("no answer to %T", req))
}

// showResponse lists what must be equal, in an order of its own: Kafka's is that
// of a hash map, or shuffled.
func showResponse(resp kmsg.Response) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			add("%s: %s has id %v, %d partitions, rf %d, configs %d", t.Topic, codeLine(t.ErrorCode, t.ErrorMessage),
				t.TopicID != [16]byte{}, t.NumPartitions, t.ReplicationFactor, t.ConfigErrorCode)
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			add("%s: %s", t.Topic, codeLine(t.ErrorCode, t.ErrorMessage))
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			add("%s has id %v: %s", orNull(t.Topic), t.TopicID != [16]byte{}, codeLine(t.ErrorCode, t.ErrorMessage))
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, t := range r.Resources {
			add("%d/%s: %s", t.ResourceType, t.ResourceName, codeLine(t.ErrorCode, t.ErrorMessage))
		}
	case *kmsg.ElectLeadersResponse:
		add("%s", codeLine(r.ErrorCode, nil))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add("%s-%d: %s", t.Topic, p.Partition, codeLine(p.ErrorCode, p.ErrorMessage))
			}
		}
	case *kmsg.UpdateFeaturesResponse:
		add("%s", codeLine(r.ErrorCode, r.ErrorMessage))
		for _, t := range r.Results {
			add("%s: %s", t.Feature, codeLine(t.ErrorCode, t.ErrorMessage))
		}
	}
	slices.Sort(out)
	return out
}
