package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"
)

// Schema is a set of migrations: files <dialect>/NNNN_name.sql, numbered from 1.
type Schema struct {
	// Table records which migrations ran. It also names the schema.
	Table string
	Files fs.FS
}

type migration struct {
	version int
	name    string
	text    string
}

// Migrate brings the database to the newest version of the schema and returns
// that version. All steps run in one transaction, so a crash or an error leaves
// the schema as it was.
func (s Schema) Migrate(ctx context.Context, db *sql.DB, d Dialect) (int, error) {
	if err := d.Check(); err != nil {
		return 0, err
	}
	all, err := s.migrations(d)
	if err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if d == Postgres {
		// CREATE TABLE IF NOT EXISTS races with itself in PostgreSQL.
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(crc32.ChecksumIEEE([]byte(s.Table)))); err != nil {
			return 0, err
		}
	}
	create := "CREATE TABLE IF NOT EXISTS " + s.Table + " (version integer PRIMARY KEY, name text NOT NULL, applied_ms bigint NOT NULL)"
	if _, err := tx.ExecContext(ctx, create); err != nil {
		return 0, fmt.Errorf("schema %s: %w", s.Table, err)
	}
	var have int
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM "+s.Table).Scan(&have); err != nil {
		return 0, err
	}
	if newest := len(all); have > newest {
		return have, fmt.Errorf("schema %s has version %d, this program knows up to %d: use a newer program", s.Table, have, newest)
	}
	for _, m := range all[have:] {
		if err := s.run(ctx, tx, m); err != nil {
			return have, fmt.Errorf("schema %s, migration %04d_%s: %w", s.Table, m.version, m.name, err)
		}
	}
	return len(all), tx.Commit()
}

func (s Schema) run(ctx context.Context, tx *sql.Tx, m migration) error {
	for statement := range strings.SplitSeq(m.text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO "+s.Table+" (version, name, applied_ms) VALUES ($1, $2, $3)", m.version, m.name, time.Now().UnixMilli())
	return err
}

func (s Schema) migrations(d Dialect) ([]migration, error) {
	files, err := fs.Glob(s.Files, path.Join("migrations", string(d), "*.sql"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var all []migration
	for i, file := range files {
		b, err := fs.ReadFile(s.Files, file)
		if err != nil {
			return nil, err
		}
		number, name, ok := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
		if !ok || number != fmt.Sprintf("%04d", i+1) {
			return nil, fmt.Errorf("schema %s: migration %s is not number %04d", s.Table, file, i+1)
		}
		all = append(all, migration{version: i + 1, name: name, text: string(b)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("schema %s has no migrations for %s", s.Table, d)
	}
	return all, nil
}
