package pgqueuetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// one returns the single value of a query.
func one[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (value T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// databaseName is the name in the database's URL.
func databaseName(t testing.TB, db *DB) string {
	t.Helper()
	location, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(location.Path, "/")
}

// databases lists the databases on the source's server whose name begins with prefix.
func databases(t testing.TB, from *source, prefix string) []string {
	t.Helper()
	var names []string
	err := from.do(t.Context(), func(conn *pgx.Conn) error {
		rows, err := conn.Query(t.Context(), "SELECT datname FROM pg_database WHERE starts_with(datname, $1) ORDER BY 1", prefix)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func shared(t testing.TB) *source {
	t.Helper()
	from, err := sharedSource()
	if err != nil {
		t.Fatal(err)
	}
	return from
}

func TestNewGivesAMigratedDatabase(t *testing.T) {
	t.Parallel()
	db := New(t)
	if db.Schema != "pgqueue" {
		t.Errorf("schema %q", db.Schema)
	}
	state, err := migrations.Status(t.Context(), db.Pool, db.Schema)
	if err != nil || !state.Current() {
		t.Errorf("%+v %v", state, err)
	}
	if got := one[string](t, db.Pool, "SELECT current_setting('application_name')"); got != t.Name() {
		t.Errorf("application_name %q", got)
	}
	if got := one[string](t, db.Pool, "SELECT current_database()"); got != databaseName(t, db) {
		t.Errorf("the pool is connected to %q, the URL names %q", got, databaseName(t, db))
	}
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
}

func TestSchemaThatNeedsQuoting(t *testing.T) {
	t.Parallel()
	for range 2 { // the second is a copy
		db := New(t, WithSchema(`My "jobs"; --`))
		if got := one[int](t, db.Pool, `SELECT count(*) FROM "My ""jobs""; --".jobs`); got != 0 {
			t.Errorf("%d jobs", got)
		}
		if one[bool](t, db.Pool, "SELECT to_regnamespace('pgqueue') IS NOT NULL") {
			t.Error("the default schema is there too")
		}
	}
}

func TestWithoutMigrations(t *testing.T) {
	t.Parallel()
	db := New(t, WithoutMigrations())
	if got := one[int](t, db.Pool, `SELECT count(*) FROM pg_namespace WHERE nspname NOT IN ('public', 'information_schema')
		AND nspname NOT LIKE 'pg\_%'`); got != 0 {
		t.Errorf("%d schemas in an empty database", got)
	}
}

func TestWithPoolConfig(t *testing.T) {
	t.Parallel()
	db := New(t, WithPoolConfig(func(c *pgxpool.Config) { c.MaxConns = 99 }), WithPoolConfig(func(c *pgxpool.Config) { c.MaxConns /= 33 }))
	if got := db.Pool.Config().MaxConns; got != 3 {
		t.Errorf("MaxConns %d", got)
	}
}

func TestParallelTestsAreIsolated(t *testing.T) {
	t.Parallel()
	New(t) // the template is made outside the measured time
	var copies, nanoseconds atomic.Int64
	t.Run("group", func(t *testing.T) {
		for i := range 20 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				db := New(t)
				copies.Add(1)
				nanoseconds.Add(int64(time.Since(start)))
				if got := one[int](t, db.Pool, "WITH x AS (SELECT pgqueue.enqueue('kind', '{}')) SELECT count(*) FROM x"); got != 1 {
					t.Errorf("enqueued %d", got)
				}
				if got := one[int](t, db.Pool, "SELECT count(*) FROM pgqueue.jobs"); got != 1 {
					t.Errorf("%d jobs, one is this test's", got)
				}
			})
		}
	})
	t.Logf("%d databases, %v each", copies.Load(), time.Duration(nanoseconds.Load()/copies.Load()).Round(100*time.Microsecond))
}

func TestTheDatabaseGoesWithTheTestWhoeverIsConnected(t *testing.T) {
	t.Parallel()
	var name string
	var stranger *pgx.Conn
	ended := t.Run("leaking", func(t *testing.T) {
		db := New(t)
		name = databaseName(t, db)
		if _, err := db.Pool.Acquire(t.Context()); err != nil { // never released
			t.Fatal(err)
		}
		var err error
		if stranger, err = pgx.Connect(context.Background(), db.URL); err != nil { // never closed
			t.Fatal(err)
		}
	})
	if !ended {
		t.Fatal("the inner test failed")
	}
	if slices.Contains(databases(t, shared(t), name), name) { // as a prefix it is that of others, too
		t.Errorf("%s is still there", name)
	}
	if err := stranger.Ping(t.Context()); err == nil {
		t.Error("the stranger is still connected")
	}
}

func TestAPoolClosedByTheTestIsNoTrouble(t *testing.T) {
	t.Parallel()
	New(t).Pool.Close()
}

func TestNobodyCanConnectToATemplate(t *testing.T) {
	t.Parallel()
	New(t)
	from := shared(t)
	name, err := from.template(migrations.DefaultSchema).get(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := pgx.Connect(t.Context(), urlOf(from.direct, name)); err == nil {
		conn.Close(t.Context())
		t.Error("connected")
	}
}

// failing is a testing.TB that only notes how it ended.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

func TestFailuresAreToldByTheTest(t *testing.T) {
	t.Parallel()
	f := &failing{TB: t}
	func() {
		defer func() {
			if ended := recover(); ended != f {
				t.Errorf("New went on: %v", ended)
			}
		}()
		New(f, WithSchema("pg_reserved"))
	}()
	if !strings.Contains(f.text, `schema "pg_reserved"`) {
		t.Errorf("it says %q", f.text)
	}
}

func TestATemplateThatCannotBeMigratedIsDroppedAndTriedAgain(t *testing.T) {
	t.Parallel()
	from, err := newSource(t.Context(), shared(t).text)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	from.migrate = func(context.Context, *pgx.Conn, string) error { return broken }
	if _, err := from.create(t.Context(), newOptions(nil)); !errors.Is(err, broken) {
		t.Errorf("create: %v", err)
	}
	if left := databases(t, from, from.mine); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	from.migrate = migrateUp
	name, err := from.create(t.Context(), newOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	made := databases(t, from, from.mine)
	if len(made) != 2 || !slices.Contains(made, name) {
		t.Errorf("made %v", made)
	}
	for _, name := range made { // on the shared server, which may be one of the user's
		if err := from.drop(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

func TestTruncateKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"abc": "abc", "abcdefg": "abcd", "abcé": "abc", "éééé": "éé"} {
		if got := truncate(text, 4); got != want {
			t.Errorf("truncate(%q) = %q", text, got)
		}
	}
}
