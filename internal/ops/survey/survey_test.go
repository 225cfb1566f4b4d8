package survey_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer"
	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/internal/ops/boundary"
	"github.com/tidemark-io/tidemark/internal/ops/effectsource"
	"github.com/tidemark-io/tidemark/internal/ops/line"
	"github.com/tidemark-io/tidemark/internal/ops/survey"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// The suite runs on a fake cluster in process, on Tidemark and on Apache Kafka.

// Group protocols of the library, by what the clusters serve.
var (
	classic = map[string]consumer.Protocol{"library": consumer.ProtocolCooperative}
	both    = map[string]consumer.Protocol{"library": consumer.ProtocolCooperative, "library848": consumer.ProtocolConsumer}
)

func TestFake(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	suite(t, c.ListenAddrs()[0], classic)
}

func TestTidemark(t *testing.T) { suite(t, testkit.StartServer(t, "").Bootstrap(), both) }

func TestKafka(t *testing.T) { suite(t, testkit.StartKafka(t).Bootstrap(), both) }

// cluster is a cluster with the topic orders: one partition, 200 records, a
// second apart, the last one written a moment ago.
type cluster struct {
	t    *testing.T
	cl   *kgo.Client
	adm  *kadm.Client
	addr string
	base time.Time // timestamp of record 0
}

func suite(t *testing.T, addr string, protocols map[string]consumer.Protocol) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	c := &cluster{t: t, cl: cl, adm: kadm.NewClient(cl), addr: addr, base: time.Now().Add(-200 * time.Second).Truncate(time.Millisecond)}
	if _, err := c.adm.CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		r := &kgo.Record{Topic: "orders", Key: []byte("k"), Timestamp: c.base.Add(time.Duration(i) * time.Second)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("Seed", func(t *testing.T) { c.in(t).seed() })
	t.Run("Foreign", func(t *testing.T) { c.in(t).foreign() })
	t.Run("Effects", func(t *testing.T) { c.in(t).effects() })
	for group, protocol := range protocols {
		t.Run(group, func(t *testing.T) { c.in(t).library(group, protocol) })
	}
	t.Run("LeftTopic", func(t *testing.T) { c.in(t).leftTopic() })
	t.Run("Nothing", func(t *testing.T) { c.in(t).nothing() })
	t.Run("Expired", func(t *testing.T) { c.in(t).expired() }) // last: it deletes records
}

func (c *cluster) in(t *testing.T) *cluster {
	d := *c
	d.t = t
	return &d
}

func (c *cluster) dial() []kgo.Opt { return []kgo.Opt{kgo.SeedBrokers(c.addr)} }

// commit sets a group's offset in orders-0.
func (c *cluster) commit(group string, at int64, b *beacon.Beacon) {
	c.t.Helper()
	text := ""
	if b != nil {
		b.AtMs, b.OldestOffset = time.Now().UnixMilli(), -1
		text = beacon.Encode(*b, beacon.DefaultLimit)
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "orders", Partition: 0, At: at, LeaderEpoch: -1, Metadata: text})
	if err := c.adm.CommitAllOffsets(c.t.Context(), group, offsets); err != nil {
		c.t.Fatal(err)
	}
}

// line reads the one line of a group.
func (c *cluster) line(group string, effects survey.EffectSource) line.Line {
	c.t.Helper()
	s := survey.New(c.cl, survey.Options{Dial: c.dial(), Effects: effects})
	g, err := s.Read(c.t.Context(), group)
	if err != nil {
		c.t.Fatal(err)
	}
	lines := s.Judge(c.t.Context(), &g, line.Options{})
	if len(lines) != 1 {
		c.t.Fatalf("%d lines: %+v", len(lines), lines)
	}
	return lines[0]
}

func (c *cluster) want(l line.Line, verdict string) {
	c.t.Helper()
	if l.Verdict.String() != verdict {
		c.t.Errorf("%s: %s, want %s\n%+v", l.Group, l.Verdict, verdict, l)
	}
}

// seed: the two examples of the requirement, over the wire. The age of what is
// unread is read from the record at the position.
func (c *cluster) seed() {
	c.commit("ahead", 180, &beacon.Beacon{Position: 200, Effect: 175})
	c.want(c.line("ahead", nil), "COMMIT-AHEAD 5, EFFECT-BEHIND 25")
	c.commit("unread", 180, &beacon.Beacon{Position: 180, Effect: 180})
	l := c.line("unread", nil)
	c.want(l, "UNREAD 20")
	if l.HighWatermark != boundary.At(200) || l.LastStable != boundary.At(200) || l.LogStart != boundary.At(0) {
		c.t.Errorf("ends %v %v %v", l.LogStart, l.LastStable, l.HighWatermark)
	}
	written := c.base.Add(180 * time.Second)
	age, ok := l.UnreadAgeMs.Get()
	if most := time.Since(written).Milliseconds(); !ok || age > most || age < most-60_000 {
		c.t.Errorf("age %v of a record written %v ago", l.UnreadAgeMs, time.Since(written))
	}
}

// foreign: a group without our library is UNKNOWN even when it has committed
// everything; what can be known is there.
func (c *cluster) foreign() {
	c.commit("foreign", 200, nil)
	l := c.line("foreign", nil)
	c.want(l, "UNKNOWN")
	if l.Committed != boundary.At(200) || l.Uncommitted != boundary.At(0) || l.Position.Present() || l.Effect.Present() || len(l.Unknown) == 0 {
		c.t.Errorf("%+v", l)
	}
}

