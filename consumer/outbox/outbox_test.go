package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/internal/sqlstore"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// bench is one empty outbox and one empty cluster.
type bench struct {
	*Outbox
	t    *testing.T
	addr string
}

var tests = []struct {
	name string
	run  func(b *bench)
}{
	{"OnceAndInOrder", testOnceAndInOrder},
	{"Crash", testCrash},
	{"Poison", testPoison},
	{"SpoiltBatch", testSpoiltBatch},
	{"UnknownTopic", testUnknownTopic},
	{"Add", testAdd},
	{"Values", testValues},
	{"Prune", testPrune},
}

func runAll(t *testing.T, d Dialect, open func(t *testing.T) (*sql.DB, error), cluster func(t *testing.T) string) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			db, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			box, err := Open(context.Background(), db, d, "shop")
			if err != nil {
				t.Fatal(err)
			}
			c.run(&bench{box, t, cluster(t)})
		})
	}
}

func fake(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// onBroker makes the topic on a broker that the tests before used too.
func onBroker(addr string) func(t *testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		adm := kadm.NewClient(cl)
		if _, err := adm.DeleteTopic(t.Context(), "orders"); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Fatal(err)
		}
		for {
			_, err := adm.CreateTopic(t.Context(), 3, 1, nil, "orders")
			if err == nil {
				return addr
			}
			if !errors.Is(err, kerr.TopicAlreadyExists) { // it is being deleted
				t.Fatal(err)
			}
			pause(t.Context(), 20*time.Millisecond)
		}
	}
}

func sqliteFile(t *testing.T) (*sql.DB, error) {
	return sqlstore.OpenSQLite(filepath.Join(t.TempDir(), "outbox.db"))
}

func TestSQLite(t *testing.T) { runAll(t, SQLite, sqliteFile, fake) }

func TestPostgres(t *testing.T) {
	pg := testkit.StartPostgres(t)
	runAll(t, Postgres, func(t *testing.T) (*sql.DB, error) { return sqlstore.OpenPostgres(pg.Database(t)) }, fake)
}

func TestTidemark(t *testing.T) {
	runAll(t, SQLite, sqliteFile, onBroker(testkit.StartServer(t, "").Bootstrap()))
}

func TestKafka(t *testing.T) {
	runAll(t, SQLite, sqliteFile, onBroker(testkit.StartKafka(t).Bootstrap()))
}

func (b *bench) add(messages ...Message) {
	b.t.Helper()
	tx, err := b.db.Begin()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range messages {
		if err := b.Add(context.Background(), tx, m); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.t.Fatal(err)
	}
}

// order is event n of a key.
func order(key string, n int) Message {
	return Message{ID: fmt.Sprintf("%s/%d", key, n), Topic: "orders", Key: []byte(key), Value: []byte(fmt.Sprint(n))}
}

func (b *bench) publisher() *Publisher {
	b.t.Helper()
	p, err := NewPublisher(b.Outbox, PublisherOptions{
		Brokers: []string{b.addr}, Lease: 1500 * time.Millisecond, Poll: 5 * time.Millisecond, RoundRows: 40, MaxAttempts: 1,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// run lets publishers work until no row is pending or being sent, except held.
func (b *bench) run(publishers, held int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range publishers {
		p := b.publisher()
		wg.Add(1)
		go func() { defer wg.Done(); _ = p.Run(work) }()
	}
	for {
		counts, err := b.Counts(ctx)
		if err != nil {
			b.t.Fatalf("%v, %v", counts, err)
		}
		if counts[Pending]+counts[Sending] == int64(held) && counts[Sending] == 0 {
			break
		}
		pause(ctx, 5*time.Millisecond)
	}
	stop()
	wg.Wait()
}

// log returns the ids in the topic, by key, in log order.
func (b *bench) log() map[string][]string {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, "orders")
	if err != nil {
		b.t.Fatal(err)
	}
	left := int64(0)
	listed.Each(func(o kadm.ListedOffset) { left += o.Offset })
	ids := map[string][]string{}
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			b.t.Fatalf("%d records did not come", left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			left--
			ids[string(r.Key)] = append(ids[string(r.Key)], eventID(r))
		})
	}
	return ids
}

// check wants events 1..n of every key, each once and in order.
func (b *bench) check(keys []string, n int) {
	b.t.Helper()
	ids := b.log()
	for _, key := range keys {
		if len(ids[key]) != n {
			b.t.Errorf("key %s: %d records, want %d: %v", key, len(ids[key]), n, ids[key])
			continue
		}
		for i, id := range ids[key] {
			if want := fmt.Sprintf("%s/%d", key, i+1); id != want {
				b.t.Fatalf("key %s: record %d is %s, want %s", key, i, id, want)
			}
		}
	}
}

