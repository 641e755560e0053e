package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// run1 calls a function and returns its answer as text: its columns, joined by blanks.
func run1(t *testing.T, pool *pgxpool.Pool, call string, args ...any) string {
	t.Helper()
	return value[string](t, pool, `SELECT trim(translate(f::text, ',()', ' ')) FROM `+call+` f`, args...)
}

// hint listens, runs do, and returns the payload of the one hint that came.
func hint(t *testing.T, pool *pgxpool.Pool, do func()) string {
	t.Helper()
	ctx := testContext(t)
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(ctx, `LISTEN pgqueue`); err != nil {
		t.Fatal(err)
	}
	do()
	run(t, pool, `SELECT pg_notify('pgqueue', 'end of the test')`)
	var heard []string
	for {
		note, err := conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if note.Payload == "end of the test" {
			return strings.Join(heard, " ")
		}
		heard = append(heard, note.Payload)
	}
}

func TestPauseAndResume(t *testing.T) {
	pool := installed(t, "")
	heard := hint(t, pool, func() {
		run(t, pool, `SELECT pgqueue.pause('mail', 'the provider is down')`)
		run(t, pool, `SELECT pgqueue.pause('other')`)
	})
	if heard != "mail other" {
		t.Errorf("hints %q", heard)
	}
	first := value[string](t, pool, `SELECT paused_at || ' ' || paused_reason FROM pgqueue.queues WHERE name = 'mail'`)
	if again := run1(t, pool, `pgqueue.pause('mail', 'still down')`); !strings.HasPrefix(first, again) {
		t.Errorf("paused since %q, the second call says %q", first, again)
	}
	if reason := value[string](t, pool, `SELECT paused_reason FROM pgqueue.queues WHERE name = 'mail'`); reason != "still down" {
		t.Errorf("reason %q", reason)
	}
	if heard := hint(t, pool, func() {
		if got := run1(t, pool, `pgqueue.resume('mail')`); got != "true" {
			t.Errorf("resume said %q", got)
		}
		for _, queue := range []string{"mail", "unknown"} { // not paused, not there
			if got := run1(t, pool, `pgqueue.resume($1)`, queue); got != "false" {
				t.Errorf("resume of %s said %q", queue, got)
			}
		}
	}); heard != "mail" {
		t.Errorf("hints %q", heard)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.queues WHERE name = 'mail' AND paused_at IS NULL AND paused_reason IS NULL`); n != 1 {
		t.Error("mail is not as it was")
	}
	for call, want := range map[string]string{
		`pgqueue.pause('')`: "queue must have", `pgqueue.pause(NULL)`: "queue must have", `pgqueue.pause(repeat('q', 129))`: "queue must have",
		`pgqueue.pause('q', repeat('r', 1025))`: "1025 bytes where 1024", `pgqueue.resume('')`: "queue must have",
		`pgqueue.set_max_attempts(1, 0)`: "from 1 to 32767, is 0", `pgqueue.set_max_attempts(1, NULL)`: "is NULL", `pgqueue.set_max_attempts(1, 32768)`: "is 32768",
	} {
		_, err := pool.Exec(testContext(t), `SELECT `+call)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22023" || !strings.Contains(pgErr.Message, want) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Each function of this version, on a job in each state.
func TestControlFunctionsOnEveryState(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, state, claimed_at, lease_expires_at)
		VALUES (1, 'q', 'k', 'pending', NULL, NULL), (2, 'q', 'k', 'running', now(), now())`)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, key, payload, metadata, tags)
		SELECT id, now(), now(), now(), CASE WHEN state IN ('failed', 'dead') THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END,
			7, 2, 5, 2, 3, 3, 'q', 'k', state, key, '{"n": 1}', '{"m": 1}', '{t}'
		FROM (VALUES (3, 'succeeded', NULL), (4, 'cancelled', NULL), (5, 'failed', NULL), (6, 'dead', 'K')) v (id, state, key)`)
	for _, c := range []struct{ call, want string }{
		{`pgqueue.retry(1)`, "live"}, {`pgqueue.retry(2)`, "live"}, {`pgqueue.retry(3)`, "not_found"}, {`pgqueue.retry(4)`, "not_found"},
		{`pgqueue.retry(9)`, "not_found"}, {`pgqueue.retry(NULL)`, "not_found"},
		{`pgqueue.cancel(3)`, "not_found"}, {`pgqueue.cancel(6)`, "not_found"}, {`pgqueue.cancel(9)`, "not_found"},
		{`pgqueue.set_max_attempts(1, 4)`, "pending"}, {`pgqueue.set_max_attempts(2, 4)`, "running"}, {`pgqueue.set_max_attempts(3, 4)`, "not_found"},
		{`pgqueue.set_max_attempts(5, 4)`, "failed"}, {`pgqueue.set_max_attempts(6, 20)`, "dead"}, {`pgqueue.set_max_attempts(9, 4)`, "not_found"},
		{`pgqueue.retry(5)`, "retried"}, {`pgqueue.retry(5)`, "live"}, {`pgqueue.cancel(5)`, "cancelled"}, {`pgqueue.cancel(2)`, "requested"},
	} {
		if got := run1(t, pool, c.call); got != c.want {
			t.Errorf("%s: %q, want %q", c.call, got, c.want)
		}
	}
	run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, key) VALUES (10, 'q', 'k', 'K')`)
	if got := run1(t, pool, `pgqueue.retry(6)`); got != "key_taken 10" {
		t.Errorf("retry beside a job of the key: %q", got)
	}
	if got := value[string](t, pool, `SELECT state FROM pgqueue.history WHERE id = 6`); got != "dead" {
		t.Errorf("the refused job is %s", got)
	}
	run(t, pool, `DELETE FROM pgqueue.jobs WHERE id = 10`)
	if heard := hint(t, pool, func() { run(t, pool, `SELECT pgqueue.retry(6)`) }); heard != "q" {
		t.Errorf("hints of a retry: %q", heard)
	}
	const whole = `SELECT concat_ws(' ', state, attempt, generation, claimed_generation, error_count, priority, failures, max_attempts, queue, kind, key,
		payload, metadata, tags, claimed_at IS NULL, run_at <= now()) FROM pgqueue.jobs WHERE id = 6`
	if got, want := value[string](t, pool, whole), `pending 7 2 2 5 2 0 20 q k K {"n": 1} {"m": 1} {t} t t`; got != want {
		t.Errorf("the retried job: %s, want %s", got, want)
	}
	if n := value[int](t, pool, `SELECT count(*) FROM pgqueue.history WHERE id IN (5, 6) AND day = 'infinity'`); n != 0 {
		t.Errorf("%d retried jobs are still in history", n)
	}
}

