package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer"
	"github.com/tidemark-io/tidemark/consumer/outbox"
	"github.com/tidemark-io/tidemark/internal/cli"
)

// demo runs shop and billing in one process, so that it can make the provider
// slow or broken between the phases, and prints the lines of each.
type demo struct {
	settings
	shop     *shop
	billing  *billing
	provider *provider
	consumer *consumer.Consumer
	orders   int // taken so far
}

// alone refuses a topic with records that the billing of this demo would read and
// that no shop of it wrote.
func alone(ctx context.Context, s settings) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	behind := func(committed kadm.OffsetResponses) (unread int64) {
		ends.Each(func(end kadm.ListedOffset) {
			start, _ := starts.Lookup(topic, end.Partition)
			from := start.Offset
			if c, ok := committed.Lookup(topic, end.Partition); ok {
				from = max(from, c.At)
			}
			unread += end.Offset - from
		})
		return unread
	}
	if behind(nil) == 0 {
		return nil // nor is there a coordinator on a new cluster
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.CoordinatorNotAvailable) {
		return err
	}
	unread := behind(committed)
	if unread > 0 {
		return fmt.Errorf("topic %s holds %d records that group %s has not read: the demo would take them for orders; use another cluster, or give the topic up: tidemark topic delete %s --yes",
			topic, unread, group, topic)
	}
	return nil
}

func runDemo(ctx context.Context, s settings) error {
	if err := alone(ctx, s); err != nil {
		return err
	}
	p := newProvider(2 * time.Millisecond)
	sh, err := openShop(ctx, s)
	if err != nil {
		return err
	}
	defer sh.close()
	b, err := openBilling(ctx, s, p)
	if err != nil {
		return err
	}
	defer b.close()
	d := &demo{settings: s, shop: sh, billing: b, provider: p}
	publisher, err := outbox.NewPublisher(sh.box, outbox.PublisherOptions{Brokers: s.brokers, Poll: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- publisher.Run(work) }()
	err = d.phases(ctx)
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	if d.consumer != nil {
		_ = d.consumer.Close(context.Background())
	}
	return err
}

func (d *demo) phases(ctx context.Context) error {
	for n, phase := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Quiet: every order is read, booked and committed.", d.quiet},
		{"The payment provider is slow: records are read faster than they are done, and fetching pauses at the bound.", d.slow},
		{"The provider fails for one order: its record holds the effect watermark, other orders go on behind it.", d.broken},
		{"The provider refuses that order: its events go to quarantine, which is not success, and the partition moves on.", d.refused},
		{"The refusal is cleared: the quarantined events are redriven and booked, in their order.", d.redriven},
		{"Billing stops, the shop goes on: UNREAD, and nothing else, because nothing is half done.", d.stopped},
		{"Somebody sets the committed offset to the end. Every other tool now shows 0. The effects say otherwise.", d.skipped},
		{"The offset is set back to the effects and billing starts again: everything is booked once.", d.mended},
	} {
		fmt.Printf("\n== %d. %s\n\n", n+1, phase.title)
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("phase %d: %w", n+1, err)
		}
	}
	fmt.Printf("\nAll %d orders are booked: %d effects, each once.\n", d.orders, d.orders*len(steps))
	return nil
}

func (d *demo) start() (err error) {
	cfg := d.billing.config(d.settings, "")
	cfg.PartitionRecords, cfg.BeaconInterval = 40, 500*time.Millisecond
	if d.consumer, err = consumer.Open(cfg); err != nil {
		return err
	}
	return d.consumer.Handle(d.billing.handle)
}

// take adds orders and waits until they are in the topic.
func (d *demo) take(ctx context.Context, n int) error {
	if err := d.shop.take(ctx, d.orders, d.orders+n, 0); err != nil {
		return err
	}
	d.orders += n
	return d.until(ctx, func() (bool, error) {
		counts, err := d.shop.box.Counts(ctx)
		return counts[outbox.Published] == int64(d.orders*len(steps)), err
	})
}

// booked waits until all events have effects, except missing.
func (d *demo) booked(ctx context.Context, missing int) error {
	return d.until(ctx, func() (bool, error) {
		var n int
		err := d.billing.db.QueryRowContext(ctx, "SELECT count(*) FROM billing_effects").Scan(&n)
		return n >= d.orders*len(steps)-missing, err
	})
}

