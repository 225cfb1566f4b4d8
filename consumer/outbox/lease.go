package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer"
	"github.com/tidemark-io/tidemark/internal/ops/logbounds"
)

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func newOwner() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b)
	host, _ := os.Hostname()
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(b))
}

// now is the database's clock in Unix ms: leases of several machines must not
// depend on theirs.
func (o *Outbox) now() string {
	if o.d == Postgres {
		return "cast(extract(epoch from clock_timestamp()) * 1000 AS bigint)"
	}
	return "cast((julianday('now') - 2440587.5) * 86400000 AS integer)"
}

// acquire takes the lease if it is free. A lease that ran out belongs to a
// publisher that is dead, or that can send nothing any more: it gave its last
// send up after half a lease.
func (p *Publisher) acquire(ctx context.Context) (bool, error) {
	now := p.box.now()
	r, err := p.box.db.ExecContext(ctx, `INSERT INTO tidemark_outbox_publisher (scope, owner, expires_ms, boundary)
		VALUES ($1, $2, `+now+` + $3, '{}')
		ON CONFLICT (scope) DO UPDATE SET owner = $2, expires_ms = `+now+` + $3 WHERE tidemark_outbox_publisher.expires_ms < `+now,
		p.box.scope, p.owner, p.o.Lease.Milliseconds())
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// renew extends the lease and writes the boundary down; it fails when somebody
// else took the lease.
func (p *Publisher) renew(ctx context.Context, q execer, b ends) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	now := p.box.now()
	r, err := q.ExecContext(ctx, `UPDATE tidemark_outbox_publisher SET expires_ms = `+now+` + $3, boundary = $4
		WHERE scope = $1 AND owner = $2 AND expires_ms >= `+now, p.box.scope, p.owner, p.o.Lease.Milliseconds(), string(text))
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errors.New("the lease is lost"), err)
	}
	p.renewed = time.Now()
	return nil
}

// resign frees the lease: everything sent is settled.
func (p *Publisher) resign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Lease/2)
	defer cancel()
	_, err := p.box.db.ExecContext(ctx, `UPDATE tidemark_outbox_publisher SET expires_ms = 0 WHERE scope = $1 AND owner = $2`, p.box.scope, p.owner)
	return err
}

// ends are offsets, by topic and partition, below which nothing of a round under
// way can be.
type ends map[string]map[int32]int64

func (b ends) advance(topic string, partition int32, next int64) {
	if b[topic] == nil {
		b[topic] = map[int32]int64{}
	}
	b[topic][partition] = max(b[topic][partition], next)
}