var keys = []string{"a", "b", "c", "d", "e"}

// testOnceAndInOrder: writers and three publishers at once.
func testOnceAndInOrder(b *bench) {
	const n = 60
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range n {
				tx, err := b.db.Begin()
				if err == nil {
					if err = b.Add(context.Background(), tx, order(key, i+1)); err == nil {
						err = tx.Commit()
					}
				}
				if err != nil {
					b.t.Error(err)
					return
				}
			}
		}()
	}
	b.run(3, 0)
	wg.Wait()
	b.run(3, 0)
	b.check(keys, n)
	r, err := b.Find(context.Background(), "a/1")
	if err != nil || r.Status != Published || r.Offset < 0 || r.Partition < 0 {
		b.t.Errorf("%+v %v", r, err)
	}
}

// testCrash: a publisher dies between marking, sending and settling, several
// times; what was sent is found in the log and not sent again.
func testCrash(b *bench) {
	ctx := context.Background()
	const rounds, n = 3, 24
	for i := range n {
		for _, key := range keys {
			b.add(order(key, i+1))
		}
	}
	for crash := range rounds {
		p := b.publisher()
		for {
			if held, err := p.acquire(ctx); err != nil {
				b.t.Fatal(err)
			} else if held {
				break
			}
			pause(ctx, 20*time.Millisecond)
		}
		cl, err := p.client()
		if err != nil {
			b.t.Fatal(err)
		}
		from, err := p.recover(ctx, cl)
		if err != nil {
			b.t.Fatal(err)
		}
		round, err := p.claim(ctx, cl, from)
		if err != nil || len(round) == 0 {
			b.t.Fatalf("%d rows, %v", len(round), err)
		}
		// All of the round, some of it in order, or nothing.
		if sent := round[:len(round)*(2-crash)/2]; len(sent) > 0 {
			p.send(ctx, cl, sent)
		}
		cl.Close()
	}
	b.run(2, 0)
	b.check(keys, n)
}

// testPoison: a message that no broker takes holds its own key and no other.
func testPoison(b *bench) {
	ctx := context.Background()
	large := order("a", 2)
	large.Value = make([]byte, 3<<20)
	b.add(order("a", 1), large, order("a", 3), order("b", 1), order("a", 4))
	b.run(1, 2)
	b.check([]string{"a", "b"}, 1)
	poisoned, err := b.Poisoned(ctx, 10)
	if err != nil || len(poisoned) != 1 || poisoned[0].Message.ID != "a/2" || !strings.Contains(poisoned[0].Error, "MESSAGE_TOO_LARGE") {
		b.t.Fatalf("%+v %v", poisoned, err)
	}
	if err := b.Retry(ctx, "a/2"); err != nil {
		b.t.Fatal(err)
	}
	b.run(1, 2) // refused again
	if err := b.Skip(ctx, "a/2", "the photo is too large; sent by mail"); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Skip(ctx, "a/1", "published"); err == nil {
		b.t.Error("a published row was skipped")
	}
	b.run(1, 0)
	if got := b.log()["a"]; fmt.Sprint(got) != "[a/1 a/3 a/4]" {
		b.t.Errorf("key a: %v", got)
	}
}

// neighbour finds another key of the same partition.
func neighbour(key string) []byte {
	p := kgo.StickyKeyPartitioner(nil).ForTopic("orders")
	want := p.Partition(&kgo.Record{Key: []byte(key)}, 3)
	for i := 0; ; i++ {
		if k := fmt.Append(nil, "x", i); p.Partition(&kgo.Record{Key: k}, 3) == want {
			return k
		}
	}
}

// testSpoiltBatch: one refused record spoils the batch of its partition; its
// neighbours are published, in order, and only it is poison.
func testSpoiltBatch(b *bench) {
	ctx := context.Background()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	limit := "2000"
	if _, err := kadm.NewClient(cl).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, "orders"); err != nil {
		b.t.Fatal(err)
	}
	for i := range 6 {
		m := order("a", i+1)
		if i == 3 {
			m.Key, m.Value = neighbour("a"), make([]byte, 5000)
			_, _ = rand.Read(m.Value) // it must not shrink below the limit when it is compressed
		}
		b.add(m)
	}
	b.run(1, 0)
	counts, err := b.Counts(ctx)
	if err != nil || counts[Published] != 5 || counts[Poison] != 1 {
		b.t.Errorf("%v %v", counts, err)
	}
	if got := b.log()["a"]; fmt.Sprint(got) != "[a/1 a/2 a/3 a/5 a/6]" {
		b.t.Errorf("key a: %v", got)
	}
}