func (d *demo) until(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// tidemark runs a command of the command line, as a person would. Its exit code
// tells whether a line needs attention, which the story knows already.
func (d *demo) tidemark(ctx context.Context, args ...string) {
	fmt.Printf("$ tidemark %s\n", strings.Join(args, " "))
	args = append(args, "--bootstrap-server", strings.Join(d.brokers, ","))
	cli.Main(ctx, args, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stdout}, nil)
	fmt.Println()
}

// lines prints the lines once the next beacons are out.
func (d *demo) lines(ctx context.Context, more ...string) error {
	if err := sleep(ctx, 1200*time.Millisecond); err != nil {
		return err
	}
	d.tidemark(ctx, append([]string{"lines", group, "--once", "--stalled-after", "3s", "--working-up-to", "1s"}, more...)...)
	return ctx.Err()
}

func (d *demo) quiet(ctx context.Context) error {
	if err := d.start(); err != nil {
		return err
	}
	if err := d.take(ctx, 30); err != nil {
		return err
	}
	if err := d.booked(ctx, 0); err != nil {
		return err
	}
	return d.lines(ctx)
}

func (d *demo) slow(ctx context.Context) error {
	d.provider.setLatency(400 * time.Millisecond)
	if err := d.take(ctx, 60); err != nil {
		return err
	}
	if err := d.lines(ctx); err != nil {
		return err
	}
	d.provider.setLatency(2 * time.Millisecond)
	return d.booked(ctx, 0)
}

// theOrder is the one that fails.
const theOrder = "order-0095"

func (d *demo) broken(ctx context.Context) error {
	d.provider.setBroken(theOrder, true)
	if err := d.take(ctx, 15); err != nil {
		return err
	}
	if err := d.booked(ctx, len(steps)); err != nil {
		return err
	}
	if err := sleep(ctx, 3*time.Second); err != nil { // until the head counts as stalled
		return err
	}
	if err := d.lines(ctx); err != nil {
		return err
	}
	d.tidemark(ctx, "why", group, d.partitionOf(ctx, theOrder), "--stalled-after", "3s")
	return nil
}

// partitionOf asks the outbox where an order's events went.
func (d *demo) partitionOf(ctx context.Context, order string) string {
	r, err := d.shop.box.Find(ctx, order+"/1")
	if err != nil {
		return topic + "/0"
	}
	return fmt.Sprintf("%s/%d", topic, r.Partition)
}

func (d *demo) refused(ctx context.Context) error {
	d.provider.setRefused(theOrder, true)
	err := d.until(ctx, func() (bool, error) {
		stats, err := d.consumer.Stats(ctx)
		return stats.Quarantined >= int64(len(steps)), err
	})
	if err != nil {
		return err
	}
	if err := d.lines(ctx); err != nil {
		return err
	}
	d.tidemark(ctx, "quarantine", "list", quarantine)
	return nil
}

func (d *demo) redriven(ctx context.Context) error {
	d.provider.setBroken(theOrder, false)
	d.provider.setRefused(theOrder, false)
	d.tidemark(ctx, "quarantine", "redrive", quarantine, "--all", "--apply")
	if err := d.booked(ctx, 0); err != nil {
		return err
	}
	return d.lines(ctx)
}

func (d *demo) stopped(ctx context.Context) error {
	if err := d.consumer.Close(ctx); err != nil {
		return err
	}
	d.consumer = nil
	if err := d.take(ctx, 10); err != nil {
		return err
	}
	return d.lines(ctx)
}

// effects are the sources for --effects: the inbox, and what was quarantined.
func (d *demo) effects() []string {
	source := "sqlite:" + filepath.Join(d.dir, "billing.db")
	if d.postgres != "" {
		source = d.postgres
	}
	return []string{"--effects", source, "--effects", "topic:" + quarantine}
}

func (d *demo) skipped(ctx context.Context) error {
	before, err := d.commit(ctx, nil)
	if err != nil {
		return err
	}
	if err := d.lines(ctx, d.effects()...); err != nil {
		return err
	}
	_, err = d.commit(ctx, before)
	return err
}

// commit sets the group's offsets, to the log ends when to is nil, and returns
// what they were.
func (d *demo) commit(ctx context.Context, to kadm.Offsets) (kadm.Offsets, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	before, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	if to == nil {
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err != nil {
			return nil, err
		}
		to = ends.Offsets()
	}
	return before.Offsets(), adm.CommitAllOffsets(ctx, group, to)
}

func (d *demo) mended(ctx context.Context) error {
	if err := d.start(); err != nil {
		return err
	}
	if err := d.booked(ctx, 0); err != nil {
		return err
	}
	return d.lines(ctx)
}
