package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer"
)

// PublisherOptions configure a Publisher. Zero values take the defaults named
// here.
type PublisherOptions struct {
	// Brokers are required.
	Brokers []string
	// Options are added to the client's: TLS, SASL, client id. Options of producing
	// belong to this package.
	Options []kgo.Opt
	// RoundRows and RoundBytes bound one round (500 and 800,000). A row above
	// RoundBytes has a round to itself.
	RoundRows  int
	RoundBytes int
	// Lease is how long a publisher that died keeps others out (10 s). A send is
	// given up after half of it.
	Lease time.Duration
	// Poll is the time between looks at an empty table (200 ms).
	Poll time.Duration
	// MaxAttempts makes poison of a row that was refused that often for a reason
	// that may pass: an unknown topic, a missing right (5). What cannot pass, such
	// as a message that is too large, is poison the first time it fails alone.
	MaxAttempts int
	// Logger gets what an operator should see (slog.Default).
	Logger *slog.Logger
}

func (o PublisherOptions) withDefaults() PublisherOptions {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&o.RoundRows, 500)
	def(&o.RoundBytes, 800_000)
	def(&o.MaxAttempts, 5)
	if o.Lease <= 0 {
		o.Lease = 10 * time.Second
	}
	if o.Poll <= 0 {
		o.Poll = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// Publisher moves one outbox to Kafka. Any number may run; one of them works.
type Publisher struct {
	box   *Outbox
	o     PublisherOptions
	owner string
	// renewed is when the lease was last extended, listed when the ends of the logs
	// were last asked for, both by this process's clock.
	renewed, listed time.Time
}

// NewPublisher returns a publisher for the outbox. Run makes it work.
func NewPublisher(box *Outbox, o PublisherOptions) (*Publisher, error) {
	if len(o.Brokers) == 0 {
		return nil, errors.New("a publisher needs brokers")
	}
	return &Publisher{box: box, o: o.withDefaults(), owner: newOwner()}, nil
}

// errUnsettled says that a round's fate is not known: the term ends, and the next
// one looks into the log.
var errUnsettled = errors.New("the fate of a round is not known")

// Run publishes until ctx ends, and then finishes the round under way. Databases
// and clusters that fail are tried again for ever; Run returns nil, or an error
// of its configuration.
func (p *Publisher) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		held, err := p.acquire(ctx)
		if err == nil && held {
			err = p.term(ctx)
		}
		if err != nil && ctx.Err() == nil {
			p.o.Logger.Warn("outbox publisher starts over", "scope", p.box.scope, "error", err)
		}
		if err != nil || !held {
			pause(ctx, max(p.o.Poll, p.o.Lease/20))
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// term is the time from taking the lease to losing it, or to a round whose fate
// is not known.
func (p *Publisher) term(ctx context.Context) error {
	cl, err := p.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	b, err := p.recover(ctx, cl)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		round, err := p.claim(ctx, cl, b)
		if err != nil {
			return err
		}
		if len(round) == 0 {
			pause(ctx, p.o.Poll)
			continue
		}
		// From here on the round is finished even when ctx ends: a clean stop leaves
		// nothing to look for in the log.
		results := p.send(context.WithoutCancel(ctx), cl, round)
		if err := p.settle(context.WithoutCancel(ctx), b, results); err != nil {
			return err
		}
	}
	return p.resign(context.WithoutCancel(ctx))
}

func (p *Publisher) client() (*kgo.Client, error) {
	opts := append(append([]kgo.Opt{}, p.o.Options...),
		kgo.SeedBrokers(p.o.Brokers...),
		kgo.AlwaysRetryEOF(), // a broker that stops is not a wrong security setting
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// One batch a partition and round: it is appended as a whole or not at all,
		// so that a refused row cannot be overtaken by a later one of its key.
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(p.o.RoundRows+1),
		kgo.ProducerBatchMaxBytes(1<<20),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.UnknownTopicRetries(2),
		kgo.ProduceRequestTimeout(max(p.o.Lease/4, 100*time.Millisecond)),
	)
	return kgo.NewClient(opts...)
}

// sent is a row and what became of it. A nil record is a row whose fate is not
// known.
type sent struct {
	row    Row
	record *kgo.Record
	err    error
}

// send produces a round and waits for every answer, or for half the lease.
func (p *Publisher) send(ctx context.Context, cl *kgo.Client, round []Row) []sent {
	ctx, cancel := context.WithTimeout(ctx, p.o.Lease/2)
	defer cancel()
	type answer struct {
		i   int
		r   *kgo.Record
		err error
	}
	answers := make(chan answer, len(round))
	for i, row := range round {
		m := row.Message
		headers := append(append([]kgo.RecordHeader{}, m.Headers...), kgo.RecordHeader{Key: consumer.HeaderEventID, Value: []byte(m.ID)})
		cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value, Headers: headers},
			func(r *kgo.Record, err error) { answers <- answer{i, r, err} })
	}
	_ = cl.Flush(ctx) // what it did not wait for has no answer
	results := make([]sent, len(round))
	for i, row := range round {
		results[i] = sent{row: row}
	}
	for {
		select {
		case a := <-answers:
			if a.err == nil || refused(a.err) {
				results[a.i].record, results[a.i].err = a.r, a.err
			}
		default:
			return results
		}
	}
}

// refused reports whether an error means that the record is in no log. Every
// other error leaves that open.
func refused(err error) bool {
	for _, e := range []*kerr.Error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.InvalidTopicException,
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.TopicAuthorizationFailed, kerr.UnsupportedForMessageFormat,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// permanent reports whether a refusal cannot pass by itself.
func permanent(err error) bool {
	for _, e := range []*kerr.Error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.InvalidTopicException} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// settle writes down what became of a round.
func (p *Publisher) settle(ctx context.Context, b ends, results []sent) error {
	tx, err := p.box.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	unknown := 0
	var there []place
	for _, s := range results {
		switch {
		case s.record == nil:
			unknown++
			continue
		case s.err == nil:
			there = append(there, place{s.row, s.record})
			b.advance(s.record.Topic, s.record.Partition, s.record.Offset+1)
		default:
			err = p.refuse(ctx, tx, s, len(results) == 1)
		}
		if err != nil {
			return err
		}
	}
	if err := published(ctx, tx, there); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if unknown > 0 {
		return fmt.Errorf("%w: %d of %d rows have no answer", errUnsettled, unknown, len(results))
	}
	return nil
}

// refuse puts a row back, or declares it poison. Rows that were refused together
// with others are tried alone first: one of them spoilt the batch of all.
func (p *Publisher) refuse(ctx context.Context, q execer, s sent, alone bool) error {
	status, attempts := Pending, s.row.Attempts+1
	if alone && (permanent(s.err) || attempts > p.o.MaxAttempts) {
		status = Poison
		p.o.Logger.Error("outbox message is refused and holds its key", "scope", p.box.scope, "id", s.row.Message.ID,
			"topic", s.row.Message.Topic, "error", s.err)
	}
	_, err := q.ExecContext(ctx, `UPDATE tidemark_outbox SET status = $2, attempts = $3, error = $4 WHERE position = $1 AND status = 1`,
		s.row.Position, int8(status), attempts, s.err.Error())
	return err
}