func testUnknownTopic(b *bench) {
	m := order("a", 1)
	m.Topic = "nowhere"
	b.add(m, order("b", 1))
	b.run(1, 0)
	r, err := b.Find(context.Background(), "a/1")
	if err != nil || r.Status != Poison {
		b.t.Errorf("%v %q %v", r.Status, r.Error, err)
	}
	b.check([]string{"b"}, 1)
}

// TestDeniedTopic: a row for a topic that may not be written is poison, and holds the
// rows of no other topic up.
func TestDeniedTopic(t *testing.T) {
	cluster := testkit.StartGuardedFake(t, kfake.SeedTopics(3, "orders"), kfake.SeedTopics(1, "secret"))
	testkit.DenyTopic(t, cluster, "secret")
	db, err := sqliteFile(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	box, err := Open(t.Context(), db, SQLite, "shop")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{box, t, cluster.ListenAddrs()[0]}
	m := order("a", 1)
	m.Topic = "secret"
	b.add(m, order("b", 1))
	b.run(1, 0)
	r, err := b.Find(t.Context(), "a/1")
	if err != nil || r.Status != Poison || !strings.Contains(r.Error, "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("%v %q %v", r.Status, r.Error, err)
	}
	b.check([]string{"b"}, 1)
}

func testAdd(b *bench) {
	ctx := context.Background()
	b.add(order("a", 1))
	tx, err := b.db.Begin()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.Add(ctx, tx, order("a", 2)); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Add(ctx, tx, order("a", 1)); !errors.Is(err, ErrDuplicate) {
		b.t.Errorf("the same id again: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		b.t.Fatal(err)
	}
	b.run(1, 0)
	b.check([]string{"a"}, 1) // what was rolled back is not published
	for _, m := range []Message{{ID: "x"}, {Topic: "orders"}} {
		tx, err := b.db.Begin()
		if err != nil {
			b.t.Fatal(err)
		}
		if err := b.Add(ctx, tx, m); err == nil {
			b.t.Errorf("%+v was taken", m)
		}
		_ = tx.Rollback()
	}
	if _, err := NewPublisher(b.Outbox, PublisherOptions{}); err == nil {
		b.t.Error("a publisher without brokers")
	}
}

// testValues: null and empty are two things, and headers come through.
func testValues(b *bench) {
	b.add(
		Message{ID: "1", Topic: "orders", Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0, 255}}, {Key: "n"}}},
		Message{ID: "2", Topic: "orders", Key: []byte{}, Value: []byte{}},
		Message{ID: "3", Topic: "orders", Value: []byte("no key")},
	)
	for id, want := range map[string]string{
		"1": `[]byte{0x6b} []byte(nil) [{h [0 255]} {n []}]`,
		"2": `[]byte{} []byte{} []`,
		"3": `[]byte(nil) []byte{0x6e, 0x6f, 0x20, 0x6b, 0x65, 0x79} []`,
	} {
		r, err := b.Find(context.Background(), id)
		if got := fmt.Sprintf("%#v %#v %v", r.Message.Key, r.Message.Value, r.Message.Headers); err != nil || got != want {
			b.t.Errorf("%s: %s, want %s (%v)", id, got, want, err)
		}
	}
	b.run(1, 0)
	if got := b.log(); len(got["k"]) != 1 || len(got[""]) != 2 {
		b.t.Errorf("%v", got)
	}
}

func testPrune(b *bench) {
	ctx := context.Background()
	b.add(order("a", 1), order("a", 2))
	b.run(1, 0)
	b.add(order("a", 3))
	if n, err := b.Prune(ctx, time.Now().Add(time.Hour), 10); n != 2 || err != nil {
		b.t.Errorf("pruned %d, %v", n, err)
	}
	if _, err := b.Find(ctx, "a/1"); !errors.Is(err, sql.ErrNoRows) {
		b.t.Errorf("a pruned row: %v", err)
	}
	b.run(1, 0)
	b.check([]string{"a"}, 3)
}

// BenchmarkPublish prints how many rows a second go from the table to a broker
// in the same process.
func BenchmarkPublish(b *testing.B) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	db, err := sqlstore.OpenSQLite(filepath.Join(b.TempDir(), "outbox.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	box, err := Open(b.Context(), db, SQLite, "shop")
	if err != nil {
		b.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		if err := box.Add(b.Context(), tx, order(keys[i%len(keys)], i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	p, err := NewPublisher(box, PublisherOptions{Brokers: cluster.ListenAddrs()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	b.ResetTimer()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for {
		counts, err := box.Counts(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if counts[Published] == int64(b.N) {
			break
		}
		pause(ctx, 5*time.Millisecond)
	}
	b.StopTimer()
	stop()
	<-ended
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
