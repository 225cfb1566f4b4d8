package survey_test

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/line"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// observed is a fake cluster that notes the order of requests and can fail those
// for log ends.
type observed struct {
	mu   sync.Mutex
	keys []int16
	fail bool
}

func (o *observed) see(req kmsg.Request) (kmsg.Response, error, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, req.Key())
	list, ok := req.(*kmsg.ListOffsetsRequest)
	if !ok || !o.fail || list.Topics[0].Partitions[0].Timestamp != -1 {
		return nil, nil, false
	}
	return testkit.FailedListing(list, kerr.UnknownServerError), nil, true
}

// TestCommittedBeforeEnds: read the other way round, a busy partition shows
// commits above its end (kafka_exporter#76, #287, #437). And an end that could
// not be read is absent, not 0 (keda#4098).
func TestCommittedBeforeEnds(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	at := kadm.Offsets{}
	at.Add(kadm.Offset{Topic: "orders", LeaderEpoch: -1})
	if err := adm.CommitAllOffsets(t.Context(), "g", at); err != nil {
		t.Fatal(err)
	}
	var o observed
	fake.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		return o.see(req)
	})
	read := func() line.Line {
		t.Helper()
		s := survey.New(cl, survey.Options{})
		g, err := s.Read(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		return s.Judge(t.Context(), &g, line.Options{})[0]
	}
	if l := read(); l.HighWatermark != boundary.At(0) || l.Committed != boundary.At(0) {
		t.Errorf("%+v", l)
	}
	fetched, listed := -1, -1
	for i, key := range o.keys {
		switch key {
		case (&kmsg.OffsetFetchRequest{}).Key():
			fetched = i
		case (&kmsg.ListOffsetsRequest{}).Key():
			if listed < 0 {
				listed = i
			}
		}
	}
	if fetched < 0 || listed < fetched {
		t.Errorf("commits were fetched at step %d, ends listed from step %d: %v", fetched, listed, o.keys)
	}
	o.mu.Lock()
	o.fail = true
	o.mu.Unlock()
	l := read()
	if l.HighWatermark.Present() || l.LastStable.Present() || l.Unread.Present() || l.LogStart != boundary.At(0) || len(l.Problems) != 2 {
		t.Errorf("ends that failed: %+v", l)
	}
	if l.Verdict.String() != "UNKNOWN" {
		t.Errorf("verdict %s", l.Verdict)
	}
}
