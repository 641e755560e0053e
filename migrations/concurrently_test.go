package migrations_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// C85: migrators wait while the one that holds the lock builds an index concurrently, as the golang-migrate command line does for other
// people's files. The index waits for every snapshot, and must not find one of a migrator that waits for the lock.
func TestC85_WaitingMigratorsHoldNoSnapshot(t *testing.T) {
	ctx := testContext(t)
	pool := newPool(t, newDatabase(t), func(config *pgxpool.Config) { config.MaxConns = 20 })
	run(t, pool, `CREATE TABLE public.theirs (id int); INSERT INTO public.theirs SELECT generate_series(1, 1000)`)
	key, err := database.GenerateAdvisoryLockId("/"+value[string](t, pool, `SELECT current_database()::text`), "pgqueue", migrations.VersionTable)
	if err != nil {
		t.Fatal(err)
	}
	builder, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = builder.Close(context.Background()) }()
	if _, err := builder.Exec(ctx, `SELECT pg_advisory_lock(`+key+`)`); err != nil {
		t.Fatal(err)
	}
	// Somebody's unrelated transaction, with a snapshot.
	reader, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	if _, err := reader.Exec(ctx, `SELECT count(*) FROM pg_class`); err != nil {
		t.Fatal(err)
	}

	const migrators = 5
	results := make(chan error, migrators)
	var waiting []chan struct{}
	for range migrators {
		logs := &waitLog{seen: make(chan struct{})}
		waiting = append(waiting, logs.seen)
		go func() { results <- migrations.Up(ctx, pool, "", migrations.WithLogger(slog.New(logs))) }()
	}
	// With the guard gone they never say that they wait: they hang in the statement, which is as good here.
	const hanging = `(SELECT count(*) >= $1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)`
	for _, seen := range waiting {
		select {
		case <-seen:
		case <-time.After(2 * time.Second):
			waitFor(t, pool, "the migrators to wait", hanging, migrators)
		}
	}
	built := make(chan error, 1)
	go func() {
		_, err := builder.Exec(ctx, `CREATE INDEX CONCURRENTLY theirs_index ON public.theirs (id)`)
		_, unlockErr := builder.Exec(ctx, `SELECT pg_advisory_unlock(`+key+`)`)
		built <- errors.Join(err, unlockErr)
	}()
	waitFor(t, pool, "the index to wait for the reader", `EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONC%' AND wait_event_type = 'Lock')`)
	hold := time.NewTimer(time.Duration(size(200, 5000)) * time.Millisecond)
	<-hold.C
	if err := reader.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-built; err != nil {
		t.Errorf("the index: %v", err)
	}
	for range migrators {
		if err := <-results; err != nil {
			t.Errorf("a migrator: %v", err)
		}
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pg_index WHERE NOT indisvalid`); n != 0 {
		t.Errorf("%d invalid indexes", n)
	}
	requireInstalledOnce(t, pool)
	requireNoDrift(t, pool, "")
}

// C85: no step builds an index concurrently, for a step is a transaction, and none adopts an index that is there already.
func TestC85_NoStepIsConcurrentOrTakesWhatItFinds(t *testing.T) {
	names, err := filepath.Glob("sql/*.up.sql")
	if err != nil || len(names) != migrations.Latest {
		t.Fatalf("%q, %v", names, err)
	}
	comment, bad := regexp.MustCompile(`(?m)--.*$`), regexp.MustCompile(`(?i)CREATE[^;]*INDEX[^;]*CONCURRENTLY|CREATE[^;]*IF\s+NOT\s+EXISTS`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := bad.FindString(comment.ReplaceAllString(string(text), "")); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
}

// C85: an invalid index of one of our names is neither adopted before, nor overlooked after.
func TestC85_AnInvalidIndexOfOurNameIsNoticed(t *testing.T) {
	pool := newPool(t, newDatabase(t), nil)
	run(t, pool, `CREATE SCHEMA pgqueue; CREATE TABLE pgqueue.theirs (id int); INSERT INTO pgqueue.theirs VALUES (1), (1)`)
	build := func(sql string) {
		t.Helper()
		var pgErr *pgconn.PgError
		if _, err := pool.Exec(testContext(t), sql); !errors.As(err, &pgErr) || pgErr.Code != "23505" {
			t.Fatalf("%s: %v", sql, err)
		}
		if n := value[int](t, pool, `SELECT count(*) FROM pg_index WHERE NOT indisvalid`); n != 1 {
			t.Fatalf("%d invalid indexes, want 1", n)
		}
	}
	build(`CREATE UNIQUE INDEX CONCURRENTLY jobs_key ON pgqueue.theirs (id)`)
	err := migrations.Up(testContext(t), pool, "", quiet())
	var conflict *migrations.ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "jobs_key") {
		t.Errorf("up: %v", err)
	}
	run(t, pool, `DROP TABLE pgqueue.theirs`)
	mustUp(t, pool, "")

	run(t, pool, `DROP INDEX pgqueue.jobs_key; INSERT INTO pgqueue.jobs (queue, kind, key) VALUES ('q', 'k', 'a'), ('q', 'k', 'a')`)
	build(`CREATE UNIQUE INDEX CONCURRENTLY jobs_key ON pgqueue.jobs (queue, kind, key) WHERE key IS NOT NULL`)
	mustUp(t, pool, "") // the version is as it was: Up does not look
	if got := validate(t, pool, "").String(); !strings.Contains(got, "changed: index jobs_key: valid is false and should be true\n") {
		t.Errorf("validate: %s", got)
	}
	// What Postgres says to do about it.
	run(t, pool, `DELETE FROM pgqueue.jobs WHERE id = 1`)
	run(t, pool, `REINDEX INDEX CONCURRENTLY pgqueue.jobs_key`)
	run(t, pool, `COMMENT ON INDEX pgqueue.jobs_key IS 'pgqueue: again.'`)
	requireNoDrift(t, pool, "")
}
