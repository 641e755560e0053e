package pgqueuetest

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/runner"
)

// nearTime tells whether two times are close for a busy machine, and far from the hours that these tests advance.
func nearTime(a, b time.Time) bool { return a.Sub(b).Abs() < 2*time.Minute }

// counting is a mux whose handler of welcome counts.
func counting() (*pgqueue.Mux, chan int64) {
	mux, ran := pgqueue.NewMux(), make(chan int64, 100)
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[welcome]) error { ran <- job.ID; return nil })
	return mux, ran
}

// A job scheduled in three hours is due after three hours and not before, in a drain, with any schema's name.
func TestClockMakesScheduledJobsDue(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"pgqueue", `Jobs of "Ada"`} {
		db := New(t, WithSchema(schema))
		clock, client := NewClock(t, db), db.Client(t)
		mux, ran := counting()
		id := enqueue(t, client, db.Pool, welcome{}, pgqueue.WithDelay(3*time.Hour))
		clock.Advance(3*time.Hour - 2*time.Minute)
		Drain(t, client, mux)
		if len(ran) != 0 {
			t.Fatal("it ran before its time")
		}
		clock.Advance(2 * time.Minute)
		Drain(t, client, mux)
		if len(ran) != 1 {
			t.Fatalf("it ran %d times", len(ran))
		}
		job, err := client.Get(t.Context(), db.Pool, id)
		if err != nil {
			t.Fatal(err)
		}
		if later := time.Now().Add(3 * time.Hour); !nearTime(job.FinishedAt, later) || !nearTime(job.CreatedAt, time.Now()) || !nearTime(clock.Now(), later) {
			t.Errorf("created %v, finished %v, now %v", job.CreatedAt, job.FinishedAt, clock.Now())
		}
	}
}

// A database has one clock, and a second call says so.
func TestASecondClock(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock := NewClock(t, db)
	clock.Advance(time.Hour)
	if text := message(t, func(t testing.TB) { NewClock(t, db) }); !strings.Contains(text, "has one already") {
		t.Errorf("it says %q", text)
	}
	if now := clock.Now(); !nearTime(now, time.Now().Add(time.Hour)) {
		t.Errorf("the first one shows %v", now)
	}
}

// A worker that sleeps for hours is woken by the clock, and by nothing else: no hint comes with the jobs.
func TestClockWakesWorkers(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock, client := NewClock(t, db), db.Client(t, pgqueue.WithoutHints())
	mux, _ := counting()
	config := pgqueue.WorkerConfig{Queues: pgqueue.Queues{"default": {Poll: 12 * time.Hour}, "mail": {Poll: 12 * time.Hour}}}
	config.ListenerConn = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, db.DirectURL) }
	hears := make(chan struct{}, 1)
	config.Observer = connected(hears)
	first := enqueue(t, client, db.Pool, welcome{})
	sub := startWorker(t, client, mux, config)
	WaitFor(t, sub, func(e pgqueue.Event) bool { return e.Job.ID == first })
	<-hears
	later := enqueue(t, client, db.Pool, welcome{}, pgqueue.WithDelay(3*time.Hour))
	mail := enqueue(t, client, db.Pool, welcome{}, pgqueue.WithDelay(2*time.Hour), pgqueue.OnQueue("mail"))
	clock.Advance(3 * time.Hour)
	for range 2 {
		WaitFor(t, sub, func(e pgqueue.Event) bool {
			return (e.Job.ID == later || e.Job.ID == mail) && e.Outcome == runner.Succeeded && e.Job.ClaimedAt.After(e.Job.RunAt)
		})
	}
}

// connected is told when a worker listens.
type connected chan struct{}

