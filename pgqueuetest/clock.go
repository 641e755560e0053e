package pgqueuetest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgqueue/pgqueue/migrations"
)

//go:embed clock.sql
var clockFile string

// Clock is the time of one test's database, which the test moves. Its methods are for the test's own goroutine: they end the test
// when the database does not do what they ask.
type Clock struct {
	t          testing.TB
	db         *DB
	statements map[string]string
}

// NewClock gives the test a clock that it can move, in place of the database's own: what clients, workers, drains, schedules and
// pgqueue's SQL functions call now is the clock's time from then on, and what the test asks with an unqualified now() too. At
// first it shows the server's time. Call it before anything else is done with the database: sessions that were opened before, but
// idle ones of db.Pool, do not see it. A database has one clock: a second call ends the test.
//
//	clock := pgqueuetest.NewClock(t, db)
//	client.Enqueue(ctx, db.Pool, Remind{}, pgqueue.WithDelay(3*time.Hour))
//	clock.Advance(3 * time.Hour) // the worker runs it at once
//
// It works by a schema pgqueue_clock with functions now(), statement_timestamp(), clock_timestamp() and transaction_timestamp(),
// which the search path of the database puts before those of Postgres. So a session does not see it that has a search path of its
// own without that schema (of a role, or a connection string; NewClock ends the test if those of db.Pool have), and neither
// does SQL that says CURRENT_TIMESTAMP or pg_catalog.now(). migrations.Validate and the doctor find the changed functions and say
// so. Tests that measure speed should not use it.
//
// Go's time is not moved: deadlines of handlers, poll intervals and time.Now are as ever. In synctest bubbles there is no database
// at all.
func NewClock(t testing.TB, db *DB) *Clock {
	t.Helper()
	if db == nil {
		t.Fatalf("pgqueuetest: make a clock: db must not be nil")
	}
	ctx, cancel := context.WithTimeout(t.Context(), cleanupTimeout)
	defer cancel()
	c := &Clock{t: t, db: db, statements: clockStatements(db.Schema)}
	conn, err := pgx.Connect(ctx, db.DirectURL)
	if err != nil {
		t.Fatalf("pgqueuetest: make a clock: %v", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = c.install(ctx, conn)
	if hasClock(err) {
		t.Fatalf("pgqueuetest: make a clock: the database has one already: call NewClock once, and hand the *Clock on (%v)", err)
	}
	if err != nil {
		t.Fatalf("pgqueuetest: make a clock: %v", err)
	}
	if db.URL != db.DirectURL {
		if _, err := conn.Exec(ctx, c.statements["hang_up"]); err != nil {
			t.Fatalf("pgqueuetest: make a clock: %v", err)
		}
	}
	db.Pool.Reset() // its sessions have the search path of before
	var works bool
	err = whenReady(ctx, away, func() error {
		return db.Pool.QueryRow(ctx, c.statements["works"], pgx.QueryExecModeExec).Scan(&works)
	})
	if err != nil || !works {
		t.Fatalf("pgqueuetest: make a clock: the sessions of the pool do not see it; have they a search_path of their own, from the "+
			"connection string or the role? (%v)", err)
	}
	return c
}

// hasClock tells whether an error of install means that another NewClock was there before: duplicate_schema, or of two at once, unique_violation.
func hasClock(err error) bool {
	var fromServer *pgconn.PgError
	return errors.As(err, &fromServer) && (fromServer.Code == "42P06" || fromServer.Code == "23505")
}

// clockStatements are the sections of clock.sql by name.
func clockStatements(schema string) map[string]string {
	statements := map[string]string{}
	for _, section := range strings.Split(clockFile, "\n-- name: ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		statements[name] = strings.ReplaceAll(text, "{schema}", quote(schema))
	}
	return statements
}

// install makes the functions and has what is there already use them.
func (c *Clock) install(ctx context.Context, conn *pgx.Conn) error {
	var path string
	if err := conn.QueryRow(ctx, c.statements["path"]).Scan(&path); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		steps := []string{"schema", "usage", "setting", "row", "read"}
		for _, step := range steps {
			if _, err := tx.Exec(ctx, c.statements[step]); err != nil {
				return fmt.Errorf("%s: %w", step, err)
			}
		}
		for _, name := range []string{"now", "statement_timestamp", "clock_timestamp", "transaction_timestamp"} {
			if _, err := tx.Exec(ctx, strings.ReplaceAll(c.statements["function"], "{name}", name)); err != nil {
				return fmt.Errorf("function %s: %w", name, err)
			}
		}
		if _, err := tx.Exec(ctx, "SET LOCAL search_path = pg_catalog"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, c.statements["definitions"], quote(c.db.Schema))
		if err != nil {
			return err
		}
		definitions, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("read what schema %q uses of the time: %w", c.db.Schema, err)
		}
		if len(definitions) == 0 {
			return fmt.Errorf("schema %q has nothing of pgqueue's in it; migrate it first", c.db.Schema)
		}
		if _, err := tx.Exec(ctx, "SET LOCAL search_path = pgqueue_clock, pg_catalog"); err != nil {
			return err
		}
		for _, definition := range append(definitions, path) {
			if _, err := tx.Exec(ctx, definition); err != nil {
				return fmt.Errorf("%s: %w", short(definition), err)
			}
		}
		return nil
	})
}

// Advance moves the clock on by d, which must not be negative, and wakes the workers of every queue: what has become due runs at
// once. What waits for the passing of time otherwise notices as it would after a sleep of the whole machine: a lease that has
// run out meanwhile is taken back at the reaper's next look, though its handler may live and may have renewed it before; heartbeats look
// old until the next one.
func (c *Clock) Advance(d time.Duration) {
	c.t.Helper()
	if d < 0 {
		c.t.Fatalf("pgqueuetest: advance the clock by %v: it goes forward; see Set", d)
	}
	c.move("advance", d.Microseconds())
}

// Set sets the clock to now, from where it goes on, and wakes the workers as Advance does. It may go back, which real clocks do not:
// do that before anything is enqueued.
func (c *Clock) Set(now time.Time) {
	c.t.Helper()
	c.move("set", now)
}

func (c *Clock) move(how string, by any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), queryTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, c.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, c.statements[how], by); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, c.statements["hint"], migrations.Channel(c.db.Schema))
		return err
	})
	if err != nil {
		c.t.Fatalf("pgqueuetest: %s the clock: %v", how, err)
	}
}

// Now is the clock's time, as a statement that is sent now would see it.
func (c *Clock) Now() time.Time {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), queryTimeout)
	defer cancel()
	var now time.Time
	if err := c.db.Pool.QueryRow(ctx, c.statements["now"]).Scan(&now); err != nil {
		c.t.Fatalf("pgqueuetest: read the clock: %v", err)
	}
	return now
}
