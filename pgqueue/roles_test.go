package pgqueue_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// documentedRoles runs the SQL of docs/roles.md as it stands and returns a pool for a login role of it. Roles belong to a
// whole server, so this is one of the test's own.
func documentedRoles(t *testing.T) (*pgqueuetest.DB, func(role string) *pgxpool.Pool) {
	t.Helper()
	db := pgqueuetest.NewServer(t).DB(t)
	for _, block := range rolesPage(t) {
		exec(t, db.Pool, block)
	}
	return db, func(role string) *pgxpool.Pool {
		return poolLike(t, db.Pool, func(config *pgxpool.Config) { config.ConnConfig.User = role })
	}
}

// rolesPage are the two blocks of SQL of docs/roles.md.
func rolesPage(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```sql\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("docs/roles.md has %d blocks of SQL, want 2", len(blocks))
	}
	for i, block := range blocks {
		blocks[i], _, _ = strings.Cut(block, "```")
	}
	return blocks
}

// requireForbidden checks that a role may not do something.
func requireForbidden(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(testContext(t), sql); !isCode(err, "42501") {
		t.Errorf("%s: %v, want it forbidden", sql, err)
	}
}

// A worker that owns nothing does all of its work: claims, every verdict, the reaper, partitions ahead, retention.
func TestAWorkerWithoutOwnerRights(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	app := as("app")
	client := quietClient(t, app)
	for _, sql := range []string{
		`CREATE TABLE pgqueue.mine (id int)`, `DROP TABLE pgqueue.history_attention`, `TRUNCATE pgqueue.jobs`, `DELETE FROM pgqueue.history_attention`,
		`INSERT INTO pgqueue.queues (name) VALUES ('q')`, `SELECT pgqueue.retry(1)`, `SELECT pgqueue.pause('q')`, `ALTER TABLE pgqueue.jobs ADD COLUMN mine int`,
	} {
		requireForbidden(t, app, sql)
	}

	// Upkeep has something to do: no partition ahead, one that has expired, and an old dead job.
	exec(t, db.Pool, `DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date; BEGIN
		FOR i IN 0 .. 14 LOOP EXECUTE format('DROP TABLE pgqueue.history_%s', to_char(d + i, 'YYYYMMDD')); END LOOP;
		EXECUTE 'CREATE TABLE pgqueue.history_20200101 PARTITION OF pgqueue.history FOR VALUES FROM (''2020-01-01'') TO (''2020-01-02'')';
	END $$`)
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
		max_attempts, queue, kind, state, payload, metadata, tags)
		VALUES (900, now(), now(), now() - interval '91 days', 'infinity', 1, 1, 1, 1, 1, 1, 'q', 'k', 'dead', '{}', '{}', '{}'),
		       (901, now(), now(), now() - interval '89 days', 'infinity', 1, 1, 1, 1, 1, 1, 'q', 'k', 'dead', '{}', '{}', '{}')`)

	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(_ context.Context, job *pgqueue.Job[task]) error {
		switch {
		case job.Args.Do == "dead", job.Args.Do == "retried" && job.Attempt == 1:
			return pgqueue.RetryAfter(time.Millisecond, errors.New("no"))
		case job.Args.Do == "failed":
			return pgqueue.Permanent(errors.New("no"))
		case job.Args.Do == "cancelled":
			return pgqueue.Cancel(nil)
		}
		return nil
	})
	pgqueue.HandleTx(mux, func(ctx context.Context, tx pgx.Tx, _ *pgqueue.Job[other]) error {
		_, err := client.Enqueue(ctx, tx, task{}, pgqueue.WithKey("by a handler"))
		return err
	})
	ids := map[string]int64{}
	for do, want := range map[string]string{"": "succeeded", "retried": "succeeded", "stale": "succeeded", "failed": "failed", "dead": "dead", "cancelled": "cancelled"} {
		ids[want+do] = enqueue(t, client, app, task{Do: do}, pgqueue.WithMaxAttempts(2)).ID
	}
	ids["succeeded in a transaction"] = enqueue(t, client, app, other{}).ID
	abandon(t, db.Pool, ids["succeededstale"])
	failed := make(chan error, 100)
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"default": {}}, ReapInterval: 100 * time.Millisecond,
		Observer: &hooks{failed: func(_, operation string, err error) { failed <- errors.Join(errors.New(operation), err) }},
	})
	for name, id := range ids {
		want := name
		for _, state := range []string{"succeeded", "failed", "dead", "cancelled"} {
			if strings.HasPrefix(name, state) {
				want = state
			}
		}
		awaitState(t, db.Pool, id, want)
	}
	eventually(t, "partitions are made ahead", func() bool {
		return one[bool](t, db.Pool, `SELECT to_regclass('pgqueue.history_' || to_char((now() AT TIME ZONE 'UTC')::date + 14, 'YYYYMMDD')) IS NOT NULL`)
	})
	eventually(t, "the expired partition and the expired dead job are gone", func() bool {
		return one[bool](t, db.Pool, `SELECT to_regclass('pgqueue.history_20200101') IS NULL AND NOT EXISTS (SELECT FROM pgqueue.history WHERE id = 900)`)
	})
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.history WHERE id = 901`); n != 1 {
		t.Error("a dead job was deleted before its time")
	}
	if err := worker.end(t); err != nil {
		t.Fatal(err)
	}
	close(failed)
	for err := range failed {
		t.Errorf("the reaper: %v", err)
	}
}

