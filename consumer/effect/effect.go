package effect

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/consumer/internal/sqlstore"
)

// Dialect is the kind of database.
type Dialect = sqlstore.Dialect

// Dialects.
const (
	SQLite   = sqlstore.SQLite
	Postgres = sqlstore.Postgres
)

// OpenSQLite opens the database file at path with a synced write-ahead log and
// transactions that take the write lock when they begin. A database that the
// user opened otherwise works too, as long as Retryable errors are retried.
func OpenSQLite(path string) (*sql.DB, error) { return sqlstore.OpenSQLite(path) }

// OpenPostgres opens a PostgreSQL database by URL or keyword string.
func OpenPostgres(dsn string) (*sql.DB, error) { return sqlstore.OpenPostgres(dsn) }

// Retryable reports whether a transaction that failed with err may succeed when
// it is run again from its beginning: a conflict, deadlock or lock wait.
func Retryable(err error) bool { return sqlstore.Retryable(err) }

//go:embed migrations
var migrations embed.FS

var schema = sqlstore.Schema{Table: "tidemark_effect_schema", Files: migrations}

// Migrate brings the tables to the version of this program and returns it. Open
// does this too; call it alone where the application's user may not create
// tables.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) (int, error) {
	return schema.Migrate(ctx, db, d)
}

// Outcome says what Apply found.
type Outcome int8

// Outcomes of Apply.
const (
	// Applied: the event is new and next in order. Write its effect and commit.
	Applied Outcome = iota + 1
	// Duplicate: this event was applied before. There is nothing to do.
	Duplicate
	// Gap: the entity has not reached the event before this one. Nothing was
	// written; try again later.
	Gap
	// Stale: the entity is at or beyond this sequence, and this event is not known
	// to be applied. Nothing was written and nothing will be: quarantine it.
	Stale
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	case Gap:
		return "gap"
	case Stale:
		return "stale"
	}
	return fmt.Sprintf("outcome(%d)", int8(o))
}

// Result is an outcome and what it was decided by.
type Result struct {
	Outcome Outcome
	// Version is the entity's last applied sequence after the call. It is 0 for an
	// event without an entity, and FirstSequence-1 for an entity without events.
	Version int64
	// Holder is, for Stale, the event that was applied with this sequence. Empty
	// means that the inbox no longer has a row of that sequence: most likely this
	// is a duplicate older than the inbox (Prune).
	Holder string
}

// String is one line for an error or a log.
func (r Result) String() string {
	switch {
	case r.Outcome == Gap:
		return fmt.Sprintf("gap: the entity is at %d", r.Version)
	case r.Outcome == Stale && r.Holder != "":
		return fmt.Sprintf("stale: the entity is at %d, and event %s has this sequence", r.Version, r.Holder)
	case r.Outcome == Stale:
		return fmt.Sprintf("stale: the entity is at %d, and the inbox does not go back that far", r.Version)
	}
	return r.Outcome.String()
}

// ErrConflict says that the event's id was applied before under another entity
// or sequence: the producer used an id twice. Quarantine the event.
var ErrConflict = errors.New("event id was applied with another entity or sequence")

// Options of a store. The zero value is usable.
type Options struct {
	// Scope separates consumers that share a database; by convention it is the
	// consumer group. Empty is a scope like any other.
	Scope string
	// FirstSequence is the first sequence of an entity (1 when zero).
	FirstSequence int64
	// AdoptFirst takes whatever sequence an entity is first seen with as its
	// first: for a store that begins in the middle of the history. Events before
	// it are then Stale.
	AdoptFirst bool
}

// Event is one event to apply.
type Event struct {
	// ID is unique per event and the same on every delivery. Required.
	ID string
	// Entity is what Sequence counts for. Empty means that the event has no order:
	// it is Applied or Duplicate.
	Entity   string
	Sequence int64
	// Topic, Partition, Offset and Generation say where the event was read and
	// under which assignment. They decide nothing; with them the store can tell
	// how far the effects of a partition reach ("tidemark lines --effects").
	Topic      string
	Partition  int32
	Offset     int64
	Generation int64
}

// Store applies events. It is safe for concurrent use.
type Store struct {
	db *sql.DB
	o  Options
}

// Open migrates the schema and returns the store.
func Open(ctx context.Context, db *sql.DB, d Dialect, o Options) (*Store, error) {
	if _, err := Migrate(ctx, db, d); err != nil {
		return nil, err
	}
	if o.FirstSequence == 0 {
		o.FirstSequence = 1
	}
	return &Store{db: db, o: o}, nil
}

// Apply decides about an event within the user's transaction. See ApplyEvent.
func (s *Store) Apply(ctx context.Context, tx *sql.Tx, eventID, entity string, sequence int64) (Result, error) {
	return s.ApplyEvent(ctx, tx, Event{ID: eventID, Entity: entity, Sequence: sequence, Partition: -1, Offset: -1, Generation: -1})
}

