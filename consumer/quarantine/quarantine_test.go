package quarantine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRoundTrip(t *testing.T) {
	orig := []kgo.RecordHeader{{Key: "trace", Value: []byte("1")}, {Key: "trace", Value: nil}, {Key: "tm-event-id", Value: []byte("e-7")}}
	o := Origin{Topic: "orders", Partition: 3, Offset: 1 << 40, LeaderEpoch: 5, TimestampMs: 1796055153123, Group: "g", Attempts: 4, Reason: "no such order", QuarantinedMs: 1796055153999}
	headers := Append(orig, o)
	got, ok, err := Parse(headers)
	if diff := cmp.Diff(o, got); diff != "" || !ok || err != nil {
		t.Errorf("%v, %v\n%s", ok, err, diff)
	}
	if diff := cmp.Diff(orig, Strip(headers)); diff != "" {
		t.Errorf("the original headers changed:\n%s", diff)
	}
}

// TestLoopGuard: the redrive count survives redrive and a second quarantine, and
// nothing else of the first quarantine does (spring-projects/spring-kafka#1918).
func TestLoopGuard(t *testing.T) {
	headers := Append(nil, Origin{Topic: "a", Reason: "first"})
	for n := 1; n <= 3; n++ {
		headers = ForRedrive(headers)
		if Redrives(headers) != n || len(headers) != 1 {
			t.Fatalf("after redrive %d: %v", n, headers)
		}
		headers = Append(headers, Origin{Topic: "a", Reason: "again"})
		o, _, err := Parse(headers)
		if err != nil || o.Redrives != n || o.Reason != "again" {
			t.Fatalf("after quarantine %d: %+v, %v", n, o, err)
		}
	}
}

func TestParseForeign(t *testing.T) {
	if _, ok, err := Parse([]kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte("x")}, {Key: "tm-event-id", Value: []byte("e")}}); ok || err != nil {
		t.Errorf("foreign headers: %v, %v", ok, err)
	}
	if _, ok, err := Parse([]kgo.RecordHeader{{Key: HeaderTopic, Value: []byte("x")}, {Key: HeaderOffset, Value: []byte("x")}}); !ok || err == nil || !strings.Contains(err.Error(), HeaderOffset) {
		t.Errorf("a damaged header: %v, %v", ok, err)
	}
	if n := Redrives([]kgo.RecordHeader{{Key: HeaderRedriveCount, Value: []byte("-4")}}); n != 0 {
		t.Errorf("a negative count is %d", n)
	}
	long := Append(nil, Origin{Reason: strings.Repeat("x", 5000)})
	if o, _, _ := Parse(long); len(o.Reason) != maxReasonBytes {
		t.Errorf("the reason has %d bytes", len(o.Reason))
	}
}