// The other roles can do what the page says, and no more.
func TestDocumentedRoles(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	shop, onCall := as("shop"), as("on_call")
	producer, operator := quietClient(t, shop), quietClient(t, onCall)

	first := enqueue(t, producer, shop, task{N: 1}, pgqueue.WithKey("K"))
	requireOutcome(t, enqueue(t, producer, shop, task{N: 2}, pgqueue.WithKey("K")), pgqueue.Replaced)
	if _, err := producer.EnqueueMany(testContext(t), shop, []pgqueue.NewJob{{Args: task{N: 3}}, {Args: task{N: 4}}}); err != nil {
		t.Fatal(err)
	}
	exec(t, shop, `SELECT pgqueue.enqueue('task', '{"n": 5}')`)
	for _, sql := range []string{`DELETE FROM pgqueue.jobs`, `SELECT FROM pgqueue.history`, `SELECT pgqueue.cancel(1)`, `SELECT pgqueue.ensure_history()`} {
		requireForbidden(t, shop, sql)
	}

	if err := operator.PauseQueue(testContext(t), onCall, "default", "maintenance"); err != nil {
		t.Fatal(err)
	}
	if state, err := operator.SetMaxAttempts(testContext(t), onCall, first.ID, 7); err != nil || state != pgqueue.JobPending {
		t.Fatalf("set max attempts: %s, %v", state, err)
	}
	exec(t, db.Pool, `DO $$ BEGIN EXECUTE format('DROP TABLE pgqueue.history_%s', to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')); END $$`)
	if state, err := operator.Cancel(testContext(t), onCall, first.ID); err != nil || state != pgqueue.JobCancelled {
		t.Fatalf("cancel: %s, %v", state, err)
	}
	if err := operator.ResumeQueue(testContext(t), onCall, "default"); err != nil {
		t.Fatal(err)
	}
	exec(t, db.Pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
		max_attempts, queue, kind, state, payload, metadata, tags)
		VALUES (900, now(), now(), now(), 'infinity', 1, 1, 1, 1, 1, 1, 'default', 'task', 'dead', '{}', '{}', '{}')`)
	if err := operator.Retry(testContext(t), onCall, 900); err != nil {
		t.Fatal(err)
	}
	if s := get(t, operator, onCall, first.ID); s.State != pgqueue.JobCancelled || s.MaxAttempts != 7 {
		t.Errorf("the cancelled job: %+v", s)
	}
	stats, err := operator.Stats(testContext(t))
	if err != nil || len(stats) != 1 || stats[0].Ready[0].N != 4 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	for _, sql := range []string{
		`DELETE FROM pgqueue.jobs`, `UPDATE pgqueue.jobs SET priority = 1`, `INSERT INTO pgqueue.queues (name) VALUES ('q')`, `SELECT pgqueue.ensure_history()`,
	} {
		requireForbidden(t, onCall, sql)
	}
}

// The watcher reads every view and asks every question, and sees nothing that a handler is given. The worker reports itself.
func TestDocumentedRoles_WatcherAndViewer(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	dashboard, app, onCall, shop := as("dashboard"), as("app"), as("on_call"), as("shop")
	exec(t, shop, `SELECT pgqueue.enqueue('task', '{"secret": true}')`)
	exec(t, app, `SELECT pgqueue.heartbeat('w1', 'host', 1, 'v1', NULL, '10 s', false, '{"default": {"workers": 2}}', '{"task": {}}')`)
	views := []string{"queue_stats", "active_jobs", "stuck_jobs", "needs_attention", "job_log", "attempts", "live_workers"}
	for _, pool := range []*pgxpool.Pool{dashboard, onCall} {
		for _, view := range views {
			if text := one[string](t, pool, `SELECT coalesce(string_agg(to_jsonb(v)::text, ' '), '') FROM pgqueue.`+view+` v`); strings.Contains(text, "secret") {
				t.Errorf("%s shows the payload: %s", view, text)
			}
		}
		if n := one[int](t, pool, `SELECT ready FROM pgqueue.queue_stats WHERE queue = 'default'`); n != 1 {
			t.Errorf("%d jobs are ready, want 1", n)
		}
		if n := one[int](t, pool, `SELECT ready1 FROM pgqueue.cached_stats('0')`); n != 1 {
			t.Errorf("%d jobs are ready by cached_stats, want 1", n)
		}
		if answer := one[string](t, pool, `SELECT pgqueue.why_not_running(1)`); !strings.Contains(answer, "nothing is in its way") {
			t.Errorf("why_not_running: %s", answer)
		}
	}
	for _, sql := range []string{
		`SELECT FROM pgqueue.jobs`, `SELECT FROM pgqueue.history`, `SELECT FROM pgqueue.stats_cache`, `SELECT pgqueue.retry(1)`, `SELECT pgqueue.goodbye('w1')`,
		`SELECT pgqueue.heartbeat('w1', '', 1, '', NULL, '10 s', false, '{}', '{}')`, `UPDATE pgqueue.needs_attention SET queue = 'x'`, `DELETE FROM pgqueue.workers`,
	} {
		requireForbidden(t, dashboard, sql)
	}
	if n := one[int](t, onCall, `SELECT count(*) FROM pgqueue.jobs WHERE payload->>'secret' = 'true'`); n != 1 {
		t.Error("the viewer does not see the payload")
	}
	for _, view := range append(views, "workers", "stats_cache") {
		requireForbidden(t, shop, `SELECT FROM pgqueue.`+view)
	}
	for _, table := range []string{"workers", "stats_cache", "needs_attention"} {
		requireForbidden(t, app, `DELETE FROM pgqueue.`+table)
	}
	for _, sql := range []string{`SELECT pgqueue.why_not_running(1)`, `SELECT pgqueue.cached_stats('0')`, `SELECT pgqueue.goodbye('w1')`} {
		requireForbidden(t, shop, sql)
	}
	exec(t, app, `SELECT pgqueue.goodbye('w1'), pgqueue.cached_stats('0')`)
	if n := one[int](t, db.Pool, `SELECT count(*) FROM pgqueue.workers`); n != 0 {
		t.Error("the worker did not say goodbye")
	}
}

// Row level security on the table holds where a view was made to ask with its caller's rights, which Postgres 15 and later can.
func TestViewsReadWithTheOwnersRights(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	onCall := as("on_call")
	exec(t, db.Pool, `SELECT pgqueue.enqueue('task', queue => q) FROM unnest('{mine,theirs}'::text[]) q`)
	exec(t, db.Pool, `ALTER TABLE pgqueue.jobs ENABLE ROW LEVEL SECURITY`)
	exec(t, db.Pool, `CREATE POLICY mine ON pgqueue.jobs TO pgqueue_viewer USING (queue = 'mine')`)
	count := func(table string) int { return one[int](t, onCall, `SELECT count(*) FROM pgqueue.`+table) }
	if table, view := count("jobs"), count("job_log"); table != 1 || view != 2 {
		t.Errorf("the table shows %d jobs and the view %d, want 1 and 2, as docs/roles.md says", table, view)
	}
	if one[int](t, db.Pool, `SELECT current_setting('server_version_num')::int`) >= 150000 {
		exec(t, db.Pool, `ALTER VIEW pgqueue.job_log SET (security_invoker = true)`)
		if view := count("job_log"); view != 1 {
			t.Errorf("with security_invoker the view shows %d jobs, want 1", view)
		}
	}
}
