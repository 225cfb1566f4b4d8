// Command orders is a worked example: a shop that writes orders and publishes
// their events through an outbox, and a billing service that consumes them and
// books each one exactly once, in the order of the order.
//
//	orders demo      tells the story phase by phase, with the lines of each
//	orders shop      only the shop
//	orders billing   only the billing service
//
// README.md walks through it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/effect"
)

// Names in the cluster.
const (
	topic      = "orders"
	quarantine = "orders.quarantine"
	group      = "billing"
	partitions = 3
)

// steps are the life of an order; their index is the event's sequence, from 1.
var steps = []string{"placed", "paid", "shipped", "closed"}

// event is the value of a record.
type event struct {
	ID       string `json:"id"`
	Order    string `json:"order"`
	Sequence int64  `json:"sequence"`
	Step     string `json:"step"`
	Cents    int64  `json:"cents"`
}

// settings are the flags that all commands share.
type settings struct {
	brokers  []string
	postgres string
	dir      string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to run: demo, shop or billing")
	}
	var s settings
	f := flag.NewFlagSet(args[0], flag.ExitOnError)
	brokers := f.String("bootstrap-server", "127.0.0.1:9092", "any broker of the cluster, Tidemark or Apache Kafka")
	f.StringVar(&s.postgres, "postgres", "", "keep the state in PostgreSQL at this URL instead of SQLite")
	f.StringVar(&s.dir, "dir", ".", "folder of the SQLite files")
	var sh shopOptions
	var b billingOptions
	switch args[0] {
	case "shop":
		sh.bind(f)
	case "billing":
		b.bind(f)
	case "demo":
	default:
		return fmt.Errorf("%q is not demo, shop or billing", args[0])
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	s.brokers = strings.Split(*brokers, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.createTopics(ctx); err != nil {
		return err
	}
	switch args[0] {
	case "shop":
		return runShop(ctx, s, sh)
	case "billing":
		return runBilling(ctx, s, b)
	}
	return runDemo(ctx, s)
}

// open opens the database of a service.
func (s settings) open(name string) (*sql.DB, effect.Dialect, error) {
	if s.postgres != "" {
		db, err := effect.OpenPostgres(s.postgres)
		return db, effect.Postgres, err
	}
	db, err := effect.OpenSQLite(s.dir + "/" + name + ".db")
	return db, effect.SQLite, err
}

// serial is the type of a column that counts up by itself.
func serial(d effect.Dialect) string {
	if d == effect.Postgres {
		return "bigserial PRIMARY KEY"
	}
	return "integer PRIMARY KEY AUTOINCREMENT"
}

// retrying runs a transaction until no conflict undoes it.
func retrying(ctx context.Context, db *sql.DB, body func(*sql.Tx) error) error {
	for {
		tx, err := db.BeginTx(ctx, nil)
		if err == nil {
			if err = body(tx); err == nil {
				err = tx.Commit()
			}
			_ = tx.Rollback() // after a commit this does nothing
		}
		if err == nil || !effect.Retryable(err) || ctx.Err() != nil {
			return err
		}
	}
}

func (s settings) createTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		return err
	}
	defer cl.Close()
	for name, n := range map[string]int32{topic: partitions, quarantine: 1} {
		r, err := kadm.NewClient(cl).CreateTopic(ctx, n, -1, nil, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w %s", name, err, r.ErrMessage)
		}
	}
	return nil
}
