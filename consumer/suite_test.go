package consumer

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// What Tidemark does not serve yet. A test that needs it says so when it leaves
// Tidemark out; the same test runs on Apache Kafka.
const (
	tidemarkServesGroups       = true
	tidemarkServesTransactions = false
)

// cluster is what the suite needs of a cluster.
type cluster struct {
	name  string
	seeds []string
	// transactions is whether producers may be transactional.
	transactions bool
	// restart stops and starts the broker, nil when it cannot.
	restart func()
}

// fake starts an in-process cluster that speaks the protocol.
func fake(t testing.TB, opts ...kfake.Opt) (*cluster, *kfake.Cluster) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &cluster{name: "kfake", seeds: c.ListenAddrs()}, c
}

// gate is a handler whose records can be held. A held record does not care about
// the end of its context: it is the hardest case.
type gate struct {
	mu       sync.Mutex
	held     map[string]chan struct{}
	started  seen
	finished seen
	outcome  func(Record) Outcome
}

func hold(values ...string) *gate {
	g := &gate{held: map[string]chan struct{}{}}
	for _, v := range values {
		g.held[v] = make(chan struct{})
	}
	return g
}

// handle is the Handler.
func (g *gate) handle(_ context.Context, r Record) Outcome {
	g.mu.Lock()
	ch := g.held[string(r.Value)]
	g.mu.Unlock()
	g.started.add(r.Value)
	if ch != nil {
		<-ch
	}
	out := Done
	if g.outcome != nil {
		out = g.outcome(r)
	}
	if out == Done {
		g.finished.add(r.Value)
	}
	return out
}

// free lets records go on; every test frees what it held.
func (g *gate) free(values ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(values) == 0 {
		for v := range g.held {
			values = append(values, v)
		}
	}
	for _, v := range values {
		if ch := g.held[v]; ch != nil {
			close(ch)
			delete(g.held, v)
		}
	}
}

// rehold holds a value again, for its next delivery.
func (g *gate) rehold(v string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[v] = make(chan struct{})
}

// The clusters that all tests of this package share, and how they end.
var (
	kafkaOnce, tidemarkOnce sync.Once
	kafkaNode, tidemarkNode *cluster
	atEnd                   []func()
)

// lasting is a testing.TB whose clean-ups run when the whole package is done: one
// server of each kind serves every test of it.
type lasting struct {
	testing.TB
}

func (l lasting) Cleanup(fn func()) { atEnd = append(atEnd, fn) }

func (l lasting) TempDir() string {
	dir, err := os.MkdirTemp("", "consumer-suite-")
	if err != nil {
		l.Fatal(err)
	}
	atEnd = append(atEnd, func() { os.RemoveAll(dir) })
	return dir
}

// Failed is false: a test that is over cannot log for a server that goes on.
func (l lasting) Failed() bool { return false }

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	code := m.Run()
	for i := len(atEnd) - 1; i >= 0; i-- {
		atEnd[i]()
	}
	os.Exit(code)
}

// kafka is the shared Apache Kafka of this package's tests.
func kafka(t testing.TB) *cluster {
	t.Helper()
	testkit.NeedJava(t)
	kafkaOnce.Do(func() {
		k := testkit.StartKafka(lasting{t}, "group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
			"group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=6000", "group.consumer.heartbeat.interval.ms=1000",
			"group.consumer.min.heartbeat.interval.ms=500", "log.retention.check.interval.ms=500")
		kafkaNode = &cluster{name: "kafka", seeds: []string{k.Bootstrap()}, transactions: true, restart: k.Restart}
	})
	if kafkaNode == nil {
		t.Fatal("Apache Kafka did not start")
	}
	return kafkaNode
}

// tidemark is the shared Tidemark server of this package's tests.
func tidemark(t testing.TB) *cluster {
	t.Helper()
	tidemarkOnce.Do(func() {
		s := testkit.StartServer(lasting{t}, "", "--set", "group.initial.rebalance.delay.ms=0", "--set", "group.min.session.timeout.ms=1000",
			"--set", "group.consumer.min.session.timeout.ms=1000", "--set", "group.consumer.session.timeout.ms=6000",
			"--set", "group.consumer.min.heartbeat.interval.ms=500", "--set", "group.consumer.heartbeat.interval.ms=1000")
		tidemarkNode = &cluster{name: "tidemark", seeds: []string{s.Bootstrap()}, transactions: tidemarkServesTransactions, restart: s.Restart}
	})
	if tidemarkNode == nil {
		t.Fatal("Tidemark did not start")
	}
	return tidemarkNode
}

// everywhere runs a test on every cluster of the suite.
func everywhere(t *testing.T, fn func(t *testing.T, cl *cluster)) {
	t.Helper()
	t.Run("kafka", func(t *testing.T) { fn(t, kafka(t)) })
	if tidemarkServesGroups {
		t.Run("tidemark", func(t *testing.T) { fn(t, tidemark(t)) })
	}
}

// needTransactions leaves a cluster out that does not serve them.
func (cl *cluster) needTransactions(t testing.TB) {
	t.Helper()
	if !cl.transactions {
		t.Skipf("%s does not serve transactions yet: this runs on Apache Kafka only", cl.name)
	}
}

// protocols runs a test under every group protocol.
func protocols(t *testing.T, cl *cluster, fn func(t *testing.T, p Protocol)) {
	t.Helper()
	for name, p := range map[string]Protocol{"cooperative": ProtocolCooperative, "eager": ProtocolEager, "consumer": ProtocolConsumer} {
		t.Run(name, func(t *testing.T) { fn(t, p) })
	}
}

