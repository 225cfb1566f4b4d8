package effect_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/consumer/effect"
	"github.com/tidemark-io/tidemark/internal/testkit"
)

// tests run on both databases, each on an empty one.
var tests = []struct {
	name string
	run  func(t *testing.T, d effect.Dialect, db *sql.DB)
}{
	{"Outcomes", testOutcomes},
	{"IDUsedTwice", testIDUsedTwice},
	{"Rollback", testRollback},
	{"Prune", testPrune},
	{"Concurrent", testConcurrent},
	{"Serializable", testSerializable},
	{"Reach", testReach},
	{"Migrate", testMigrate},
}

func TestSQLite(t *testing.T) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			db, err := effect.OpenSQLite(filepath.Join(t.TempDir(), "effects with space?.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			c.run(t, effect.SQLite, db)
		})
	}
}

func TestPostgres(t *testing.T) {
	pg := testkit.StartPostgres(t)
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			db, err := effect.OpenPostgres(pg.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			c.run(t, effect.Postgres, db)
		})
	}
}

func open(t *testing.T, db *sql.DB, d effect.Dialect, o effect.Options) *effect.Store {
	t.Helper()
	s, err := effect.Open(context.Background(), db, d, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// isolation is that of apply; tests run one after another.
var isolation sql.IsolationLevel

// testSerializable: conflicts that the database refuses are Retryable, and a
// retry finds everything as it should be.
func testSerializable(t *testing.T, d effect.Dialect, db *sql.DB) {
	if d == effect.Postgres { // SQLite has no other level
		isolation = sql.LevelSerializable
		defer func() { isolation = sql.LevelDefault }()
	}
	testConcurrent(t, d, db)
}

// testReach: how far the effects of a partition go.
func testReach(t *testing.T, d effect.Dialect, db *sql.DB) {
	ctx := context.Background()
	s := open(t, db, d, effect.Options{})
	ledger(t, db, d)
	if _, _, ok, err := s.Reach(ctx, "orders", 1); ok || err != nil {
		t.Errorf("an empty store reaches: %v %v", ok, err)
	}
	for _, offset := range []int64{7, 3, 12} {
		if _, err := apply(ctx, db, s, effect.Event{ID: fmt.Sprint(offset), Topic: "orders", Partition: 1, Offset: offset}); err != nil {
			t.Fatal(err)
		}
	}
	if low, high, ok, err := s.Reach(ctx, "orders", 1); low != 3 || high != 12 || !ok || err != nil {
		t.Errorf("%d %d %v %v", low, high, ok, err)
	}
}

// apply runs one event in a transaction of its own and writes its effect.
func apply(ctx context.Context, db *sql.DB, s *effect.Store, e effect.Event) (effect.Result, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	if err != nil {
		return effect.Result{}, err
	}
	defer func() { _ = tx.Rollback() }()
	res, err := s.ApplyEvent(ctx, tx, e)
	if err != nil {
		return res, err
	}
	if res.Outcome == effect.Applied {
		if _, err := tx.ExecContext(ctx, `INSERT INTO ledger (event, entity, sequence) VALUES ($1, $2, $3)`, e.ID, e.Entity, e.Sequence); err != nil {
			return res, err
		}
	}
	return res, tx.Commit() // committed after every outcome: nothing may be left of the others
}

func ledger(t *testing.T, db *sql.DB, d effect.Dialect) {
	t.Helper()
	id := "integer PRIMARY KEY AUTOINCREMENT"
	if d == effect.Postgres {
		id = "bigserial PRIMARY KEY"
	}
	if _, err := db.Exec("CREATE TABLE ledger (n " + id + ", event text, entity text, sequence bigint)"); err != nil {
		t.Fatal(err)
	}
}

func testOutcomes(t *testing.T, d effect.Dialect, db *sql.DB) {
	ctx := context.Background()
	s := open(t, db, d, effect.Options{Scope: "billing"})
	other := open(t, db, d, effect.Options{Scope: "mail"})
	adopt := open(t, db, d, effect.Options{Scope: "late", AdoptFirst: true})
	ledger(t, db, d)
	for i, c := range []struct {
		store   *effect.Store
		id      string
		entity  string
		seq     int64
		outcome effect.Outcome
		version int64
	}{
		{s, "e2", "order-1", 2, effect.Gap, 0},
		{s, "e1", "order-1", 1, effect.Applied, 1},
		{s, "e1", "order-1", 1, effect.Duplicate, 1},
		{s, "e3", "order-1", 3, effect.Gap, 1},
		{s, "e2", "order-1", 2, effect.Applied, 2},
		{s, "e3", "order-1", 3, effect.Applied, 3},
		{s, "e2", "order-1", 2, effect.Duplicate, 3},
		{s, "x2", "order-1", 2, effect.Stale, 3},
		{s, "x0", "order-1", 0, effect.Stale, 3},
		{s, "f1", "order-2", 1, effect.Applied, 1},
		{s, "n1", "", 0, effect.Applied, 0},
		{s, "n1", "", 0, effect.Duplicate, 0},
		{other, "e1", "order-1", 1, effect.Applied, 1}, // another consumer, the same event
		{adopt, "e7", "order-1", 7, effect.Applied, 7},
		{adopt, "e6", "order-1", 6, effect.Stale, 7},
		{adopt, "e9", "order-1", 9, effect.Gap, 7},
		{adopt, "e8", "order-1", 8, effect.Applied, 8},
	} {
		res, err := apply(ctx, db, c.store, effect.Event{ID: c.id, Entity: c.entity, Sequence: c.seq})
		if err != nil {
			t.Fatal(err)
		}
		if res.Outcome != c.outcome || res.Version != c.version {
			t.Errorf("step %d, %s %s/%d: %v at %d, want %v at %d", i, c.id, c.entity, c.seq, res.Outcome, res.Version, c.outcome, c.version)
		}
		if c.id == "x2" && (res.Holder != "e2" || !strings.Contains(res.String(), "e2")) {
			t.Errorf("step %d: %v does not name e2", i, res)
		}
	}
	var rows, applied int
	if err := db.QueryRow("SELECT (SELECT count(*) FROM tidemark_inbox), (SELECT count(*) FROM ledger)").Scan(&rows, &applied); err != nil {
		t.Fatal(err)
	}
	if rows != 8 || applied != 8 {
		t.Errorf("%d inbox rows and %d effects, want 8 of each", rows, applied)
	}
	if v, ok, err := s.Version(ctx, "order-1"); v != 3 || !ok || err != nil {
		t.Errorf("version %d %v %v", v, ok, err)
	}
	if v, ok, err := s.Version(ctx, "order-9"); v != 0 || ok || err != nil {
		t.Errorf("version of an unknown entity: %d %v %v", v, ok, err)
	}
}

// testIDUsedTwice: a producer that reuses an id must not lose an effect in
// silence.
func testIDUsedTwice(t *testing.T, d effect.Dialect, db *sql.DB) {
	ctx := context.Background()
	s := open(t, db, d, effect.Options{})
	ledger(t, db, d)
	if _, err := apply(ctx, db, s, effect.Event{ID: "e1", Entity: "a", Sequence: 1}); err != nil {
		t.Fatal(err)
	}
	for _, e := range []effect.Event{{ID: "e1", Entity: "a", Sequence: 2}, {ID: "e1", Entity: "b", Sequence: 1}} {
		if _, err := apply(ctx, db, s, e); !errors.Is(err, effect.ErrConflict) {
			t.Errorf("%+v: %v, want ErrConflict", e, err)
		}
	}
	if _, err := apply(ctx, db, s, effect.Event{}); err == nil {
		t.Error("an event without an id was taken")
	}
}

// testRollback: an effect that was not committed leaves no memory of its event.
func testRollback(t *testing.T, d effect.Dialect, db *sql.DB) {
	ctx := context.Background()
	s := open(t, db, d, effect.Options{})
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := s.Apply(ctx, tx, "e1", "a", 1); err != nil || res.Outcome != effect.Applied {
		t.Fatalf("%v %v", res, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	ledger(t, db, d)
	if res, err := apply(ctx, db, s, effect.Event{ID: "e1", Entity: "a", Sequence: 1}); err != nil || res.Outcome != effect.Applied {
		t.Errorf("after the rollback: %v %v", res, err)
	}
}

// testPrune: what is forgotten is reported as Stale without a holder.
func testPrune(t *testing.T, d effect.Dialect, db *sql.DB) {
	ctx := context.Background()
	s := open(t, db, d, effect.Options{})
	ledger(t, db, d)
	for i := range int64(5) {
		if _, err := apply(ctx, db, s, effect.Event{ID: fmt.Sprint("e", i+1), Entity: "a", Sequence: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Prune(ctx, time.Now().Add(time.Hour), 3); n != 3 || err != nil {
		t.Fatalf("pruned %d, %v", n, err)
	}
	stale := 0
	for i := range int64(5) {
		res, err := apply(ctx, db, s, effect.Event{ID: fmt.Sprint("e", i+1), Entity: "a", Sequence: i + 1})
		if err != nil {
			t.Fatal(err)
		}
		if res.Outcome == effect.Stale && res.Holder == "" {
			stale++
		}
	}
	if stale != 3 {
		t.Errorf("%d of the pruned events are stale, want 3", stale)
	}
}

// testConcurrent: eight workers deliver every event of ten entities several
// times, in any order, in transactions that conflict and sometimes roll back.
func testConcurrent(t *testing.T, d effect.Dialect, db *sql.DB) {
	const entities, events, workers = 10, 15, 8
	ctx := context.Background()
	s := open(t, db, d, effect.Options{Scope: "g"})
	ledger(t, db, d)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			deliver(ctx, t, db, s, rand.New(rand.NewPCG(uint64(w), 7)), entities, events)
		}()
	}
	wg.Wait()
	checkLedger(t, db, entities, events)
}

// deliver tries random events until every entity is at its end.
func deliver(ctx context.Context, t *testing.T, db *sql.DB, s *effect.Store, rng *rand.Rand, entities, events int) {
	left := make([]int64, entities) // the next sequence to try
	for open := entities; open > 0; {
		n := rng.IntN(entities)
		if left[n] >= int64(events) {
			continue
		}
		e := effect.Event{Entity: fmt.Sprint("entity-", n), Sequence: left[n] + 1 + rng.Int64N(2)}
		if e.Sequence > int64(events) {
			e.Sequence = int64(events)
		}
		e.ID = fmt.Sprintf("%s/%d", e.Entity, e.Sequence)
		if rng.IntN(5) == 0 { // a worker that dies in the middle
			if tx, err := db.BeginTx(ctx, nil); err == nil {
				_, _ = s.ApplyEvent(ctx, tx, e)
				_ = tx.Rollback()
			}
			continue
		}
		res, err := apply(ctx, db, s, e)
		switch {
		case effect.Retryable(err):
		case err != nil:
			t.Error(err)
			return
		case res.Outcome == effect.Stale:
			t.Errorf("%s is stale: %v", e.ID, res)
			return
		case res.Outcome != effect.Gap && e.Sequence == left[n]+1:
			if left[n]++; left[n] == int64(events) {
				open--
			}
		}
	}
}

func checkLedger(t *testing.T, db *sql.DB, entities, events int) {
	t.Helper()
	rows, err := db.Query("SELECT entity, sequence FROM ledger ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	at := map[string]int64{}
	for rows.Next() {
		var entity string
		var sequence int64
		if err := rows.Scan(&entity, &sequence); err != nil {
			t.Fatal(err)
		}
		if at[entity]++; at[entity] != sequence {
			t.Fatalf("%s: effect %d came as number %d", entity, sequence, at[entity])
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for entity, n := range at {
		if n != int64(events) {
			t.Errorf("%s has %d effects, want %d", entity, n, events)
		}
	}
	if len(at) != entities {
		t.Errorf("%d entities, want %d", len(at), entities)
	}
}

// testMigrate: again is nothing, at once is once, newer is refused.
func testMigrate(t *testing.T, d effect.Dialect, db *sql.DB) {
	ctx := context.Background()
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if v, err := effect.Migrate(ctx, db, d); v != 2 || err != nil {
				t.Errorf("version %d, %v", v, err)
			}
		}()
	}
	wg.Wait()
	if _, err := db.Exec("INSERT INTO tidemark_effect_schema (version, name, applied_ms) VALUES (3, 'of tomorrow', 0)"); err != nil {
		t.Fatal(err)
	}
	if _, err := effect.Open(ctx, db, d, effect.Options{}); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("a newer schema: %v", err)
	}
	if _, err := effect.Migrate(ctx, db, "oracle"); err == nil {
		t.Error("an unknown dialect was taken")
	}
}