// list puts the ends of topics that b does not have. A topic that does not exist, or
// that may not be described, and so not be written (KafkaApis takes WRITE for
// DESCRIBE), has no partitions and is looked up again next time: its rows are refused
// when they are sent, which is no reason to hold the others up.
func (b ends) list(ctx context.Context, cl *kgo.Client, topics map[string]bool) error {
	var missing []string
	for topic := range topics {
		if b[topic] == nil {
			missing = append(missing, topic)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	logs, err := logbounds.Read(ctx, cl, missing...)
	if err != nil {
		return err
	}
	var failed error
	logs.HighWatermark.Each(func(o kadm.ListedOffset) {
		switch {
		case o.Err == nil:
			b.advance(o.Topic, o.Partition, o.Offset)
		case !errors.Is(o.Err, kerr.UnknownTopicOrPartition) && !errors.Is(o.Err, kerr.TopicAuthorizationFailed):
			failed = fmt.Errorf("end of %s/%d: %w", o.Topic, o.Partition, o.Err)
		}
	})
	return failed
}

// claim takes the next round: it marks the rows and writes down where to look
// for them, in one transaction and only with the lease.
func (p *Publisher) claim(ctx context.Context, cl *kgo.Client, b ends) ([]Row, error) {
	rows, err := p.box.query(ctx, p.box.db, `scope = $1 AND status = 0 AND (lane = '' OR NOT EXISTS
		(SELECT 1 FROM tidemark_outbox h WHERE h.scope = o.scope AND h.lane = o.lane AND h.status = 3))
		ORDER BY position LIMIT $2`, p.box.scope, p.o.RoundRows)
	if err != nil {
		return nil, err
	}
	round := p.cut(rows)
	if len(round) == 0 && time.Since(p.renewed) < p.o.Lease/4 {
		return nil, nil
	}
	if time.Since(p.listed) > p.o.Lease {
		// Others write to the topics too: a boundary that stayed behind would make
		// the search after a crash long. Nothing is under way now, so all may move.
		clear(b)
		p.listed = time.Now()
	}
	topics := map[string]bool{}
	for _, r := range round {
		topics[r.Message.Topic] = true
	}
	if err := b.list(ctx, cl, topics); err != nil {
		return nil, err
	}
	tx, err := p.box.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := p.renew(ctx, tx, b); err != nil {
		return nil, err
	}
	if err := setStatus(ctx, tx, round, Pending, Sending); err != nil {
		return nil, err
	}
	return round, tx.Commit()
}

// cut ends a round at its bounds, and gives a row that was refused before a round
// to itself.
func (p *Publisher) cut(rows []Row) []Row {
	size := 0
	for i, r := range rows {
		size += len(r.Message.Key) + len(r.Message.Value) + 100
		for _, h := range r.Message.Headers {
			size += len(h.Key) + len(h.Value) + 10
		}
		if r.Attempts > 0 || size > p.o.RoundBytes {
			return rows[:max(i, 1)]
		}
	}
	return rows
}

// setStatus moves rows from one status to another, in one statement: a round has
// hundreds of them, and a database may be a network away.
func setStatus(ctx context.Context, q execer, rows []Row, from, to Status) error {
	if len(rows) == 0 {
		return nil
	}
	list := make([]byte, 0, 12*len(rows))
	for i, r := range rows {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, r.Position, 10)
	}
	_, err := q.ExecContext(ctx, `UPDATE tidemark_outbox SET status = $1 WHERE status = $2 AND position IN (`+string(list)+`)`, int8(to), int8(from))
	return err
}

// place is where a row is in the log.
type place struct {
	row    Row
	record *kgo.Record
}

// published writes down where rows are, in one statement.
func published(ctx context.Context, q execer, places []place) error {
	if len(places) == 0 {
		return nil
	}
	list := make([]byte, 0, 24*len(places))
	for i, p := range places {
		if i > 0 {
			list = append(list, ',')
		}
		list = fmt.Appendf(list, "(%d,%d,%d)", p.row.Position, p.record.Partition, p.record.Offset)
	}
	_, err := q.ExecContext(ctx, `UPDATE tidemark_outbox SET status = 2, part = v.column2, off = v.column3, error = '', closed_ms = $1
		FROM (VALUES `+string(list)+`) AS v WHERE position = v.column1 AND status = 1`, time.Now().UnixMilli())
	return err
}

// recover finds out what became of rows that were being sent when a publisher
// ended, and returns the ends for the rounds to come. The lease has run out since
// they were sent, so what is not in the log now will not come.
func (p *Publisher) recover(ctx context.Context, cl *kgo.Client) (ends, error) {
	rows, err := p.box.query(ctx, p.box.db, "scope = $1 AND status = 1 ORDER BY position", p.box.scope)
	if err != nil || len(rows) == 0 {
		return ends{}, err
	}
	var text string
	if err := p.box.db.QueryRowContext(ctx, `SELECT boundary FROM tidemark_outbox_publisher WHERE scope = $1`, p.box.scope).Scan(&text); err != nil {
		return nil, err
	}
	from := ends{}
	if err := json.Unmarshal([]byte(text), &from); err != nil {
		return nil, fmt.Errorf("boundary of the outbox: %w", err)
	}
	open := map[string]Row{}
	topics := map[string]bool{}
	for _, r := range rows {
		open[r.Message.ID] = r
		topics[r.Message.Topic] = true
	}
	found, err := p.scan(ctx, cl, from, topics, open)
	if err != nil {
		return nil, fmt.Errorf("look for %d rows in the log: %w", len(rows), err)
	}
	tx, err := p.box.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var there []place
	var again []Row
	for _, r := range rows {
		if at, ok := found[r.Message.ID]; ok {
			there = append(there, place{r, at})
		} else {
			again = append(again, r)
		}
	}
	if err := published(ctx, tx, there); err != nil {
		return nil, err
	}
	if err := setStatus(ctx, tx, again, Sending, Pending); err != nil {
		return nil, err
	}
	if err := p.renew(ctx, tx, from); err != nil { // a scan that outlived the lease decides nothing
		return nil, err
	}
	p.o.Logger.Info("outbox rows of a publisher that ended are settled", "scope", p.box.scope, "rows", len(rows), "in the log", len(found))
	return ends{}, tx.Commit()
}

// scan reads the log from the boundary to its present end and returns the records
// of the open rows.
func (p *Publisher) scan(ctx context.Context, cl *kgo.Client, from ends, topics map[string]bool, open map[string]Row) (map[string]*kgo.Record, error) {
	now := ends{}
	if err := now.list(ctx, cl, topics); err != nil {
		return nil, err
	}
	start := map[string]map[int32]kgo.Offset{}
	left := 0
	for topic, partitions := range now {
		start[topic] = map[int32]kgo.Offset{}
		for partition, end := range partitions {
			if at := from[topic][partition]; at < end {
				start[topic][partition] = kgo.NewOffset().At(at)
				left++
			}
		}
	}
	found := map[string]*kgo.Record{}
	if left == 0 {
		return found, nil
	}
	reader, err := kgo.NewClient(append(append([]kgo.Opt{}, p.o.Options...), kgo.SeedBrokers(p.o.Brokers...), kgo.ConsumePartitions(start),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	done := map[string]map[int32]bool{}
	ctx, cancel := context.WithTimeout(ctx, p.o.Lease*9/10)
	defer cancel()
	for left > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if row, ok := open[eventID(r)]; ok && row.Message.Topic == r.Topic && found[row.Message.ID] == nil {
				found[row.Message.ID] = r
			}
			if r.Offset >= now[r.Topic][r.Partition]-1 && !done[r.Topic][r.Partition] {
				if done[r.Topic] == nil {
					done[r.Topic] = map[int32]bool{}
				}
				done[r.Topic][r.Partition] = true
				left--
			}
		})
	}
	return found, nil
}

func eventID(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == consumer.HeaderEventID {
			return string(h.Value)
		}
	}
	return ""
}
