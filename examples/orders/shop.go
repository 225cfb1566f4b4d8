package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/consumer/outbox"
)

// shopOptions are the flags of the shop.
type shopOptions struct {
	orders int
	pause  time.Duration
	lease  time.Duration
}

func (o *shopOptions) bind(f *flag.FlagSet) {
	f.IntVar(&o.orders, "orders", 100, "how many orders to take in all; those that are there count")
	f.DurationVar(&o.pause, "pause", 10*time.Millisecond, "time between two events")
	f.DurationVar(&o.lease, "lease", 10*time.Second, "how long a publisher that died keeps others out")
}

// shop owns orders and their outbox.
type shop struct {
	db  *sql.DB
	box *outbox.Outbox
}

func openShop(ctx context.Context, s settings) (*shop, error) {
	db, d, err := s.open("shop")
	if err != nil {
		return nil, err
	}
	box, err := outbox.Open(ctx, db, d, "shop")
	if err == nil {
		_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS shop_orders (id text PRIMARY KEY, step bigint NOT NULL, cents bigint NOT NULL)`)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return &shop{db: db, box: box}, nil
}

func (s *shop) close() { _ = s.db.Close() }

// advance moves an order one step on and adds the event, in one transaction:
// there is no order without its event and no event without its order.
func (s *shop) advance(ctx context.Context, id string) (more bool, err error) {
	err = retrying(ctx, s.db, func(tx *sql.Tx) error {
		cents := int64(len(id))*100 + 99
		if _, err := tx.ExecContext(ctx, `INSERT INTO shop_orders (id, step, cents) VALUES ($1, 0, $2) ON CONFLICT (id) DO NOTHING`, id, cents); err != nil {
			return err
		}
		var step int64
		// The update takes the order's row, so events of one order are added one
		// after another.
		err := tx.QueryRowContext(ctx, `UPDATE shop_orders SET step = step + 1 WHERE id = $1 AND step < $2 RETURNING step`, id, len(steps)).Scan(&step)
		if errors.Is(err, sql.ErrNoRows) {
			more = false
			return nil
		}
		if err != nil {
			return err
		}
		more = step < int64(len(steps))
		e := event{ID: fmt.Sprintf("%s/%d", id, step), Order: id, Sequence: step, Step: steps[step-1], Cents: cents}
		value, err := json.Marshal(e)
		if err != nil {
			return err
		}
		return s.box.Add(ctx, tx, outbox.Message{ID: e.ID, Topic: topic, Key: []byte(id), Value: value})
	})
	return more, err
}

// take writes orders from one number to another, their steps interleaved.
func (s *shop) take(ctx context.Context, from, to int, pause time.Duration) error {
	open := make([]string, 0, to-from)
	for n := from; n < to; n++ {
		open = append(open, fmt.Sprintf("order-%04d", n))
	}
	for len(open) > 0 {
		// A window of ten orders is open at a time.
		for i := 0; i < min(10, len(open)); {
			more, err := s.advance(ctx, open[i])
			if err != nil {
				return err
			}
			if !more {
				open = append(open[:i], open[i+1:]...)
			} else {
				i++
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause):
			}
		}
	}
	return nil
}

// runShop takes orders and publishes until it is told to stop.
func runShop(ctx context.Context, st settings, o shopOptions) error {
	s, err := openShop(ctx, st)
	if err != nil {
		return err
	}
	defer s.close()
	p, err := outbox.NewPublisher(s.box, outbox.PublisherOptions{Brokers: st.brokers, Lease: o.lease, Poll: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	taken := make(chan error, 1)
	go func() { taken <- s.take(ctx, 0, o.orders, o.pause) }()
	err = p.Run(ctx)
	if e := <-taken; e != nil && ctx.Err() == nil {
		err = errors.Join(err, e)
	}
	return err
}