// C114: a bound below what has failed already ends the job, so that it is neither hidden nor run again.
func TestSetMaxAttemptsBelowTheFailures(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, key, attempt, failures, max_attempts, run_at) VALUES (1, 'q', 'k', 'K', 5, 5, 10, now() + '1 h')`)
	for _, c := range []struct{ n, want string }{{"6", "pending"}, {"5", "dead"}, {"20", "dead"}} {
		if got := run1(t, pool, `pgqueue.set_max_attempts(1, $1::int)`, c.n); got != c.want {
			t.Errorf("%s: %q, want %q", c.n, got, c.want)
		}
	}
	if got := value[string](t, pool, `SELECT concat_ws(' ', state, attempt, failures, max_attempts, day) FROM pgqueue.history`); got != "dead 5 5 20 infinity" {
		t.Errorf("history: %s", got)
	}
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, key) VALUES ('q', 'k', 'K')`) // the key is free
}

// Upkeep did not run: a cancellation makes the partition that it needs.
func TestCancelWithoutTodaysPartition(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `DO $$ BEGIN EXECUTE format('DROP TABLE pgqueue.history_%s', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$`)
	run(t, pool, `SELECT pgqueue.enqueue('k')`)
	if got := run1(t, pool, `pgqueue.cancel(1)`); got != "cancelled" {
		t.Errorf("cancel said %q", got)
	}
}

// Two retries of one job, and a retry beside an enqueue of its key.
func TestRetryRaces(t *testing.T) {
	pool := newPool(t, newDatabase(t), func(config *pgxpool.Config) { config.MaxConns = 8 })
	mustUp(t, pool, "")
	for round := range 40 {
		id := value[int64](t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, key, payload, metadata, tags)
			VALUES (nextval('pgqueue.jobs_id_seq'), now(), now(), now(), 'infinity', 1, 1, 1, 1, 1, 1, 'q', 'k', 'dead', 'K', '{}', '{}', '{}') RETURNING id`)
		answers := make(chan string, 3)
		for _, call := range []string{`SELECT outcome FROM pgqueue.retry($1)`, `SELECT outcome FROM pgqueue.retry($1)`,
			`SELECT CASE WHEN pgqueue.enqueue('k', queue => 'q', key => 'K') = $1 THEN 'replaced' ELSE 'inserted' END`} {
			go func() {
				var answer string
				if err := pool.QueryRow(context.Background(), call, id).Scan(&answer); err != nil {
					answer = err.Error()
				}
				answers <- answer
			}()
		}
		count := map[string]int{}
		for range 3 {
			count[<-answers]++
		}
		won := count["retried"] == 1 && count["live"] == 1 && count["replaced"] == 1
		lost := count["key_taken"] == 2 && count["inserted"] == 1
		if !won && !lost {
			t.Fatalf("round %d: %v", round, count)
		}
		if n := value[int](t, pool, `SELECT (SELECT count(*) FROM pgqueue.jobs) + (SELECT count(*) FROM pgqueue.history)`); won && n != 1 || lost && n != 2 {
			t.Fatalf("round %d: %d rows after %v", round, n, count)
		}
		run(t, pool, `TRUNCATE pgqueue.jobs, pgqueue.history`)
	}
	if err := migrations.Down(testContext(t), pool, "", quiet()); err != nil {
		t.Fatal(err)
	}
}