func (c *cluster) effects() {
	path := filepath.Join(c.t.TempDir(), "effects.ndjson")
	var text strings.Builder
	for i := range 180 {
		if i != 175 {
			fmt.Fprintf(&text, "{\"topic\":\"orders\",\"partition\":0,\"offset\":%d,\"outcome\":\"done\"}\n", i)
		}
	}
	text.WriteString("\n{\"topic\":\"orders\",\"partition\":0,\"offset\":175,\"outcome\":\"retry\"}\n{\"topic\":\"other\",\"partition\":0,\"effect\":3}\n")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.commit("listed", 180, nil)
	source, err := effectsource.Open([]string{path}, effectsource.Options{Client: c.cl, Dial: c.dial()})
	if err != nil {
		c.t.Fatal(err)
	}
	l := c.line("listed", source)
	c.want(l, "COMMIT-AHEAD 5, UNKNOWN")
	if l.Effect != boundary.At(175) || l.EffectSource != "effects" {
		c.t.Errorf("%+v", l)
	}
	missing, err := effectsource.Open([]string{path + ".gone"}, effectsource.Options{Client: c.cl, Dial: c.dial()})
	if err != nil {
		c.t.Fatal(err)
	}
	l = c.line("listed", missing)
	if c.want(l, "UNKNOWN"); len(l.Problems) != 1 {
		c.t.Errorf("a source that cannot be read: %q", l.Problems)
	}
}

// library: a group of package consumer, first working and then stopped; its line
// stays.
func (c *cluster) library(group string, protocol consumer.Protocol) {
	done := make(chan struct{}, 300)
	cons, err := consumer.Open(consumer.Config{
		Brokers: []string{c.addr}, Group: group, Protocol: protocol, Topics: []string{"orders"},
		CommitInterval: 50 * time.Millisecond, BeaconInterval: 200 * time.Millisecond,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cons.Handle(func(context.Context, consumer.Record) consumer.Outcome { done <- struct{}{}; return consumer.Done }); err != nil {
		c.t.Fatal(err)
	}
	for range 200 {
		select {
		case <-done:
		case <-time.After(60 * time.Second):
			c.t.Fatal("the records did not come")
		}
	}
	if err := cons.Drain(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	l := c.line(group, nil)
	c.want(l, "IDLE")
	if l.Owner == "" || l.State != "Stable" {
		c.t.Errorf("owner %q, state %q", l.Owner, l.State)
	}
	if err := cons.Close(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	l = c.line(group, nil)
	c.want(l, "IDLE")
	if l.State != "Empty" {
		c.t.Errorf("state %q after the last member left", l.State)
	}
	names, err := survey.New(c.cl, survey.Options{}).Names(c.t.Context())
	if err != nil || !slices.Contains(names, group) || !slices.Contains(names, "foreign") {
		c.t.Errorf("groups %v, %v", names, err)
	}
}

// leftTopic: a group has commits in a topic that its members no longer read. The
// line stays, says so, and is not UNKNOWN for want of a beacon that nobody sends.
func (c *cluster) leftTopic() {
	if _, err := c.adm.CreateTopic(c.t.Context(), 1, 1, nil, "elsewhere"); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cl.ProduceSync(c.t.Context(), &kgo.Record{Topic: "elsewhere"}).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
	c.commit("mover", 180, &beacon.Beacon{Position: 200, Effect: 180, Running: 20})
	if l := c.line("mover", nil); l.Left {
		c.t.Errorf("a group without members has left nothing: %+v", l)
	}
	member, err := kgo.NewClient(append(c.dial(), kgo.ConsumerGroup("mover"), kgo.ConsumeTopics("elsewhere"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer member.CloseAllowingRebalance()
	for member.PollFetches(c.t.Context()).NumRecords() == 0 { // until it has the partition
		if err := c.t.Context().Err(); err != nil {
			c.t.Fatal(err)
		}
	}
	s := survey.New(c.cl, survey.Options{})
	g, err := s.Read(c.t.Context(), "mover")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, l := range s.Judge(c.t.Context(), &g, line.Options{}) {
		if left := l.Topic == "orders"; l.Left != left {
			c.t.Errorf("%s left: %v", l.Topic, l.Left)
		} else if left {
			c.want(l, "UNREAD 20")
		}
	}
	if len(g.Readings) != 2 {
		c.t.Errorf("%d lines", len(g.Readings))
	}
}

func (c *cluster) nothing() {
	g, err := survey.New(c.cl, survey.Options{}).Read(c.t.Context(), "nobody")
	if err != nil || len(g.Readings) != 0 {
		c.t.Errorf("%+v %v", g, err)
	}
	if _, err := g.Find("orders", 0); err == nil || !strings.Contains(err.Error(), "no commits") {
		c.t.Errorf("%v", err)
	}
	r, err := survey.Record(c.t.Context(), c.dial(), "orders", 0, 17)
	if err != nil || r.Offset != 17 || string(r.Key) != "k" {
		c.t.Errorf("%+v %v", r, err)
	}
}

func (c *cluster) expired() {
	c.commit("late", 50, nil)
	to := kadm.Offsets{}
	to.Add(kadm.Offset{Topic: "orders", Partition: 0, At: 100, LeaderEpoch: -1})
	if _, err := c.adm.DeleteRecords(c.t.Context(), to); err != nil {
		c.t.Fatal(err)
	}
	l := c.line("late", nil)
	c.want(l, "EXPIRED 50, UNKNOWN")
	if l.LogStart != boundary.At(100) {
		c.t.Errorf("log start %v", l.LogStart)
	}
}
