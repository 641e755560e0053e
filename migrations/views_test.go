package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// jobsOfEveryKind are live and finished jobs, one of each fate.
func jobsOfEveryKind(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	run(t, pool, `INSERT INTO pgqueue.jobs (id, queue, kind, key, state, run_at, attempt, generation, claimed_generation, claimed_at, lease_expires_at, claimed_by, cancel_requested_at, failures, errors) VALUES
		(1, 'mail', 'send', 'a', 'pending', now() + interval '1 h', 0, 1, 0, NULL, NULL, NULL, NULL, 0, NULL),
		(2, 'mail', 'send', NULL, 'running', now(), 2, 1, 1, now() - interval '90 s', now() + interval '20 s', 'w1', NULL, 1,
			'[{"code": "x", "message": "m", "attempt": 1, "at": "2030-01-01T10:00:05.5+00:00", "started": "2030-01-01T12:00:00+02:00", "by": "w0"}]'),
		(3, 'mail', 'send', NULL, 'running', now(), 1, 2, 1, now() - interval '90 s', now() - interval '20 s', 'w1', NULL, 0, NULL),
		(4, 'mail', 'send', NULL, 'running', now(), 1, 1, 1, now() - interval '90 s', now() + interval '20 s', 'w1', now() - interval '61 s', 0, NULL),
		(5, 'mail', 'send', NULL, 'running', now(), 1, 1, 1, now() - interval '90 s', now() + interval '20 s', 'w1', now() - interval '50 s', 0, NULL),
		(6, 'mail', 'send', NULL, 'running', now(), 1, 1, 1, now() - interval '90 s', now() + interval '20 s', 'silent', NULL, 0, NULL),
		(7, 'mail', 'send', NULL, 'running', now(), 1, 1, 1, now() - interval '90 s', now() + interval '20 s', 'unlisted', NULL, 0, NULL),
		(8, 'mail', 'send', NULL, 'pending', now(), 1, 1, 1, '2030-01-01Z', NULL, 'w1', NULL, 1, '[{"code": "lease_expired", "attempt": 1, "at": "2030-01-01T00:01:00+00:00", "by": "w1"}]')`)
	beat(t, pool, "w1", `{"mail": {}}`, `{}`)
	beat(t, pool, "silent", `{"mail": {}}`, `{}`)
	run(t, pool, `UPDATE pgqueue.workers SET seen_at = now() - interval '31 s' WHERE id = 'silent'`)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, claimed_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, claimed_by, payload, metadata, tags, errors)
		SELECT id, now(), now(), claimed, '2030-01-01 00:00:09Z', CASE WHEN state IN ('failed', 'dead') THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END,
			attempt, 1, 1, 1, 1, 3, 'mail', 'send', state, 'w1', '{"secret": 1}', '{}', '{}', errors::jsonb
		FROM (VALUES (11, 'succeeded', 3, '2030-01-01 00:00:08Z'::timestamptz, '[{"code": "x", "attempt": 2, "at": "2030-01-01T00:00:05+00:00", "by": "w2"}]'),
		             (12, 'cancelled', 0, NULL, NULL), (13, 'cancelled', 1, '2030-01-01 00:00:08Z', NULL),
		             (14, 'cancelled', 1, '2030-01-01 00:00:08Z', '[{"code": "lease_expired", "attempt": 1, "at": "2030-01-01T00:00:09Z", "by": "w1"}]'),
		             (15, 'failed', 1, '2030-01-01 00:00:08Z', '[{"code": "bad", "message": "no", "attempt": 1, "at": "2030-01-01T00:00:09+00:00", "started": "2030-01-01T00:00:07+00:00", "by": "w1"}]'),
		             (16, 'dead', 9, '2030-01-01 00:00:08Z', '[7, {"code": "odd", "attempt": "many", "at": "soon", "started": "2030-13-45T00:00:00Z"}, {"code": "x", "attempt": 9}]')) v (id, state, attempt, claimed, errors)`)
}

func TestViews(t *testing.T) {
	pool := installed(t, "")
	run(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''UTC''', current_database()); END $$`)
	pool = newPool(t, pool.Config().ConnString(), nil)
	jobsOfEveryKind(t, pool)
	for _, c := range []struct {
		query string
		want  []string
	}{
		{`SELECT concat_ws(' ', id, attempt, worker, superseded, date_trunc('second', running_for), lease_left > '0') FROM pgqueue.active_jobs ORDER BY id`,
			[]string{"2 2 w1 f 00:01:30 t", "3 1 w1 t 00:01:30 f", "4 1 w1 f 00:01:30 t", "5 1 w1 f 00:01:30 t", "6 1 silent f 00:01:30 t", "7 1 unlisted f 00:01:30 t"}},
		{`SELECT concat_ws(' ', id, reason) FROM pgqueue.stuck_jobs ORDER BY id`,
			[]string{"3 the lease has run out and nobody has returned the job yet", "4 it was asked to stop and goes on", "6 its worker is silent"}},
		{`SELECT concat_ws(' ', id, state, code, message, worker) FROM pgqueue.needs_attention ORDER BY id`, []string{"15 failed bad no w1", "16 dead x w1"}},
		{`SELECT concat_ws(' ', id, key, state, code, finished_at, day) FROM pgqueue.job_log WHERE id IN (1, 2, 15, 16) ORDER BY id`,
			[]string{"1 a pending", "2 running x", "15 failed bad 2030-01-01 00:00:09+00 infinity", "16 dead x 2030-01-01 00:00:09+00 infinity"}},
		{`SELECT string_agg(id::text, ' ' ORDER BY id) FROM pgqueue.job_log`, []string{"1 2 3 4 5 6 7 8 11 12 13 14 15 16"}},
		{`SELECT concat_ws(' ', job_id, attempt, outcome, worker, started_at, '-', ended_at, code, message) FROM pgqueue.attempts WHERE job_id NOT IN (3, 4, 5, 6, 7) AND outcome <> 'running'
			ORDER BY job_id, attempt, code`, []string{
			"2 1 failed w0 2030-01-01 10:00:00+00 - 2030-01-01 10:00:05.5+00 x m",
			"8 1 failed w1 2030-01-01 00:00:00+00 - 2030-01-01 00:01:00+00 lease_expired",
			"11 2 failed w2 - 2030-01-01 00:00:05+00 x",
			"11 3 succeeded w1 2030-01-01 00:00:08+00 - 2030-01-01 00:00:09+00",
			"13 1 cancelled w1 2030-01-01 00:00:08+00 - 2030-01-01 00:00:09+00",
			"14 1 failed w1 2030-01-01 00:00:08+00 - 2030-01-01 00:00:09+00 lease_expired",
			"15 1 failed w1 2030-01-01 00:00:07+00 - 2030-01-01 00:00:09+00 bad no",
			"16 9 failed 2030-01-01 00:00:08+00 - x",
			"16 failed - odd",
			"16 failed -",
		}},
		{`SELECT string_agg(job_id::text, ' ' ORDER BY job_id) FROM pgqueue.attempts WHERE outcome = 'running'`, []string{"2 3 4 5 6 7"}},
	} {
		if got := rows(t, pool, c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant:\n%s", c.query, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	// Whoever may read a view may not read what the handlers are given.
	if shown := rows(t, pool, `SELECT attrelid::regclass || '.' || attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = 'pgqueue'::regnamespace AND c.relkind = 'v' AND attname IN ('payload', 'metadata', 'result', 'errors')`); len(shown) > 0 {
		t.Errorf("shown by views: %q", shown)
	}
}

// What people ask of the views goes by index, also where the statistics are those of an idle hour.
func TestViews_AreAnsweredByIndex(t *testing.T) {
	n := manyOr(200_000, 3_000_000)
	pool := installed(t, "")
	run(t, pool, `DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'pgqueue'::regnamespace AND c.relkind = 'r' LOOP
			EXECUTE format('ALTER TABLE pgqueue.%I SET (autovacuum_enabled = off)', t); END LOOP; END $$`)
	run(t, pool, `SELECT pgqueue.enqueue('k')`)
	run(t, pool, `ANALYZE pgqueue.jobs`)
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind, priority, run_at, state, claimed_at, lease_expires_at, claimed_by)
		SELECT 'q' || g % 4, 'k', 1 + g % 4, now() + g * interval '1 s', CASE WHEN g % 1000 = 0 THEN 'running' ELSE 'pending' END, now(), now(), 'w1' FROM generate_series(1, $1::int) g`, n)
	run(t, pool, `INSERT INTO pgqueue.history (id, run_at, created_at, finished_at, day, attempt, generation, error_count, priority, failures,
			max_attempts, queue, kind, state, payload, metadata, tags)
		SELECT $1::int + g, now(), now(), now() - g * interval '1 s', CASE WHEN g % 2 = 0 THEN 'infinity' ELSE (now() AT TIME ZONE 'UTC')::date END, 1, 1, 1, 1, 1, 1, 'q' || g % 4, 'k',
			CASE WHEN g % 2 = 0 THEN 'dead' ELSE 'succeeded' END, '{}', '{}', '{}' FROM generate_series(1, $1::int) g`, n)
	today := value[string](t, pool, `SELECT 'history_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')`)
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			run(t, pool, `VACUUM ANALYZE pgqueue.jobs, pgqueue.history`)
		}
		for _, c := range []struct{ query, by string }{
			{`SELECT * FROM pgqueue.job_log WHERE id = 5000`, "jobs_pkey"},
			{`SELECT * FROM pgqueue.job_log ORDER BY id DESC LIMIT 50`, "Merge Append"},
			{`SELECT * FROM pgqueue.job_log WHERE queue = 'q1' ORDER BY id DESC LIMIT 50`, "Merge Append"},
			{`SELECT * FROM pgqueue.job_log WHERE id < 300000 ORDER BY id DESC LIMIT 50`, "Merge Append"},
			{`SELECT * FROM pgqueue.job_log WHERE queue = 'q1' AND state = 'running'  AND day IS NULL`, "jobs_running"},
			{`SELECT * FROM pgqueue.attempts WHERE job_id = 5000 ORDER BY attempt`, "jobs_pkey"},
			{`SELECT * FROM pgqueue.attempts ORDER BY job_id DESC LIMIT 50`, "Merge Append"},
			{`SELECT * FROM pgqueue.needs_attention WHERE id = 5000`, "history_attention_pkey"},
			{`SELECT * FROM pgqueue.needs_attention ORDER BY id DESC LIMIT 50`, "history_attention_pkey"},
			{`SELECT * FROM pgqueue.needs_attention ORDER BY finished_at DESC LIMIT 50`, "history_attention_finished"},
			{`SELECT * FROM pgqueue.needs_attention WHERE queue = 'q1' ORDER BY finished_at DESC LIMIT 50`, "history_attention_queue"},
			{`SELECT * FROM pgqueue.active_jobs WHERE queue = 'q1'`, "jobs_running"},
			{`SELECT * FROM pgqueue.active_jobs`, "jobs_running"},
			{`SELECT * FROM pgqueue.active_jobs WHERE id = 5000`, "Index Scan using jobs_"}, // few run: either index will do
			{`SELECT * FROM pgqueue.stuck_jobs WHERE queue = 'q1'`, "jobs_running"},
			{`SELECT * FROM pgqueue.stuck_jobs`, "jobs_running"},
		} {
			plan := strings.Join(rows(t, pool, `EXPLAIN `+c.query), "\n")
			if !strings.Contains(plan, c.by) {
				t.Errorf("analyzed %v: %s is not answered by %s:\n%s", analyzed, c.query, c.by, plan)
			}
			for _, table := range []string{"jobs", "history_attention", today} {
				if strings.Contains(plan, "Seq Scan on "+table+" ") {
					t.Errorf("analyzed %v: %s reads all of %s:\n%s", analyzed, c.query, table, plan)
				}
			}
		}
	}
}
