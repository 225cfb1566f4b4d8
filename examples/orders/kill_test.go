package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// kills of the consumer in one run. Every fifth one hits the shop too.
const kills = 50

// orders is enough work for all of them; nothing is special about it.
const orders = 600

// TestKillSQLiteTidemark and its siblings kill the consumer with SIGKILL at
// random moments: every event's effect is there once, in the order of its order,
// and every event is in the topic once although the publisher was killed too.
func TestKillSQLiteTidemark(t *testing.T) {
	killTest(t, testkit.StartServer(t, "").Bootstrap(), settings{})
}

func TestKillPostgresKafka(t *testing.T) {
	k := testkit.StartKafka(t, "group.initial.rebalance.delay.ms=0")
	killTest(t, k.Bootstrap(), settings{postgres: testkit.StartPostgres(t).URL})
}

func killTest(t *testing.T, addr string, s settings) {
	s.dir, s.brokers = t.TempDir(), []string{addr}
	bin := filepath.Join(t.TempDir(), "orders")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shared := []string{"-bootstrap-server", addr, "-dir", s.dir, "-postgres", s.postgres}
	shopArgs := append([]string{"shop", "-orders", fmt.Sprint(orders), "-pause", "15ms", "-lease", "2s"}, shared...)
	billingArgs := append([]string{"billing", "-instance", "billing-1", "-latency", "2ms"}, shared...)
	shop, billing := start(t, bin, shopArgs), start(t, bin, billingArgs)
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	db := waitForEffects(t, s)
	want := orders * len(steps)
	kills, productive := kills, 0
	if testing.Short() {
		kills = 10
	}
	for n := range kills {
		// Two of three come while effects are being written, however slow the machine
		// is; the third may hit the start, the join or the drain.
		if n%3 != 2 {
			before := effects(t, db)
			if before < want && waitFor(t, time.Minute, func() bool { return effects(t, db) > before }) {
				productive++
			}
			wait(t, time.Duration(rng.IntN(100))*time.Millisecond)
		} else {
			wait(t, time.Duration(rng.IntN(900))*time.Millisecond)
		}
		billing.kill()
		if n%5 == 4 {
			shop.kill()
			shop = start(t, bin, shopArgs)
		}
		billing = start(t, bin, billingArgs)
	}
	t.Logf("%d kills, %d of them after effects of that process; %d of %d effects at the last one", kills, productive, effects(t, db), want)
	if productive < kills/4 {
		t.Errorf("only %d of %d kills came while effects were written: the test proves little", productive, kills)
	}
	if !waitFor(t, 3*time.Minute, func() bool { return effects(t, db) >= want }) {
		t.Fatalf("%d of %d effects\nshop: %s\nbilling: %s", effects(t, db), want, shop.out.String(), billing.out.String())
	}
	billing.stop(t)
	shop.stop(t)
	checkEffects(t, db, want)
	checkTopic(t, addr, want)
}

// waitForEffects opens billing's database once its table is there.
func waitForEffects(t *testing.T, s settings) *sql.DB {
	t.Helper()
	db, _, err := s.open("billing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	there := waitFor(t, 3*time.Minute, func() bool {
		_, err := db.Exec("SELECT count(*) FROM billing_effects")
		return err == nil
	})
	if !there {
		t.Fatal("billing does not start")
	}
	return db
}

func effects(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow("SELECT count(*) FROM billing_effects").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func waitFor(t *testing.T, within time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if done() {
			return true
		}
		wait(t, 5*time.Millisecond)
	}
	return false
}

// wait is the moment of a kill, which is random by design; no assertion hangs on
// it.
func wait(t *testing.T, d time.Duration) {
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

type process struct {
	cmd  *exec.Cmd
	out  *bytes.Buffer
	done chan error
}

func start(t *testing.T, bin string, args []string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(bin, args...), out: &bytes.Buffer{}, done: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.done <- <-p.done // keep it for the next call
}

// stop ends the process cleanly.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	err := <-p.done
	p.done <- err
	if err != nil {
		t.Errorf("%v ended with %v\n%s", p.cmd.Args[1], err, p.out.String())
	}
}

// checkEffects wants every effect once, and those of an order in order.
func checkEffects(t *testing.T, db *sql.DB, want int) {
	t.Helper()
	rows, err := db.Query("SELECT order_id, sequence FROM billing_effects ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	at, n := map[string]int64{}, 0
	for rows.Next() {
		var order string
		var sequence int64
		if err := rows.Scan(&order, &sequence); err != nil {
			t.Fatal(err)
		}
		if n++; at[order]+1 != sequence {
			t.Errorf("%s: effect %d came after effect %d", order, sequence, at[order])
		}
		at[order] = sequence
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if n != want || len(at) != orders {
		t.Errorf("%d effects of %d orders, want %d of %d", n, len(at), want, orders)
	}
}

// checkTopic wants every event id in the log once, and those of an order in
// order.
func checkTopic(t *testing.T, addr string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left, n := int64(0), 0
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	seen, at := map[string]bool{}, map[string]string{}
	for left > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			left--
			n++
			rec := consumer.Record{Headers: r.Headers}
			id, order := rec.EventID(), string(r.Key)
			if seen[id] {
				t.Errorf("%s is in the topic twice", id)
			}
			if id <= at[order] {
				t.Errorf("%s is behind %s", id, at[order])
			}
			seen[id], at[order] = true, id
		})
	}
	if n != want {
		t.Errorf("%d records, want %d", n, want)
	}
}
