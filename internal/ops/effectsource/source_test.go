package effectsource

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/consumer/effect"
	"github.com/tidemark-io/tidemark/consumer/quarantine"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestRuns: a set of ranges behaves as a set of numbers.
func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r runs
		model := map[int64]bool{}
		for _, o := range rapid.SliceOf(rapid.Int64Range(0, 40)).Draw(t, "offsets") {
			if err := r.add(o); err != nil {
				t.Fatal(err)
			}
			model[o] = true
		}
		for i := 1; i < len(r); i++ {
			if r[i].first <= r[i-1].last+1 {
				t.Fatalf("ranges touch: %v", r)
			}
		}
		for from := range int64(43) {
			want := from
			for model[want] {
				want++
			}
			if got := r.after(from); got != want {
				t.Fatalf("after(%d) = %d, want %d: %v", from, got, want, r)
			}
		}
	})
}

// cluster has the topic orders with two partitions.
type cluster struct {
	t    *testing.T
	addr string
	cl   *kgo.Client
	adm  *kadm.Client
}

func newCluster(t *testing.T) *cluster {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"), kfake.SeedTopics(1, "effects", "orders.quarantine"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return clusterAt(t, fake.ListenAddrs()[0])
}

func clusterAt(t *testing.T, addr string) *cluster {
	c := &cluster{t: t, addr: addr}
	c.cl = c.client()
	c.adm = kadm.NewClient(c.cl)
	return c
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

func (c *cluster) put(topic string, partition int32, n int) {
	c.t.Helper()
	for i := range n {
		if err := c.cl.ProduceSync(c.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// marks opens the specs and asks for both partitions of orders.
func (c *cluster) marks(query string, committed int64, specs ...string) (kadm.ListedOffsets, error) {
	c.t.Helper()
	s, err := Open(specs, Options{Client: c.cl, Dial: []kgo.Opt{kgo.SeedBrokers(c.addr)}, Query: query})
	if err != nil {
		c.t.Fatal(err)
	}
	return s.Watermarks(c.t.Context(), "billing", []kadm.Offset{{Topic: "orders", At: committed}, {Topic: "orders", Partition: 1, At: committed}})
}

func (c *cluster) want(listed kadm.ListedOffsets, err error, want map[int32]int64) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	got := map[int32]int64{}
	for partition, o := range listed["orders"] {
		if got[partition] = o.Offset; o.Err != nil {
			c.t.Errorf("orders/%d: %v", partition, o.Err)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		c.t.Errorf("watermarks (-want +got):\n%s", diff)
	}
}

func file(t *testing.T, lines ...string) string {
	path := filepath.Join(t.TempDir(), "effects.ndjson")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func offsets(partition int32, list ...int64) (lines []string) {
	for _, o := range list {
		lines = append(lines, fmt.Sprintf(`{"topic":"orders","partition":%d,"offset":%d}`, partition, o))
	}
	return lines
}

func TestFile(t *testing.T) {
	c := newCluster(t)
	c.put("orders", 0, 6)
	for _, x := range []struct {
		name      string
		lines     []string
		committed int64
		want      map[int32]int64
	}{
		{"a record without an effect", offsets(0, 0, 1, 3, 4), -1, map[int32]int64{0: 2}},
		{"in any order, twice", offsets(0, 2, 1, 0, 1, 2), -1, map[int32]int64{0: 3}},
		{"all", offsets(0, 0, 1, 2, 3, 4, 5), 0, map[int32]int64{0: 6}},
		{"nothing", nil, 0, nil},
		{"the source begins late", offsets(0, 3, 4), -1, map[int32]int64{0: 5}},
		{"the source begins above the commit", offsets(0, 3, 4), 1, map[int32]int64{0: 1}},
		{"not closed", []string{offsets(0, 0)[0], `{"topic":"orders","partition":0,"offset":1,"outcome":"stale"}`, offsets(0, 2)[0]}, 0, map[int32]int64{0: 1}},
		{"a watermark", []string{`{"topic":"orders","partition":0,"effect":4}`}, 5, map[int32]int64{0: 4}},
		{"a watermark and more", append(offsets(0, 4), `{"topic":"orders","partition":0,"effect":4}`), 5, map[int32]int64{0: 5}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c.t = t
			got, err := c.marks("", x.committed, file(t, x.lines...))
			c.want(got, err, x.want)
		})
	}
	for _, bad := range []string{"{", `{"topic":"orders","partition":0}`, `{"topic":"orders","partition":0,"offset":-1}`} {
		c.t = t
		if _, err := c.marks("", 0, file(t, offsets(0, 0)[0], bad)); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v, want an error that names the line", bad, err)
		}
	}
	if _, err := Open([]string{"ftp://x"}, Options{}); err == nil {
		t.Error("an unknown scheme was taken")
	}
}

// TestGaps: numbers without records (a log start that moved, markers of
// transactions, aborted records) are no missing effects.
func TestGaps(t *testing.T) {
	t.Run("LogStart", func(t *testing.T) {
		c := newCluster(t)
		c.put("orders", 0, 10)
		to := kadm.Offsets{}
		to.Add(kadm.Offset{Topic: "orders", At: 6, LeaderEpoch: -1})
		if _, err := c.adm.DeleteRecords(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		got, err := c.marks("", 3, file(t, offsets(0, 6, 7)...)) // committed, long ago, at 3
		c.want(got, err, map[int32]int64{0: 8})
	})
	t.Run("Kafka", func(t *testing.T) {
		c := clusterAt(t, testkit.StartKafka(t).Bootstrap())
		if _, err := c.adm.CreateTopic(t.Context(), 2, 1, nil, "orders"); err != nil {
			t.Fatal(err)
		}
		c.transactions()
	})
	t.Run("Fake", func(t *testing.T) { newCluster(t).transactions() })
}

// transactions writes 0 1 2 marker(3) 4x 5x marker(6) 7 8 marker(9): the x are
// aborted.
func (c *cluster) transactions() {
	cl := c.client(kgo.TransactionalID("t"))
	for _, x := range []struct {
		n      int
		commit kgo.TransactionEndTry
	}{{3, kgo.TryCommit}, {2, kgo.TryAbort}, {2, kgo.TryCommit}} {
		if err := cl.BeginTransaction(); err != nil {
			c.t.Fatal(err)
		}
		for range x.n {
			if err := cl.ProduceSync(c.t.Context(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr(); err != nil {
				c.t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(c.t.Context(), x.commit); err != nil {
			c.t.Fatal(err)
		}
	}
	got, err := c.marks("", 0, file(c.t, offsets(0, 0, 1, 2, 7, 8)...))
	c.want(got, err, map[int32]int64{0: 10})
	got, err = c.marks("", 0, file(c.t, offsets(0, 0, 1, 2, 8)...))
	c.want(got, err, map[int32]int64{0: 7})
}

// TestTopics: an effects topic and a quarantine topic count together.
func TestTopics(t *testing.T) {
	c := newCluster(t)
	c.put("orders", 1, 5)
	for _, line := range offsets(1, 0, 2) {
		if err := c.cl.ProduceSync(t.Context(), &kgo.Record{Topic: "effects", Value: []byte(line)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	headers := quarantine.Append(nil, quarantine.Origin{Topic: "orders", Partition: 1, Offset: 1})
	if err := c.cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders.quarantine", Headers: headers}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got, err := c.marks("", 0, "topic:effects", "topic:orders.quarantine")
	c.want(got, err, map[int32]int64{1: 3})
	if _, err := c.marks("", 0, "topic:nowhere"); err == nil {
		t.Error("a topic that is not there was read")
	}
}

// TestOnePartitionCannotBeRead: its watermark is absent, because whether a missing
// number is a record is not known; a guess would be a false COMMIT-AHEAD. The others
// have theirs. A source that is a topic must be readable as a whole.
func TestOnePartitionCannotBeRead(t *testing.T) {
	fake := testkit.StartGuardedFake(t, kfake.SeedTopics(2, "orders"), kfake.SeedTopics(1, "secret"))
	c := clusterAt(t, fake.ListenAddrs()[0])
	c.put("orders", 0, 10)
	c.put("secret", 0, 10)
	lines := append(offsets(0, 0, 1, 2), `{"topic":"secret","partition":0,"offset":3}`, `{"topic":"unrelated","partition":0,"offset":3}`)
	testkit.DenyTopic(t, fake, "secret")
	s, err := Open([]string{file(t, lines...)}, Options{Client: c.cl, Dial: []kgo.Opt{kgo.SeedBrokers(c.addr)}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Watermarks(t.Context(), "billing", []kadm.Offset{{Topic: "orders"}, {Topic: "secret", At: 5}, {Topic: "secret", Partition: 1, At: 5}})
	c.want(got, err, map[int32]int64{0: 3})
	if o, ok := got.Lookup("secret", 0); !ok || !errors.Is(o.Err, kerr.TopicAuthorizationFailed) || len(got["secret"]) != 1 {
		t.Errorf("the topic that may not be read: %+v", got["secret"])
	}
	if _, err := c.marks("", 0, "topic:secret"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("a source that may not be read: %v", err)
	}
}

// TestSQL: the inbox by default, and any query with the right columns.
func TestSQL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := effect.OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	querySQL(t, db, effect.SQLite, "sqlite:"+path)
	t.Run("Postgres", func(t *testing.T) {
		url := testkit.StartPostgres(t).URL
		db, err := effect.OpenPostgres(url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		querySQL(t, db, effect.Postgres, url)
	})
}

func querySQL(t *testing.T, db *sql.DB, d effect.Dialect, spec string) {
	c := newCluster(t)
	c.put("orders", 0, 5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, scope := range []string{"billing", "mail"} {
		s, err := effect.Open(ctx, db, d, effect.Options{Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		for o := range int64(4) {
			if scope == "billing" && o == 2 {
				continue
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.ApplyEvent(ctx, tx, effect.Event{ID: fmt.Sprint(o), Topic: "orders", Offset: o}); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := c.marks("", 0, spec)
	c.want(got, err, map[int32]int64{0: 2})
	got, err = c.marks(`SELECT 'orders' AS topic, 1 AS "partition", 17 AS effect, 'x' AS note`, 0, spec)
	c.want(got, err, map[int32]int64{1: 17})
	for _, bad := range []string{"SELECT 1 AS topic", "SELECT * FROM nowhere", `SELECT 'orders' AS topic, NULL AS "partition", 1 AS "offset"`} {
		if _, err := c.marks(bad, 0, spec); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