// ApplyEvent decides about an event within the user's transaction. Only after
// Applied may the effect be written, and only the commit of tx makes both true.
// After an error tx must be rolled back: in PostgreSQL it is aborted already.
func (s *Store) ApplyEvent(ctx context.Context, tx *sql.Tx, e Event) (Result, error) {
	if e.ID == "" {
		return Result{}, errors.New("event without an id")
	}
	// The inbox row comes first: where the same event is applied by two
	// transactions at once, the second waits here for the end of the first, and
	// then sees its row or, after a rollback, takes its place.
	n, err := affected(tx.ExecContext(ctx, `INSERT INTO tidemark_inbox
		(scope, event_id, entity, sequence, topic, part, off, generation, applied_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (scope, event_id) DO NOTHING`,
		s.o.Scope, e.ID, e.Entity, e.Sequence, e.Topic, e.Partition, e.Offset, e.Generation, time.Now().UnixMilli()))
	if err != nil {
		return Result{}, fmt.Errorf("inbox of event %s: %w", e.ID, err)
	}
	if n == 0 {
		return s.known(ctx, tx, e)
	}
	if e.Entity == "" {
		return Result{Outcome: Applied}, nil
	}
	moved, err := s.advance(ctx, tx, e)
	if err != nil {
		return Result{}, fmt.Errorf("version of entity %s: %w", e.Entity, err)
	}
	if moved {
		return Result{Outcome: Applied, Version: e.Sequence}, nil
	}
	return s.refuse(ctx, tx, e)
}

// known answers for an id that the inbox has.
func (s *Store) known(ctx context.Context, tx *sql.Tx, e Event) (Result, error) {
	var entity string
	var sequence int64
	err := tx.QueryRowContext(ctx, `SELECT entity, sequence FROM tidemark_inbox WHERE scope = $1 AND event_id = $2`, s.o.Scope, e.ID).Scan(&entity, &sequence)
	if err != nil {
		return Result{}, fmt.Errorf("inbox of event %s: %w", e.ID, err)
	}
	if entity != e.Entity || sequence != e.Sequence {
		return Result{}, fmt.Errorf("%w: event %s is %s/%d in the inbox, not %s/%d", ErrConflict, e.ID, entity, sequence, e.Entity, e.Sequence)
	}
	version, _, err := version(ctx, tx, s.o, e.Entity)
	return Result{Outcome: Duplicate, Version: version}, err
}

// advance moves the entity's version from the sequence before to this one.
func (s *Store) advance(ctx context.Context, tx *sql.Tx, e Event) (bool, error) {
	n, err := affected(tx.ExecContext(ctx, `UPDATE tidemark_entity SET sequence = $3, event_id = $4
		WHERE scope = $1 AND entity = $2 AND sequence = $3 - 1`, s.o.Scope, e.Entity, e.Sequence, e.ID))
	if err != nil || n == 1 {
		return n == 1, err
	}
	if e.Sequence != s.o.FirstSequence && !s.o.AdoptFirst {
		return false, nil
	}
	n, err = affected(tx.ExecContext(ctx, `INSERT INTO tidemark_entity (scope, entity, sequence, event_id)
		VALUES ($1, $2, $3, $4) ON CONFLICT (scope, entity) DO NOTHING`, s.o.Scope, e.Entity, e.Sequence, e.ID))
	return n == 1, err
}

// refuse takes the inbox row back and says why.
func (s *Store) refuse(ctx context.Context, tx *sql.Tx, e Event) (Result, error) {
	if _, err := tx.ExecContext(ctx, `DELETE FROM tidemark_inbox WHERE scope = $1 AND event_id = $2`, s.o.Scope, e.ID); err != nil {
		return Result{}, err
	}
	v, _, err := version(ctx, tx, s.o, e.Entity)
	if err != nil {
		return Result{}, err
	}
	if e.Sequence > v {
		return Result{Outcome: Gap, Version: v}, nil
	}
	res := Result{Outcome: Stale, Version: v}
	err = tx.QueryRowContext(ctx, `SELECT event_id FROM tidemark_inbox WHERE scope = $1 AND entity = $2 AND sequence = $3`,
		s.o.Scope, e.Entity, e.Sequence).Scan(&res.Holder)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return res, err
}

// Version returns the last sequence that was applied to an entity; ok is false
// when none was.
func (s *Store) Version(ctx context.Context, entity string) (sequence int64, ok bool, err error) {
	return version(ctx, s.db, s.o, entity)
}

func version(ctx context.Context, q sqlstore.Querier, o Options, entity string) (int64, bool, error) {
	if entity == "" {
		return 0, false, nil
	}
	var v int64
	err := q.QueryRowContext(ctx, `SELECT sequence FROM tidemark_entity WHERE scope = $1 AND entity = $2`, o.Scope, entity).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return o.FirstSequence - 1, false, nil
	}
	return v, err == nil, err
}

// Reach returns the lowest and the highest offset of a partition that have an
// effect in the store; ok is false when none has. A new owner of the partition
// compares them with where it starts: a start above the highest offset may skip
// records, one below it means that some will come again.
func (s *Store) Reach(ctx context.Context, topic string, partition int32) (lowest, highest int64, ok bool, err error) {
	var low, high sql.NullInt64
	err = s.db.QueryRowContext(ctx, `SELECT min(off), max(off) FROM tidemark_inbox WHERE scope = $1 AND topic = $2 AND part = $3 AND off >= 0`,
		s.o.Scope, topic, partition).Scan(&low, &high)
	return low.Int64, high.Int64, low.Valid && high.Valid, err
}

// Prune forgets inbox rows that were applied before a time, at most limit of
// them, and returns how many. A forgotten event that is delivered again is Stale
// when it has an entity, and Applied again when it has none: keep rows longer
// than the topic keeps records and than anybody may redrive them.
func (s *Store) Prune(ctx context.Context, before time.Time, limit int) (int64, error) {
	return affected(s.db.ExecContext(ctx, `DELETE FROM tidemark_inbox WHERE scope = $1 AND event_id IN
		(SELECT event_id FROM tidemark_inbox WHERE scope = $1 AND applied_ms < $2 ORDER BY applied_ms LIMIT $3)`,
		s.o.Scope, before.UnixMilli(), limit))
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
