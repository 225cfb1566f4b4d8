package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemark-io/tidemark/consumer"
	"github.com/tidemark-io/tidemark/consumer/effect"
)

// billingOptions are the flags of the billing service.
type billingOptions struct {
	instance string
	latency  time.Duration
	failing  int
}

func (o *billingOptions) bind(f *flag.FlagSet) {
	f.StringVar(&o.instance, "instance", "", "group.instance.id: a restart takes its partitions back at once")
	f.DurationVar(&o.latency, "latency", 5*time.Millisecond, "how long the payment provider takes")
	f.IntVar(&o.failing, "failing", 20, "one in so many calls to the payment provider fails; 0 for none")
}

// billing books events. Its effect is a row in billing_effects.
type billing struct {
	db       *sql.DB
	store    *effect.Store
	provider *provider
}

func openBilling(ctx context.Context, s settings, p *provider) (*billing, error) {
	db, d, err := s.open("billing")
	if err != nil {
		return nil, err
	}
	store, err := effect.Open(ctx, db, d, effect.Options{Scope: group})
	if err == nil {
		_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS billing_effects (n `+serial(d)+`,
			event_id text NOT NULL, order_id text NOT NULL, sequence bigint NOT NULL, cents bigint NOT NULL)`)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return &billing{db: db, store: store, provider: p}, nil
}

func (b *billing) close() { _ = b.db.Close() }

// handle is the whole of the consumer: decide about one record.
func (b *billing) handle(ctx context.Context, r consumer.Record) consumer.Outcome {
	var e event
	if err := json.Unmarshal(r.Value, &e); err != nil || e.ID == "" {
		return consumer.Quarantine("the record is not an order event")
	}
	if err := b.provider.charge(ctx, e); errors.Is(err, errRefused) {
		return consumer.Quarantine(err.Error())
	} else if err != nil {
		return consumer.Retry(0).Because(err)
	}
	res, err := b.book(ctx, r, e)
	switch {
	case errors.Is(err, effect.ErrConflict):
		return consumer.Quarantine(err.Error())
	case err != nil:
		return consumer.Retry(0).Because(err)
	case res.Outcome == effect.Gap:
		return consumer.Retry(200 * time.Millisecond).Because(errors.New(res.String()))
	case res.Outcome == effect.Stale:
		return consumer.Quarantine(res.String())
	}
	return consumer.Done // applied now, or before
}

// book writes the effect and the memory of its event in one transaction.
func (b *billing) book(ctx context.Context, r consumer.Record, e event) (res effect.Result, err error) {
	err = retrying(ctx, b.db, func(tx *sql.Tx) error {
		res, err = b.store.ApplyEvent(ctx, tx, effect.Event{
			ID: e.ID, Entity: e.Order, Sequence: e.Sequence,
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Generation: r.Generation,
		})
		if err != nil || res.Outcome != effect.Applied {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO billing_effects (event_id, order_id, sequence, cents) VALUES ($1, $2, $3, $4)`, e.ID, e.Order, e.Sequence, e.Cents)
		return err
	})
	return res, err
}

// assigned compares where a partition starts with how far its effects reach. It
// only says so: records that were quarantined have no effect here, and numbers
// without records have none anywhere, so a difference proves nothing by itself.
func (b *billing) assigned(ctx context.Context, topic string, partition int32, start int64) error {
	_, highest, ok, err := b.store.Reach(ctx, topic, partition)
	switch {
	case err != nil:
		return err // holds the partition: without the store nothing can be done in it
	case ok && start > highest+1:
		slog.Warn("billing: starts above its effects", "topic", topic, "partition", partition, "start", start, "highest effect", highest)
	case ok && start <= highest:
		slog.Info("billing: some records come again", "topic", topic, "partition", partition, "start", start, "highest effect", highest)
	}
	return nil
}

func (b *billing) config(s settings, instance string) consumer.Config {
	return consumer.Config{
		Brokers: s.brokers, Group: group, Topics: []string{topic}, InstanceID: instance,
		QuarantineTopic: quarantine,
		Concurrency:     8, PartitionRecords: 100,
		RetryBackoff: 20 * time.Millisecond, RetryBackoffMax: time.Second,
		CommitInterval: 200 * time.Millisecond, BeaconInterval: time.Second,
		DrainTimeout: 2 * time.Second,
		OnAssigned:   b.assigned,
	}
}

// runBilling consumes until it is told to stop.
func runBilling(ctx context.Context, s settings, o billingOptions) error {
	p := newProvider(o.latency)
	p.failOneIn(o.failing)
	b, err := openBilling(ctx, s, p)
	if err != nil {
		return err
	}
	defer b.close()
	c, err := consumer.Open(b.config(s, o.instance))
	if err != nil {
		return err
	}
	if err := c.Handle(b.handle); err != nil {
		return err
	}
	err = c.Wait(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	end, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if e := c.Close(end); e != nil {
		err = errors.Join(err, fmt.Errorf("close: %w", e))
	}
	return err
}
