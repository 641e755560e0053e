package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgqueue/pgqueue/migrations"
)

// C90: the caller's pool is used, and it is the caller's afterwards.
func TestC90_TheCallersPoolIsNeitherClosedNorLeaked(t *testing.T) {
	prepared := 0
	pool := newPool(t, newDatabase(t), func(config *pgxpool.Config) {
		config.MaxConns = 20
		config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { prepared++; return nil }
	})
	mustUp(t, pool, "")
	requireNoDrift(t, pool, "")
	mustDown(t, pool, "")
	mustUp(t, pool, "")
	if value[int](t, pool, `SELECT 1`) != 1 || pool.Stat().AcquiredConns() != 0 || pool.Stat().NewConnsCount() != 1 || prepared != 1 {
		t.Errorf("acquired %d, opened %d, prepared %d; want 0, 1, 1", pool.Stat().AcquiredConns(), pool.Stat().NewConnsCount(), prepared)
	}
}

// failures are the ways in which migrations end with an error: before, in and after their transaction.
func failures(t *testing.T, admin *pgxpool.Pool, role string) map[string]func(db migrations.Database) error {
	t.Helper()
	run(t, admin, `CREATE SCHEMA taken AUTHORIZATION `+role+`; CREATE TABLE taken.jobs (theirs int)`)
	run(t, admin, `CREATE SCHEMA broken; CREATE TABLE broken.pgqueue_migrations (theirs int); GRANT ALL ON SCHEMA broken TO `+role)
	run(t, admin, `CREATE SCHEMA used; GRANT ALL ON SCHEMA used TO `+role)
	mustUp(t, admin, "used")
	refused := func(err error) error {
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) {
			return fmt.Errorf("an error of the server was expected: %w", err)
		}
		return nil
	}
	ended, cancel := context.WithCancel(testContext(t))
	cancel()
	return map[string]func(db migrations.Database) error{
		"no right": func(db migrations.Database) error {
			return refused(migrations.Up(testContext(t), db, "forbidden", quiet()))
		},
		"a name is taken": func(db migrations.Database) error {
			return refused(migrations.Up(testContext(t), db, "taken", quiet()))
		},
		"no right to look": func(db migrations.Database) error {
			return refused(migrations.Up(testContext(t), db, "broken", quiet()))
		},
		"no right to drop": func(db migrations.Database) error {
			return refused(migrations.Down(testContext(t), db, "used", quiet()))
		},
		"no right to validate": func(db migrations.Database) error {
			_, err := migrations.Validate(testContext(t), db, "used")
			return refused(err)
		},
		"no time": func(db migrations.Database) error {
			if err := migrations.Up(ended, db, "", quiet()); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("with a context that has ended: %w", err)
			}
			return nil
		},
	}
}

// C90: thirty failures of each kind leak no connection of a pgxpool.
func TestC90_FailuresLeakNoConnectionOfAPgxpool(t *testing.T) {
	url := newDatabase(t)
	admin := newPool(t, url, nil)
	role := "leaky_" + value[string](t, admin, `SELECT current_database()::text`)
	run(t, admin, `CREATE ROLE `+role+` LOGIN`)
	pool := newPool(t, url, func(config *pgxpool.Config) { config.ConnConfig.User = role; config.MaxConns = 20 })
	for name, fail := range failures(t, admin, role) {
		for i := range 30 {
			if err := fail(pool); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if n := pool.Stat().AcquiredConns(); n != 0 {
				t.Fatalf("%s, the %d. time: %d connections were not given back", name, i+1, n)
			}
		}
	}
	if value[int](t, pool, `SELECT 1`) != 1 {
		t.Error("the pool does not work any more")
	}
}

// C90: an application that has a *sql.DB over pgx lends a connection of it, as docs/upgrading.md says.
func TestC90_ASQLDBIsNeitherClosedNorLeaked(t *testing.T) {
	ctx := testContext(t)
	url := newDatabase(t)
	admin := newPool(t, url, nil)
	role := "std_" + value[string](t, admin, `SELECT current_database()::text`)
	run(t, admin, `CREATE ROLE `+role+` LOGIN; CREATE SCHEMA mine AUTHORIZATION `+role)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.User = role
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	lend := func(use func(db migrations.Database) error) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return conn.Raw(func(driver any) error { return use(driver.(*stdlib.Conn).Conn()) })
	}
	usable := func(what string) {
		t.Helper()
		var one int
		if err := errors.Join(db.PingContext(ctx), db.QueryRowContext(ctx, `SELECT 1`).Scan(&one)); err != nil || one != 1 {
			t.Errorf("after %s: %v", what, err)
		}
		if stats := db.Stats(); stats.InUse != 0 || stats.OpenConnections != 1 {
			t.Errorf("after %s: %+v", what, stats)
		}
	}
	if err := lend(func(db migrations.Database) error { return migrations.Up(ctx, db, "mine", quiet()) }); err != nil {
		t.Fatal(err)
	}
	usable("up")
	for name, fail := range failures(t, admin, role) {
		if name == "no time" {
			continue // pgx closes a connection whose statement was cut off, and database/sql opens another
		}
		for range 30 {
			if err := lend(fail); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		usable(name)
	}
	if err := lend(func(db migrations.Database) error { return migrations.Down(ctx, db, "mine", quiet()) }); err != nil {
		t.Fatal(err)
	}
	usable("down")
}
