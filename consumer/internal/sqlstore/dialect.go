package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Dialect is the kind of database. Statements use $1 parameters for both: SQLite
// calls that a name, and its driver binds a name that is a number by position.
type Dialect string

// Dialects.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Querier is a *sql.DB, *sql.Tx or *sql.Conn.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Check refuses an unknown dialect.
func (d Dialect) Check() error {
	if d != SQLite && d != Postgres {
		return fmt.Errorf("unknown SQL dialect %q: it can be %s or %s", d, SQLite, Postgres)
	}
	return nil
}

// OpenSQLite opens the database file at path with the settings that the stores
// need: a write-ahead log that is synced at every commit, writers that wait for
// each other, and transactions that take the write lock when they begin (a
// transaction that read first could otherwise not be upgraded and would fail).
func OpenSQLite(path string) (*sql.DB, error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	if err := db.Ping(); err != nil {
		db.Close()
		return nil, fmt.Errorf("open SQLite database %s: %w", path, err)
	}
	return db, nil
}

// OpenPostgres opens a PostgreSQL database by URL or keyword string.
func OpenPostgres(dsn string) (*sql.DB, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	if err := db.Ping(); err != nil {
		db.Close()
		return nil, fmt.Errorf("open PostgreSQL database: %w", err)
	}
	return db, nil
}

// Retryable reports whether the transaction that failed with err may succeed
// when it is run again from its beginning: the database chose it as the victim
// of a conflict, a deadlock or a lock wait.
func Retryable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
			return true
		}
		return false
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		primary := lite.Code() & 0xff // extended codes carry the primary one in the low byte
		return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
	}
	return false
}