func (c connected) ListenerConnected() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// startWorker runs a worker until the test ends, and returns a subscription to all of its events.
func startWorker(t *testing.T, client *pgqueue.Client, mux *pgqueue.Mux, config pgqueue.WorkerConfig) *pgqueue.Subscription {
	t.Helper()
	worker, err := client.NewWorker(mux, config)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := worker.Subscribe(pgqueue.SubscribeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return sub
}

// In the test's own transaction the clock moves as well: what was enqueued there becomes due there.
func TestClockMovesInTransactions(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock, client := NewClock(t, db), db.Client(t)
	tx := begin(t, db)
	mux, ran := counting()
	enqueue(t, client, tx, welcome{}, pgqueue.WithDelay(time.Hour))
	DrainTx(t, tx, client, mux)
	if len(ran) != 0 {
		t.Fatal("it ran before its time")
	}
	clock.Advance(time.Hour)
	if jobs := Enqueued[welcome](t, tx); len(jobs) != 1 || !jobs[0].Due {
		t.Errorf("after an hour %+v", jobs)
	}
	if result := DrainTx(t, tx, client, mux); result.Outcomes.Succeeded != 1 {
		t.Errorf("%+v", result)
	}
}

func begin(t *testing.T, db *DB) pgx.Tx {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // it may have ended
	return tx
}

// A lease that the clock has passed is taken back, as after a crash, and backoffs pass.
func TestClockPassesLeasesAndBackoffs(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock, client := NewClock(t, db), db.Client(t)
	id := enqueue(t, client, db.Pool, welcome{})
	_, err := db.Pool.Exec(t.Context(), `UPDATE pgqueue.jobs SET state = 'running', attempt = 1, claimed_generation = generation,
		claimed_at = now(), lease_expires_at = now() + interval '10 min', claimed_by = 'one that was killed'`)
	if err != nil {
		t.Fatal(err)
	}
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[welcome]) error { return context.DeadlineExceeded })
	if result := Drain(t, client, mux); result.Claimed+result.Recovered.Requeued != 0 {
		t.Fatalf("before the lease has run out: %+v", result)
	}
	clock.Advance(11 * time.Minute)
	recovered := Drain(t, client, mux).Recovered.Requeued
	for range 5 {
		clock.Advance(2 * time.Minute)
		Drain(t, client, mux)
	}
	job, err := client.Get(t.Context(), db.Pool, id)
	if err != nil || recovered != 1 || job.State != pgqueue.JobDead || len(job.Failed) != 3 || job.Failed[0].Code != "lease_expired" {
		t.Errorf("recovered %d, then %+v, %v", recovered, job, err)
	}
}

