package outbox

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/consumer/internal/sqlstore"
)

// Dialect is the kind of database.
type Dialect = sqlstore.Dialect

// Dialects.
const (
	SQLite   = sqlstore.SQLite
	Postgres = sqlstore.Postgres
)

//go:embed migrations
var migrations embed.FS

var schema = sqlstore.Schema{Table: "tidemark_outbox_schema", Files: migrations}

// Migrate brings the tables to the version of this program and returns it. Open
// does this too.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) (int, error) {
	return schema.Migrate(ctx, db, d)
}

// Status is where a row stands. The numbers are in the database.
type Status int8

// Statuses.
const (
	Pending   Status = 0
	Sending   Status = 1 // its fate is not known
	Published Status = 2
	Poison    Status = 3 // refused by the cluster; it holds the later rows of its key
	Skipped   Status = 4 // given up by a person
)

// String names the status.
func (s Status) String() string {
	names := [...]string{"pending", "sending", "published", "poison", "skipped"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("status(%d)", int8(s))
	}
	return names[s]
}

// Message is one event to publish.
type Message struct {
	// ID is unique in the scope. It travels in the header consumer.HeaderEventID.
	ID    string
	Topic string
	// Key decides the partition and the order: messages of one topic and key are
	// published in the order of Add. Nil means that there is no order.
	Key, Value []byte
	Headers    []kgo.RecordHeader
}

// Outbox is the table. It is safe for concurrent use.
type Outbox struct {
	db    *sql.DB
	d     Dialect
	scope string
}

// Open migrates the schema and returns the outbox of a scope. Scopes are
// independent: each has its own publisher and its own order.
func Open(ctx context.Context, db *sql.DB, d Dialect, scope string) (*Outbox, error) {
	if _, err := Migrate(ctx, db, d); err != nil {
		return nil, err
	}
	return &Outbox{db: db, d: d, scope: scope}, nil
}

// ErrDuplicate says that the id is in the outbox already.
var ErrDuplicate = errors.New("event id is in the outbox already")

// Add puts a message in the outbox within the user's transaction: it is published
// when, and only when, that commits.
//
// Messages of one key keep the order of Add only if their transactions do not
// overlap. That is the case where each of them changes the row of the entity that
// the key names.
func (o *Outbox) Add(ctx context.Context, tx *sql.Tx, m Message) error {
	if m.ID == "" || m.Topic == "" {
		return errors.New("a message needs an id and a topic")
	}
	headers, err := json.Marshal(m.Headers)
	if err != nil {
		return err
	}
	valueNull := 0 // a null value is a tombstone, an empty one is not
	if m.Value == nil {
		valueNull = 1
	}
	r, err := tx.ExecContext(ctx, `INSERT INTO tidemark_outbox (scope, event_id, topic, lane, record_key, record_value, value_null, headers, created_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (scope, event_id) DO NOTHING`,
		o.scope, m.ID, m.Topic, lane(m.Topic, m.Key), m.Key, m.Value, valueNull, string(headers), time.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("outbox message %s: %w", m.ID, err)
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(fmt.Errorf("outbox message %s: %w", m.ID, ErrDuplicate), err)
	}
	return nil
}

// lane names what must stay in order, "" for messages without order.
func lane(topic string, key []byte) string {
	if key == nil {
		return ""
	}
	if len(key) > 60 { // the index need not hold long keys
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	return topic + "/" + base64.RawURLEncoding.EncodeToString(key)
}

// Row is one message as it stands.
type Row struct {
	Position  int64
	Message   Message
	Status    Status
	Attempts  int
	Error     string
	Partition int32 // -1 until published
	Offset    int64 // -1 until published
	lane      string
}

const rowColumns = `position, event_id, topic, lane, record_key, record_value, value_null, headers, status, attempts, error, part, off`

func (o *Outbox) query(ctx context.Context, q sqlstore.Querier, where string, args ...any) ([]Row, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+rowColumns+" FROM tidemark_outbox o WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Row
	for rows.Next() {
		var r Row
		var headers string
		var valueNull int
		m := &r.Message
		if err := rows.Scan(&r.Position, &m.ID, &m.Topic, &r.lane, &m.Key, &m.Value, &valueNull, &headers, &r.Status, &r.Attempts, &r.Error, &r.Partition, &r.Offset); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(headers), &m.Headers); err != nil {
			return nil, fmt.Errorf("headers of outbox message %s: %w", m.ID, err)
		}
		if r.lane != "" && m.Key == nil { // SQLite gives an empty blob back as null
			m.Key = []byte{}
		}
		if valueNull == 0 && m.Value == nil {
			m.Value = []byte{}
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Poisoned lists rows that the cluster refused, oldest first, at most limit.
func (o *Outbox) Poisoned(ctx context.Context, limit int) ([]Row, error) {
	return o.query(ctx, o.db, "scope = $1 AND status = 3 ORDER BY position LIMIT $2", o.scope, limit)
}

// Find returns the row of an event.
func (o *Outbox) Find(ctx context.Context, id string) (Row, error) {
	rows, err := o.query(ctx, o.db, "scope = $1 AND event_id = $2", o.scope, id)
	if err == nil && len(rows) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return Row{}, fmt.Errorf("outbox message %s: %w", id, err)
	}
	return rows[0], nil
}

// Retry lets the publisher try a poison row again; its key goes on behind it.
func (o *Outbox) Retry(ctx context.Context, id string) error {
	return o.release(ctx, id, `UPDATE tidemark_outbox SET status = 0, attempts = 1 WHERE scope = $1 AND event_id = $2 AND status = 3`, o.scope, id)
}

// Skip gives a poison row up: it will not be published, and its key goes on. The
// row stays, with the reason.
func (o *Outbox) Skip(ctx context.Context, id, reason string) error {
	return o.release(ctx, id, `UPDATE tidemark_outbox SET status = 4, error = $3, closed_ms = $4 WHERE scope = $1 AND event_id = $2 AND status = 3`,
		o.scope, id, reason, time.Now().UnixMilli())
}

func (o *Outbox) release(ctx context.Context, id, statement string, args ...any) error {
	r, err := o.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(fmt.Errorf("outbox message %s is not poison", id), err)
	}
	return nil
}

// Counts are the rows by status.
func (o *Outbox) Counts(ctx context.Context) (map[Status]int64, error) {
	rows, err := o.db.QueryContext(ctx, `SELECT status, count(*) FROM tidemark_outbox WHERE scope = $1 GROUP BY status`, o.scope)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[Status]int64{}
	for rows.Next() {
		var s Status
		var n int64
		if err := rows.Scan(&s, &n); err != nil {
			return nil, err
		}
		counts[s] = n
	}
	return counts, rows.Err()
}

// Prune deletes rows that were published or skipped before a time, at most limit
// of them. Their ids may then be added again.
func (o *Outbox) Prune(ctx context.Context, before time.Time, limit int) (int64, error) {
	r, err := o.db.ExecContext(ctx, `DELETE FROM tidemark_outbox WHERE position IN
		(SELECT position FROM tidemark_outbox WHERE scope = $1 AND status IN (2, 4) AND closed_ms < $2 ORDER BY position LIMIT $3)`,
		o.scope, before.UnixMilli(), limit)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