var names struct {
	sync.Mutex
	n int
}

// unique returns a topic or group name of its own.
func unique(t testing.TB, kind string) string {
	names.Lock()
	defer names.Unlock()
	names.n++
	base := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	if len(base) > 120 {
		base = base[len(base)-120:]
	}
	return fmt.Sprintf("%s-%s-%d", kind, base, names.n)
}

// client is a client for the test's own use.
func (cl *cluster) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cl.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (cl *cluster) admin(t testing.TB) *kadm.Client { return kadm.NewClient(cl.client(t)) }

// topic makes a topic.
func (cl *cluster) topic(t testing.TB, partitions int32, configs ...string) string {
	t.Helper()
	m := map[string]*string{}
	for i := 0; i+1 < len(configs); i += 2 {
		m[configs[i]] = &configs[i+1]
	}
	name := unique(t, "t")
	adm := cl.admin(t)
	if _, err := adm.CreateTopic(ctxOf(t), partitions, 1, m, name); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new topic has leaders", func() bool {
		offs, err := adm.ListEndOffsets(ctxOf(t), name)
		return err == nil && offs.Error() == nil && len(offs[name]) == int(partitions)
	})
	return name
}

// produce writes n records to a partition, keys k<i mod keys> (0: no key), values
// the running number, and returns the last offset.
func (cl *cluster) produce(t testing.TB, topic string, partition int32, from, n, keys int, opts ...kgo.Opt) int64 {
	t.Helper()
	kc := cl.client(t, append([]kgo.Opt{kgo.ProducerLinger(0)}, opts...)...)
	var rs []*kgo.Record
	for i := from; i < from+n; i++ {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(fmt.Sprint(i))}
		if keys > 0 {
			r.Key = []byte(fmt.Sprintf("k%d", i%keys))
		}
		rs = append(rs, r)
	}
	res := kc.ProduceSync(ctxOf(t), rs...)
	if err := res.FirstErr(); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		return -1
	}
	return res[len(res)-1].Record.Offset
}

// committed is the group's committed offset, Absent without one.
func (cl *cluster) committed(t testing.TB, group, topic string, partition int32) (int64, string) {
	t.Helper()
	rs, err := cl.admin(t).FetchOffsets(ctxOf(t), group)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := rs.Lookup(topic, partition)
	if !ok || o.At < 0 {
		return Absent, ""
	}
	return o.At, o.Metadata
}

// ctxOf ends with the test.
func ctxOf(t testing.TB) context.Context { return t.Context() }

// patience bounds every wait of the suite: a condition, never a measurement.
const patience = 60 * time.Second

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !within(patience, ok) {
		t.Fatalf("waited %v in vain: %s", patience, what)
	}
}

// within looks for a condition until it is there or the time is over; it is the
// only place of the suite that sleeps for want of anything else to wait for.
func within(d time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// events collects what a consumer reports.
type events struct {
	sync.Mutex
	all []Event
}

func (e *events) add(ev Event) {
	e.Lock()
	defer e.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) count(kind EventKind) (n int) {
	e.Lock()
	defer e.Unlock()
	for _, ev := range e.all {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

func (e *events) of(kind EventKind) (out []Event) {
	e.Lock()
	defer e.Unlock()
	for _, ev := range e.all {
		if ev.Kind == kind {
			out = append(out, ev)
		}
	}
	return out
}

// config is a consumer's configuration for tests: short times, no log output.
func (cl *cluster) config(group string, topics ...string) Config {
	return Config{
		Brokers: cl.seeds, Group: group, Topics: topics,
		Concurrency: 16, FetchWait: 50 * time.Millisecond, CommitInterval: 50 * time.Millisecond, HeartbeatInterval: 200 * time.Millisecond,
		SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second, DrainTimeout: 5 * time.Second,
		RetryBackoff: 10 * time.Millisecond, RetryBackoffMax: 100 * time.Millisecond,
		Logger:  slog.New(slog.NewTextHandler(io.Discard, nil)),
		Options: []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.DisableClientMetrics()},
	}
}

// start opens a consumer, closes it with the test, and returns it with its events.
func start(t testing.TB, cfg Config, h Handler) (*Consumer, *events) {
	t.Helper()
	ev := &events{}
	if cfg.Events == nil {
		cfg.Events = ev.add
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	if err := c.Handle(h); err != nil {
		t.Fatal(err)
	}
	return c, ev
}

func stop(t testing.TB, c *Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = c.Close(ctx)
}

// lineOf returns the line of one partition, false while it is not assigned.
func lineOf(t testing.TB, c *Consumer, topic string, partition int32) (Line, bool) {
	t.Helper()
	lines, err := c.Line(context.Background())
	if err != nil {
		t.Logf("line: %v", err)
		return Line{}, false
	}
	for _, ln := range lines {
		if ln.Topic == topic && ln.Partition == partition {
			return ln, true
		}
	}
	return Line{}, false
}

// seen counts deliveries by value.
type seen struct {
	sync.Mutex
	n map[string]int
}

func (s *seen) add(v []byte) {
	s.Lock()
	defer s.Unlock()
	if s.n == nil {
		s.n = map[string]int{}
	}
	s.n[string(v)]++
}

func (s *seen) distinct() int {
	s.Lock()
	defer s.Unlock()
	return len(s.n)
}

func (s *seen) of(v string) int {
	s.Lock()
	defer s.Unlock()
	return s.n[v]
}

func (s *seen) repeated() (out []string) {
	s.Lock()
	defer s.Unlock()
	for v, n := range s.n {
		if n > 1 {
			out = append(out, v)
		}
	}
	return out
}