// What SQL says of times goes by the clock: functions, views, defaults, and what the test asks itself. What is made goes where it
// always does.
func TestClockIsSeenBySQL(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock := NewClock(t, db)
	noon := time.Date(2031, time.March, 30, 12, 0, 0, 0, time.UTC)
	clock.Set(noon)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, db.URL) // a session of the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range []string{
		"SELECT pgqueue.enqueue('welcome', '{}', queue => 'd')",
		"SELECT pgqueue.pause('q', 'closed')",
		"INSERT INTO pgqueue.jobs (queue, kind, payload) VALUES ('d', 'k', '{}')",
		"INSERT INTO pgqueue.queues (name) VALUES ('r')",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	for _, query := range []string{
		"now()", "statement_timestamp()", "transaction_timestamp()", "clock_timestamp()",
		"(SELECT created_at FROM pgqueue.jobs WHERE kind = 'welcome')",
		"(SELECT run_at FROM pgqueue.jobs WHERE kind = 'welcome')",
		"(SELECT created_at FROM pgqueue.jobs WHERE kind = 'k')",
		"(SELECT paused_at FROM pgqueue.queues WHERE name = 'q')",
		"(SELECT updated_at FROM pgqueue.queues WHERE name = 'r')",
	} {
		var at time.Time
		if err := conn.QueryRow(ctx, "SELECT "+query).Scan(&at); err != nil || !nearTime(at, noon) {
			t.Errorf("%s is %v, %v; want %v", query, at, err, noon)
		}
	}
	clock.Advance(48 * time.Hour)
	var age float64
	if err := conn.QueryRow(ctx, "SELECT oldest_ready_seconds::float8 FROM pgqueue.queue_stats WHERE queue = 'd'").Scan(&age); err != nil || age < 47*3600 {
		t.Errorf("the view shows an age of %v s, %v", age, err)
	}
	// Here the clock's functions need no schema, so whoever still has those of Postgres shows it.
	var views, fixed int
	err = conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE d ~ '\m(now|[a-z]+_timestamp)\(\)'), count(*) FILTER (WHERE d ~ 'pg_catalog\.(now|[a-z]+_timestamp)\(\)')
		FROM (SELECT pg_get_viewdef(oid) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'pgqueue'::regnamespace
		      UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef) x(d)`).Scan(&views, &fixed)
	if err != nil || views < 5 || fixed != 0 {
		t.Errorf("of %d views and defaults with times %d are not moved, %v", views, fixed, err)
	}
	var schema string
	if err := conn.QueryRow(ctx, "SELECT current_schema()").Scan(&schema); err != nil || schema != "public" {
		t.Errorf("new tables go to schema %q, %v", schema, err)
	}
}

// Two days are two partitions of the history, made as the days come, also in the past.
func TestClockCrossesDays(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock, client := NewClock(t, db), db.Client(t)
	mux, ran := counting()
	for _, day := range []time.Time{time.Date(2001, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(2040, 2, 29, 12, 0, 0, 0, time.UTC)} {
		clock.Set(day)
		id := enqueue(t, client, db.Pool, welcome{})
		Drain(t, client, mux)
		<-ran
		var stored string
		err := db.Pool.QueryRow(t.Context(), "SELECT day::text FROM pgqueue.history WHERE id = $1", id).Scan(&stored)
		if err != nil || stored != day.Format(time.DateOnly) {
			t.Errorf("on %v history has day %s, %v", day, stored, err)
		}
	}
}

// Claims go by their index under the clock too: its functions are STABLE.
func TestClockKeepsTheIndexes(t *testing.T) {
	t.Parallel()
	db := New(t)
	NewClock(t, db)
	tx := begin(t, db)
	_, err := tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), `EXPLAIN SELECT id FROM pgqueue.jobs WHERE queue = 'q' AND priority = 1 AND state = 'pending'
		AND run_at <= statement_timestamp() ORDER BY run_at, id LIMIT 10 FOR UPDATE SKIP LOCKED`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	plan := strings.Join(lines, "\n")
	if err != nil || !regexp.MustCompile(`Index Cond:.*run_at <= .*statement_timestamp\(\)`).MatchString(plan) {
		t.Errorf("%v\n%s", err, plan)
	}
}

// Another role, which has no rights on anything, sees the clock in its own session.
func TestClockIsSeenByOtherRoles(t *testing.T) {
	t.Parallel()
	db := New(t)
	clock := NewClock(t, db)
	clock.Advance(5 * time.Hour)
	tx := begin(t, db)
	if _, err := tx.Exec(t.Context(), "CREATE ROLE pgqueuetest_nobody; SET LOCAL ROLE pgqueuetest_nobody", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	var now time.Time
	if err := tx.QueryRow(t.Context(), "SELECT now()").Scan(&now); err != nil || !nearTime(now, time.Now().Add(5*time.Hour)) {
		t.Errorf("it sees %v, %v", now, err)
	}
}

func TestClockRefusesWhatItCannotMove(t *testing.T) {
	t.Parallel()
	own := New(t, WithPoolConfig(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "public" }))
	if text := message(t, func(t testing.TB) { NewClock(t, own) }); !strings.Contains(text, "search_path of their own") {
		t.Errorf("with a path of the pool's own: %q", text)
	}
	empty := New(t, WithoutMigrations())
	if text := message(t, func(t testing.TB) { NewClock(t, empty) }); !strings.Contains(text, `schema "pgqueue"`) {
		t.Errorf("without tables: %q", text)
	}
	db := New(t)
	if text := message(t, func(t testing.TB) { NewClock(t, db).Advance(-time.Second) }); !strings.Contains(text, "goes forward") {
		t.Errorf("backwards: %q", text)
	}
}

// Nothing that pgqueue sends asks Postgres for the time in a way that the clock cannot reach.
func TestAllTimesCanBeMoved(t *testing.T) {
	t.Parallel()
	fixed := regexp.MustCompile(`(?i)pg_catalog\.(now|statement_timestamp|clock_timestamp|transaction_timestamp)|\b(current_(timestamp|date|time)|localtime(stamp)?)\b|timeofday\(\)`)
	files := 0
	for _, pattern := range []string{"../pgqueue/internal/jobstore/*.sql", "../schedule/*.sql", "../migrations/sql/*.up.sql", "../pgqueue/*.go", "../schedule/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files++
			for i, line := range strings.Split(string(text), "\n") {
				if code, _, _ := strings.Cut(line, "-- "); !strings.HasPrefix(strings.TrimSpace(line), "//") && fixed.MatchString(code) {
					t.Errorf("%s:%d: %s", path, i+1, line)
				}
			}
		}
	}
	if files < 20 {
		t.Errorf("only %d files", files)
	}
	// Defaults of functions' arguments are not made anew.
	db := New(t)
	var with int
	err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_proc WHERE pronamespace = 'pgqueue'::regnamespace
		AND pg_get_function_arguments(oid) ~ '(now|_timestamp)\('`).Scan(&with)
	if err != nil || with != 0 {
		t.Errorf("%d functions have an argument whose default is a time, %v", with, err)
	}
}
