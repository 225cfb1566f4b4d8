package telemetry

import (
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// filled is a registry in which every metric has a value.
func filled() *Registry {
	r := New("1.2.3")
	r.Network().ConnOpened("PLAINTEXT")
	r.Network().ConnClosed("PLAINTEXT", "idle", true)
	r.Network().ConnClosed("PLAINTEXT", "max_connections_per_ip", false)
	r.Network().RequestDone(RequestSample{APIKey: 0, BytesIn: 100, BytesOut: 10, Wait: time.Millisecond})
	r.Network().RequestDone(RequestSample{APIKey: 0, ErrorCode: 19})
	r.Network().RequestDone(RequestSample{APIKey: -5, ErrorCode: -1})
	r.Network().RequestDone(RequestSample{APIKey: 9999, ErrorCode: 9999})
	r.Panicked("handler")
	r.Storage().Synced(time.Millisecond, 3, nil)
	r.Storage().Synced(time.Millisecond, 3, errors.New("EIO"))
	r.Storage().MetadataSync(time.Millisecond)
	r.Storage().MetadataSyncFailed()
	r.Topics().Topic("orders").Appended(5, 500)
	r.Topics().Topic("orders").Fetched(250)
	r.Topics().Topic("orders").Refused()
	r.CollectSockets("broker", func() SocketStats {
		return SocketStats{RequestsInFlight: 2, RequestMemoryBytes: 512, RequestMemoryLimit: 1024}
	})
	r.CollectSockets("controller", func() SocketStats { return SocketStats{} })
	r.CollectTLS("SSL", func() TLSSample { return TLSSample{Expires: time.Unix(1800000000, 0), Reloaded: 2, Refused: 1} })
	r.CollectPurgatory("fetch", func() int { return 7 })
	r.CollectPurgatory("produce", func() int { return 0 })
	r.CollectMetadata(func() MetadataSample {
		return MetadataSample{AppliedOffset: 41, HighWatermark: 42, LogEndOffset: 43, Epoch: 2, LeaderID: 1, Active: true}
	})
	r.CollectCluster(func() []BrokerSample {
		return []BrokerSample{{ID: 1, Address: "127.0.0.1:9092"}, {ID: 2, Address: "127.0.0.1:9093", Fenced: true}}
	})
	r.CollectPartitions(func() iter.Seq[PartitionSample] {
		return slices.Values([]PartitionSample{
			{
				Topic: "orders", Partition: 0, Leader: 1, Replicas: []int32{1, 2}, InSync: 1, HasLog: true, LogStartOffset: 3,
				HighWatermark: 10, LastStableOffset: 9, LogEndOffset: 11, DurableEndOffset: 11, SizeBytes: 1234, NotDurableBytes: 5,
			},
			{Topic: "orders", Partition: 1, Leader: -1, Replicas: []int32{2}, InSync: 1},
			{Topic: "payments", Partition: 0, Leader: 2, Replicas: []int32{2}, InSync: 1},
		})
	})
	r.CollectGroups(func() iter.Seq[GroupSample] {
		return slices.Values([]GroupSample{{Group: "billing", Type: "consumer", State: "Stable", Epoch: 4, Members: 3, Rebalances: 2, StoppedSeconds: 1.5}})
	})
	return r
}

// TestEveryMetricIsInTheTable: what is exposed is documented, and the other way
// round.
func TestEveryMetricIsInTheTable(t *testing.T) {
	families, err := filled().Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range families {
		n := f.GetName()
		if !strings.HasPrefix(n, "go_") && !strings.HasPrefix(n, "process_") {
			got = append(got, n)
		}
	}
	for _, m := range table {
		want = append(want, m.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("table (-) and exposed (+) differ:\n%s", d)
	}
}

func TestValues(t *testing.T) {
	want := `
# HELP kafka_brokers Brokers that are registered and not fenced.
# TYPE kafka_brokers gauge
kafka_brokers 1
# HELP kafka_broker_info Always 1; one series a broker.
# TYPE kafka_broker_info gauge
kafka_broker_info{address="127.0.0.1:9092",id="1",rack=""} 1
# HELP kafka_topic_partitions Partitions of the topic.
# TYPE kafka_topic_partitions gauge
kafka_topic_partitions{topic="orders"} 2
kafka_topic_partitions{topic="payments"} 1
# HELP kafka_topic_partition_current_offset High watermark: the next offset consumers cannot read yet.
# TYPE kafka_topic_partition_current_offset gauge
kafka_topic_partition_current_offset{partition="0",topic="orders"} 10
# HELP kafka_topic_partition_under_replicated_partition 1 if fewer replicas are in sync than assigned.
# TYPE kafka_topic_partition_under_replicated_partition gauge
kafka_topic_partition_under_replicated_partition{partition="0",topic="orders"} 1
kafka_topic_partition_under_replicated_partition{partition="0",topic="payments"} 0
kafka_topic_partition_under_replicated_partition{partition="1",topic="orders"} 0
# HELP tidemark_acked_not_durable_bytes Bytes acknowledged that are not fsynced yet, over all partitions here. 0 in durability=strict.
# TYPE tidemark_acked_not_durable_bytes gauge
tidemark_acked_not_durable_bytes 5
# HELP tidemark_requests_total Requests, by API and by the error code they were answered with (NONE for success; for answers with several codes, the one the handler names).
# TYPE tidemark_requests_total counter
tidemark_requests_total{api="Produce",error="NONE"} 1
tidemark_requests_total{api="Produce",error="NOT_ENOUGH_REPLICAS"} 1
tidemark_requests_total{api="other",error="UNKNOWN_SERVER_ERROR"} 2
# HELP tidemark_topic_bytes_in_total Bytes of record batches appended by producers, as stored.
# TYPE tidemark_topic_bytes_in_total counter
tidemark_topic_bytes_in_total{topic="orders"} 500
`
	r := filled()
	err := testutil.GatherAndCompare(r.Gatherer(), strings.NewReader(want), "kafka_brokers", "kafka_broker_info",
		"kafka_topic_partitions", "kafka_topic_partition_current_offset", "kafka_topic_partition_under_replicated_partition",
		"tidemark_acked_not_durable_bytes", "tidemark_requests_total", "tidemark_topic_bytes_in_total")
	if err != nil {
		t.Error(err)
	}
	r.Topics().Forget("orders")
	if n, err := testutil.GatherAndCount(r.Gatherer(), "tidemark_topic_bytes_in_total"); err != nil || n != 0 {
		t.Errorf("%d series of a forgotten topic, %v", n, err)
	}
}

// TestNames: Prometheus' own naming rules, and no "lag", which means two things.
func TestNames(t *testing.T) {
	problems, err := testutil.GatherAndLint(filled().Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, m := range table {
		if slices.Contains(strings.Split(m.name, "_"), "lag") {
			t.Errorf("%s: say which distance", m.name)
		}
		if m.help == "" || !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: help %q is not a sentence", m.name, m.help)
		}
	}
}

func TestDocs(t *testing.T) {
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Markdown(), string(got)); d != "" {
		t.Errorf("docs/metrics.md is stale (run with -update):\n%s", d)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestAdmin(t *testing.T) {
	var failing sync.Map
	ln, err := ListenAdmin(":0")
	if err != nil {
		t.Fatal(err)
	}
	a := ServeAdmin(AdminOptions{Listener: ln, Registry: filled(), Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error {
		if _, ok := failing.Load("x"); ok {
			return errors.New("no commit")
		}
		return nil
	}})
	defer a.Close()
	if !strings.HasPrefix(a.Addr().String(), "127.0.0.1:") {
		t.Errorf("an address without a host bound %v", a.Addr())
	}
	base := "http://" + a.Addr().String()
	for path, want := range map[string]string{
		"/metrics": `kafka_topic_partitions{topic="orders"} 2`, "/healthz": "ok", "/readyz": "ready",
		"/debug/pprof/": "goroutine", "/": "/metrics",
	} {
		if code, body := get(t, base+path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.80q", path, code, body)
		}
	}
	if code, _ := get(t, base+"/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}
	if _, err := ListenAdmin(a.Addr().String()); err == nil {
		t.Error("a taken port was bound")
	}
	if _, err := ListenAdmin("nonsense"); err == nil {
		t.Error("nonsense was bound")
	}
	var none *Admin
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}

func TestPprofIsLocal(t *testing.T) {
	for _, c := range []struct {
		remote string
		option bool
		want   int
	}{{"127.0.0.1:5", false, 200}, {"[::1]:5", false, 200}, {"10.0.0.1:5", false, 403}, {"10.0.0.1:5", true, 200}} {
		mux := adminMux(AdminOptions{Registry: New("x"), RemotePprof: c.option})
		req := httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil)
		req.RemoteAddr = c.remote
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, req)
		if w.Code != c.want {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

// TestReadyProbe: probes do not pile up, their outcome is reused for a moment
// only, and failures and panics are said.
func TestReadyProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, outcome := 0, error(nil)
		p := &prober{probe: func(ctx context.Context) error {
			runs++
			time.Sleep(time.Second)
			if outcome == nil && runs == 3 {
				panic("boom")
			}
			return outcome
		}}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := p.ready(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if p.ready(); runs != 1 {
			t.Errorf("%d probes for 11 requests", runs)
		}
		outcome = errors.New("no commit")
		time.Sleep(time.Second)
		if err := p.ready(); !errors.Is(err, outcome) || runs != 2 {
			t.Errorf("%v after %d probes", err, runs)
		}
		outcome = nil
		time.Sleep(time.Second)
		if err := p.ready(); err == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("a probe that panics: %v", err)
		}
		stuck := &prober{probe: func(context.Context) error { time.Sleep(time.Hour); return nil }}
		if err := stuck.ready(); err == nil {
			t.Error("a probe that does not end counts as ready")
		}
		time.Sleep(2 * time.Hour)
	})
}

func BenchmarkRequestDone(b *testing.B) {
	n := New("x").Network()
	b.ReportAllocs()
	for b.Loop() {
		n.RequestDone(RequestSample{APIKey: 0, BytesIn: 100, BytesOut: 10, Handle: time.Millisecond})
	}
}
